"""Folds norms before the fine-tuning, so that the export does not change the trained kernels.

The exporter's rewrites change kernels: folding multiplies their rows with a LayerNorm's scale, and
centring subtracts means. Zeros survive folding but not centring; quantised or clustered kernels
survive neither. So scales are folded into the kernels before the training and stay 1, which makes
the later folding an identity. Centring is skipped, so each norm has to compute a mean.
"""

from __future__ import annotations

import numpy as np

from keras_vit.deploy.compression.dense import with_weights
from keras_vit.deploy.graph.rewrites import REWRITES, rewrite
from keras_vit.deploy.resolve import parameters_of
from keras_vit.models.image_model import ImageModel


def fold_norms(model: ImageModel) -> ImageModel:
    """An equivalent model in which norms before Dense layers have no scale and no shift."""
    weights = parameters_of(model)
    folded = rewrite(model.spec, dict(weights), model.preprocessing, {"fold_norms"}, uint8=False)
    for path, value in weights.items():
        if path not in folded:
            folded[path] = (np.ones_like if path.endswith("/gamma") else np.zeros_like)(value)
    return with_weights(model, folded)


def kept_rewrites(quantised: bool) -> frozenset[str]:
    """The rewrites that leave a compressed model's kernels as they were trained.

    Args:
        quantised: whether they were trained for a quantised file. Then the inputs and outputs of
            every Dense layer, whose ranges were learnt, must be those of training: values keep
            their bias.
    """
    spoiling = {"centre"}
    if quantised:
        spoiling |= {"attention_biases", "scaled_stream"}
    return frozenset(REWRITES) - spoiling
