"""Clustering: each kernel has only a few distinct values, which are trained (Han et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras_vit._keras import keras
from keras_vit.deploy.compression._tfmot import tfmot
from keras_vit.deploy.compression.dense import wrap_dense
from keras_vit.models.image_model import ImageModel

_clustering = tfmot.clustering.keras


def train_clustered(
    model: ImageModel,
    train: Callable[[keras.Model, list], None],
    clusters: int = 16,
    keep_zeros: bool = False,
) -> ImageModel:
    """Fine-tunes a model in which every weight has the value of its kernel's nearest centroid.

    Args:
        model: the trained model.
        train: a function that trains a model with callbacks.
        clusters: number of distinct values in each Dense kernel.
        keep_zeros: whether zero weights stay zero; zero is then one of the values.

    Returns:
        A model whose Dense kernels have this number of distinct values.
    """
    start = _clustering.CentroidInitialization.KMEANS_PLUS_PLUS
    wrapped = wrap_dense(
        model,
        lambda dense: _clustering.cluster_weights(
            dense, clusters, start, preserve_sparsity=keep_zeros
        ),
    )
    train(wrapped.model, [])
    return wrapped.unwrapped(_clustered)


def _clustered(wrapper) -> np.ndarray:
    wrapper.update_clustered_weights_associations()
    return np.asarray(wrapper.layer.kernel)
