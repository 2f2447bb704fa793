"""The metrics on held-out images, each counted once, on any number of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._keras import keras
from keras_vit.training.engines import Engine
from keras_vit.training.tasks import Task


class HeldOut:
    """Evaluates a learner on held-out images.

    All batches have one size, which every device can divide and XLA compiles once. The last one is
    filled with copies whose weight in every metric is 0. A process reads only its own rows.

    Args:
        learner: the model from pixels to predictions.
        task: its loss and metrics.
        engine: where it is computed; this class is used in its scope.
        batches: a function of indices and a batch size that returns a `tf.data.Dataset` of images
            and targets in the order of the indices.
        indices: the indices of the images, (n,).
        batch_size: the largest size of a batch.
        callbacks: Keras' callbacks of the evaluation.
        jit: whether to compile it by XLA.

    Raises:
        UsageError: there are no images.
    """

    def __init__(
        self,
        learner: Any,
        task: Task,
        engine: Engine,
        batches: Callable[[np.ndarray, int], Any],
        indices: np.ndarray,
        batch_size: int,
        callbacks: list[Any],
        jit: bool = False,
    ):
        if not len(indices):
            raise UsageError("no image is held out; evaluation needs at least one.")
        self._callbacks = callbacks
        places = _places(len(indices), batch_size, engine.replicas)
        self._steps, size = places.shape
        own = places[:, engine.rows(size)]
        images = batches(indices[np.minimum(own, len(indices) - 1).ravel()], own.shape[1])
        self._batches = engine.distribute(_weighted(images, own < len(indices)))
        self._model = keras.Model(learner.input, learner.output)
        # Keras divides a loss by the number of images, which counts the copies; a weighted metric
        # is divided by the sum of the weights.
        loss = task.loss(training=False)
        mean = keras.metrics.MeanMetricWrapper(loss.call, name="mean")
        self._model.compile(loss=loss, weighted_metrics=[mean, *task.metrics()], jit_compile=jit)

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
