"""The hyperparameters of a text tower, whose blocks are those of a ViT."""

from __future__ import annotations

import dataclasses

from keras_vit.encoder.ops import Activation


@dataclasses.dataclass(frozen=True)
class TextSpec:
    """The text encoder of CLIP (Radford et al. 2021) or of SigLIP (Zhai et al. 2023).

    Attributes:
        length: the largest number of tokens of a text.
        hidden_dim, depth, num_heads, mlp_dim, activation, layer_norm_eps: as in `ViTSpec`.
        projection_dim: width of its output, the space that texts share with images.
        projection_bias: whether the last layer has a bias.
        causal: whether each token attends only to itself and to those before it.
    """

    length: int
    hidden_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    activation: Activation
    layer_norm_eps: float
    projection_dim: int
    projection_bias: bool
    causal: bool
