"""The model that is trained: another model with its preprocessing in front, and its training step.

A `Learner` takes the pixels as they come from the input pipeline, so that only bytes are copied to
the device. Its step can accumulate the gradients of parts of a batch, which needs less memory.
"""

from __future__ import annotations

from typing import Any

from keras_vit._keras import LEGACY, backend, building, keras, ops
from keras_vit.models.image_model import ImageModel
from keras_vit.training.tasks import Task


class Learner(keras.Model):
    """A functional Keras model from pixels to the predictions of a task, with `accumulate`.

    The gradients of a batch are the mean of those of its `accumulate` parts. They are added up
    before they are clipped and applied, so the step equals that of the whole batch.

    Args:
        model: the model to train, whose layers and weights are used.
        task: the predictions, the loss and the metrics.
        accumulate: the number of equal parts that each batch is divided into.
        pixels: the dtype of the images; None to read features instead, with the head alone.
    """

    def __init__(
        self, model: ImageModel, task: Task, accumulate: int = 1, pixels: str | None = "uint8"
    ):
        if pixels is None:
            inputs = keras.Input(model.features.shape[1:], name="features")
            outputs = task.of_output(model, keras.Model(model.features, model.output)(inputs))
        else:
            inputs = keras.Input((*model.image_size, 3), dtype=pixels, name="pixels")
            outputs = task.predictions(model, inputs)
        with building:
            super().__init__(inputs=inputs, outputs=outputs, name="learner")
        self.accumulate = accumulate
        if LEGACY:  # The metrics of a worker are those of the whole batch; they are not added up.
            self.distribute_reduction_method = "first"

    def train_step(self, *arguments):
        """One step of the optimiser; Keras calls it with (data), on JAX with (state, data)."""
        if self.accumulate == 1:
            return super().train_step(*arguments)
        return (self._jax_step if backend() == "jax" else self._tensorflow_step)(*arguments)

    def _tensorflow_step(self, data):
        import tensorflow as tf

        parts = [_parts(x, self.accumulate) for x in data]
        variables = self.trainable_variables

        def add(part, total):
            x, y, *weights = (each[part] for each in parts)
            with tf.GradientTape() as tape:
                predictions = self(x, training=True)
                loss = self._part_loss(x, y, predictions, *weights)
                scaled = _scaled(self.optimizer, loss / self.accumulate)
            gradients = tape.gradient(scaled, variables, unconnected_gradients="zero")
            self._update_metrics(x, y, predictions, *weights)
            return part + 1, [a + b for a, b in zip(total, gradients, strict=True)]

        # A loop rather than a longer graph, whose parts XLA could compute at the same time.
        zeros = [tf.zeros_like(variable) for variable in variables]
        _, total = tf.while_loop(lambda part, _: part < self.accumulate, add, (0, zeros))
        if LEGACY and hasattr(self.optimizer, "get_unscaled_gradients"):
            total = self.optimizer.get_unscaled_gradients(total)
        self.optimizer.apply_gradients(zip(total, variables, strict=True))
        return self.get_metrics_result()

    def _part_loss(self, x, y, predictions, weights=None):
        """The loss of a part; it also updates the mean that Keras reports as `loss`."""
        if LEGACY:  # `compiled_loss` divides by the number of replicas and updates the mean
            return self.compiled_loss(y, predictions, weights, regularization_losses=self.losses)
        loss = self._compute_loss(
            x=x, y=y, y_pred=predictions, sample_weight=weights, training=True
        )
        self._loss_tracker.update_state(loss, sample_weight=ops.shape(x)[0])
        return loss

    def _update_metrics(self, x, y, predictions, weights=None):
        if LEGACY:  # `compute_metrics` also returns results, for which all replicas wait
            self.compiled_metrics.update_state(y, predictions, weights)
        else:
            self.compute_metrics(x, y, predictions, weights)

    def _jax_step(self, state, data):
        import jax

        trainable, non_trainable, optimizer, metrics = state
        gradients_of = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)

        def add(carry, part):
            total, non_trainable, metrics = carry
            x, y, weights = (*part, None)[:3]
            (_, aux), gradients = gradients_of(
                trainable, non_trainable, metrics, x, y, weights,
                training=True, optimizer_variables=optimizer,
            )  # fmt: skip
            loss, predictions, non_trainable, metrics = aux
            logs, metrics = self._update_metrics_variables(
                metrics, loss, x, y, predictions, weights
            )
            total = [a + b / self.accumulate for a, b in zip(total, gradients, strict=True)]
            return (total, non_trainable, metrics), logs

        zeros = [jax.numpy.zeros_like(variable) for variable in trainable]
        parts = tuple(_parts(x, self.accumulate) for x in data)
        (total, non_trainable, metrics), logs = jax.lax.scan(
            add, (zeros, non_trainable, metrics), parts
        )
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, total, trainable)
        logs = jax.tree_util.tree_map(lambda values: values[-1], logs)
        return logs, (trainable, non_trainable, optimizer, metrics)


def _parts(x: Any, count: int) -> Any:
    # A part has every count-th image, so that on several devices of JAX each holds some of it.
    x = ops.reshape(x, (x.shape[0] // count, count, *x.shape[1:]))  # (b / count, count, ...)
    return ops.transpose(x, (1, 0, *range(2, len(x.shape))))  # (count, b / count, ...)


def _scaled(optimizer: Any, loss: Any) -> Any:
    if not LEGACY:
        return optimizer.scale_loss(loss)
    return optimizer.get_scaled_loss(loss) if hasattr(optimizer, "get_scaled_loss") else loss
