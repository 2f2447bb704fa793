"""Pruning: the smallest weights become zero while the others are trained (Zhu & Gupta 2017)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras_vit._keras import keras
from keras_vit.deploy.compression._tfmot import tfmot
from keras_vit.deploy.compression.dense import wrap_dense
from keras_vit.models.image_model import ImageModel

_sparsity = tfmot.sparsity.keras


def train_pruned(
    model: ImageModel,
    train: Callable[[keras.Model, list], None],
    steps: int,
    sparsity: float = 0.5,
    pattern: tuple[int, int] | None = None,
) -> ImageModel:
    """Fine-tunes a model while its smallest weights are set to zero.

    Args:
        model: the trained model.
        train: a function that trains a model with callbacks.
        steps: number of training steps; the fraction of zeros grows over the first half of them.
        sparsity: the final fraction of zeros in each Dense kernel.
        pattern: (2, 4) for two zeros among any four inputs in a row, from the first step, instead
            of `sparsity`.

    Returns:
        A model whose kernels have these zeros.
    """
    if pattern:
        schedule = _sparsity.ConstantSparsity(pattern[0] / pattern[1], begin_step=0, frequency=1)
    else:
        half = max(steps // 2, 1)
        schedule = _sparsity.PolynomialDecay(
            0.0, sparsity, begin_step=0, end_step=half, frequency=max(half // 20, 1)
        )
    wrapped = wrap_dense(
        model,
        lambda dense: _sparsity.prune_low_magnitude(dense, schedule, sparsity_m_by_n=pattern),
    )
    wrappers = list(wrapped.wrappers.values())
    train(wrapped.model, [PruningStep(wrappers)])
    return wrapped.unwrapped(_masked)


class PruningStep(_sparsity.UpdatePruningStep):
    """tfmot's callback with a list of wrappers, because tfmot does not find them inside blocks."""

    def __init__(self, wrappers: list):
        super().__init__()
        self.wrappers = wrappers

    def on_train_begin(self, logs=None):
        """Starts every wrapper's count of steps."""
        self.prunable_layers = self.wrappers
        for wrapper in self.wrappers:
            wrapper.pruning_step.assign(0)


def _masked(wrapper) -> np.ndarray:
    ((weight, mask, _),) = wrapper.pruning_vars
    return np.asarray(weight) * np.asarray(mask)
