"""The metrics on held-out images, each counted once, on any number of devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._keras import keras
from keras_vit.training.prepared import Prepared


class HeldOut:
    """Evaluates a learner on held-out images.

    All batches have one size, which every device can divide and XLA compiles once. The last one is
    filled with copies whose weight in every metric is 0. A process reads only its own rows.

    Args:
        ready: the training; this class is used in the scope of its engine.
        callbacks: Keras' callbacks of the evaluation.

    Raises:
        UsageError: there are no images.
    """

    def __init__(self, ready: Prepared, callbacks: list[Any]):
        learner, engine, indices = ready.learner, ready.engine, ready.split.held_out
        if not len(indices):
            raise UsageError("no image is held out; evaluation needs at least one.")
        self._callbacks = callbacks
        places = _places(len(indices), ready.recipe.batch_size, engine.replicas)
        self._steps, size = places.shape
        own = places[:, engine.rows(size)]
        own_indices = indices[np.minimum(own, len(indices) - 1).ravel()]
        images = ready.held_out_batches(own_indices, own.shape[1])
        self._batches = engine.distribute(_weighted(images, own < len(indices)))
        self._model = keras.Model(learner.input, learner.output)
        # Keras divides a loss by the number of images, which counts the copies; a weighted metric
        # is divided by the sum of the weights.
        loss = ready.task.loss(training=False)
        mean = keras.metrics.MeanMetricWrapper(loss.call, name="mean")
        self._model.compile(
            loss=loss,
            weighted_metrics=[mean, *ready.task.metrics()],
            jit_compile=ready.recipe.jit and engine.can_jit,
        )

    def evaluate(self) -> dict[str, float]:
        """The metrics of the current weights: the loss, and those of the task."""
        found = self._model.evaluate(
            self._batches,
            steps=self._steps,
            callbacks=self._callbacks,
            verbose=0,
            return_dict=True,
        )
        return found | {"loss": found.pop("mean")}


def _places(count: int, batch_size: int, replicas: int) -> np.ndarray:
    """The places of `count` images in batches, (steps, size); those from `count` on are copies."""
    size = min(batch_size, -(-count // replicas) * replicas)
    steps = -(-count // size)
    return np.arange(steps * size).reshape(steps, size)  # (steps * size,) to (steps, size)


def _weighted(batches: Any, counted: np.ndarray) -> Any:
    """Batches of one size with the weight of each row: 1 where it is counted, (steps, size)."""
    import tensorflow as tf

    size = counted.shape[1]

    def joined(batch, weights):
        return (*(tf.ensure_shape(x, (size, *x.shape[1:])) for x in batch), weights)

    weights = tf.data.Dataset.from_tensor_slices(counted.astype(np.float32))
    return tf.data.Dataset.zip((batches, weights)).map(joined)
