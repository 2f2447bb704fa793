"""What is folded before the fine-tuning, so that the export leaves the trained kernels alone.

The exporter's rewrites change kernels: a LayerNorm's scale multiplies their rows, centring takes
means from them. A zero stays zero under the first and not under the second; a grid of integers or a
set of clusters survives neither. So the scales move into the kernels before training starts and
stay 1, where folding them is exact and changes nothing; and centring is left out, which costs each
norm its mean.
"""

from __future__ import annotations

import numpy as np

from keras_vit.deploy.compression.dense import with_weights
from keras_vit.deploy.graph.rewrites import REWRITES, rewrite
from keras_vit.deploy.resolve import parameters_of
from keras_vit.models.image_model import ImageModel


def fold_norms(model: ImageModel) -> ImageModel:
    """A model of the same function in which the norms that Dense layers read do not scale."""
    weights = parameters_of(model)
    folded = rewrite(model.spec, dict(weights), model.preprocessing, {"fold_norms"}, uint8=False)
    for path, value in weights.items():
        if path not in folded:
            folded[path] = (np.ones_like if path.endswith("/gamma") else np.zeros_like)(value)
    return with_weights(model, folded)


def kept_rewrites(quantised: bool) -> frozenset[str]:
    """The rewrites that leave a compressed model's kernels as they were trained.

    Args:
        quantised: whether they were trained for a quantised file. Then every Dense layer must read
            what it did in training, so values keep their bias, and write what it did, whose
            ranges were learnt.
    """
    spoiling = {"centre"}
    if quantised:
        spoiling |= {"attention_biases", "scaled_stream"}
    return frozenset(REWRITES) - spoiling
