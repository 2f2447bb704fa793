"""Models: a spec in, a `keras.Model` out."""

from keras_vit.models.variants import (
    ViT_B8,
    ViT_B16,
    ViT_B16_gap,
    ViT_B32,
    ViT_B32_gap,
    ViT_H14,
    ViT_L16,
    ViT_L32,
    ViT_Pico4,
    ViT_S16,
    ViT_S16_gap,
    ViT_S32,
    ViT_S32_gap,
    ViT_Ti16,
    create_model,
    list_models,
)
from keras_vit.models.vit import ViT

__all__ = [
    "ViT",
    "ViT_B8",
    "ViT_B16",
    "ViT_B16_gap",
    "ViT_B32",
    "ViT_B32_gap",
    "ViT_H14",
    "ViT_L16",
    "ViT_L32",
    "ViT_Pico4",
    "ViT_S16",
    "ViT_S16_gap",
    "ViT_S32",
    "ViT_S32_gap",
    "ViT_Ti16",
    "create_model",
    "list_models",
]
