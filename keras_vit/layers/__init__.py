"""The layers of Vision Transformers, hybrids and BiT."""

from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.distilled_head import DistilledHead
from keras_vit.layers.group_norm import GroupNorm
from keras_vit.layers.mlp import MLP
from keras_vit.layers.patch_encoder import PatchEncoder
from keras_vit.layers.patches import Patches
from keras_vit.layers.pooling import (
    AveragePooling,
    DistilledPooling,
    MAPPooling,
    TokenMeanPooling,
    TokenPooling,
)
from keras_vit.layers.query_tokens import QueryTokens
from keras_vit.layers.residual_unit import PreActivationUnit, ResidualUnit
from keras_vit.layers.std_conv import StdConv
from keras_vit.layers.stochastic_depth import StochasticDepth
from keras_vit.layers.token_encoder import TokenAt, TokenEncoder
from keras_vit.layers.transformer_block import AttentionScores, TransformerBlock

__all__ = [
    "MLP",
    "AttentionScores",
    "AveragePooling",
    "DistilledHead",
    "DistilledPooling",
    "GroupNorm",
    "MAPPooling",
    "MultiHeadAttention",
    "PatchEncoder",
    "Patches",
    "PreActivationUnit",
    "QueryTokens",
    "ResidualUnit",
    "StdConv",
    "StochasticDepth",
    "TokenAt",
    "TokenEncoder",
    "TokenMeanPooling",
    "TokenPooling",
    "TransformerBlock",
]
