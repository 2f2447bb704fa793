"""ViTs that learn without classes from patches that they do not see.

Masked patch prediction is the paper's (appendix B.1.2), the masked autoencoder (MAE) that of He et
al. 2022, arXiv 2111.06377.
"""

from __future__ import annotations

import math
from typing import Any, get_args

from keras_vit._checks import choice
from keras_vit._keras import building, keras, register
from keras_vit.encoder.masked_patches import (
    CELLS,
    PatchTarget,
    check_decoder,
    check_maskable,
    masked_count,
)
from keras_vit.layers import TransformerBlock
from keras_vit.layers.base import layer_norm
from keras_vit.layers.masking import CorruptedPatches, RestoredTokens, VisibleTokens
from keras_vit.models.image_model import AroundModel
from keras_vit.models.vit import ViT
from keras_vit.specs import ViTSpec

COLOURS = 512  # three bits for each of three channels


@register
class MaskedPatchPredictor(AroundModel):
    """A ViT that predicts the patches whose embeddings were corrupted.

    Inputs are a dict of `images` (batch, height, width, c), preprocessed for the ViT, and `noise`
    (batch, patches), whose order chooses the corrupted patches: see `CorruptedPatches`. Outputs are
    a dict of `predictions` (batch, patches, values), float32, and `mask` (batch, patches), 1 where
    a patch was corrupted.

    The values of a patch are, by `target`:

    - "colour": the logits of its mean colour, out of 512 with three bits for each channel;
    - "colours": those of each of 4 x 4 cells, 16 times 512;
    - "pixels": its pixels in the order of `Patches`, as in the ViT's input.

    Args:
        vit: the model to train, whose layers and weights are used. Its head has no part in it.
        target: what is predicted.
        corrupted: the fraction of corrupted patches.

    Raises:
        UsageError: the ViT is a hybrid or its input has no colours, or patches cannot be divided
            into 4 x 4 cells.
    """

    inner = "vit"

    def __init__(
        self,
        vit: ViT,
        target: PatchTarget = "colour",
        corrupted: float = 0.5,
        name: str = "masked_patch_predictor",
    ):
        choice("target", target, get_args(PatchTarget))
        _check_vit(vit, target)
        count = masked_count(vit.grid, corrupted)
        with building:
            inputs = _masked_inputs(vit)
            corrupt = CorruptedPatches(vit.get_layer("patch_encoder"), count, name="corrupted")
            x, mask = corrupt([vit.get_layer("patches")(inputs["images"]), inputs["noise"]])
            x = _encoded(vit, x)[:, vit.spec.prefix_tokens :]  # (batch, patches, hidden_dim)
            predictions = _dense(values_of(target, vit.spec), "predictions", "float32")(x)
            super().__init__(inputs, {"predictions": predictions, "mask": mask}, name=name)
        self.target, self.corrupted = target, corrupted
        self._keep(vit, target=target, corrupted=corrupted)


@register
class MaskedAutoencoder(AroundModel):
    """A ViT that sees a few patches of an image, and a small decoder that predicts all of them.

    Inputs are a dict of `images` (batch, height, width, c), preprocessed for the ViT, and `noise`
    (batch, patches): patches with the smallest numbers are visible. Outputs are a dict of
    `predictions` (batch, patches, patch_size * patch_size * c), float32, and `mask` (batch,
    patches), 1 where a patch was hidden.

    It equals transformers' `ViTMAEForPreTraining`, whose ViT has "learned" positions, a class token
    and the exact GELU.

    Args:
        vit: the model to train, whose layers and weights are used. Its head has no part in it.
        masked: the fraction of hidden patches.
        decoder_dim: width of the decoder, a multiple of 4.
        decoder_depth: number of its blocks.
        decoder_heads: attention heads in each of them.
        decoder_mlp_dim: width of their MLPs; default: 4 * decoder_dim.

    Raises:
        UsageError: the ViT is a hybrid or has positions in attention, or a number does not fit.
    """

    inner = "vit"

    def __init__(
        self,
        vit: ViT,
        masked: float = 0.75,
        decoder_dim: int = 512,
        decoder_depth: int = 8,
        decoder_heads: int = 16,
        decoder_mlp_dim: int | None = None,
        name: str = "masked_autoencoder",
    ):
        _check_vit(vit, target=None)
        check_decoder(decoder_dim, decoder_depth, decoder_heads)
        spec, visible = vit.spec, math.prod(vit.grid) - masked_count(vit.grid, masked)
        policy = vit.dtype_policy
        with building:
            inputs = _masked_inputs(vit)
            keep = VisibleTokens(vit.get_layer("patch_encoder"), visible, name="visible")
            x, places, mask = keep([vit.get_layer("patches")(inputs["images"]), inputs["noise"]])
            x = _encoded(vit, x)
            x = _dense(decoder_dim, "decoder_embedding", policy)(x)
            restore = RestoredTokens(vit.grid, spec.prefix_tokens, dtype=policy, name="restored")
            x = restore([x, places])
            mlp_dim = decoder_mlp_dim or 4 * decoder_dim
            sizes = (decoder_heads, mlp_dim, spec.activation, spec.layer_norm_eps)
            for i in range(decoder_depth):
                x = TransformerBlock(*sizes, dtype=policy, name=f"decoderblock_{i}")(x)
            x = layer_norm("decoder_norm", spec.layer_norm_eps, policy)(x)
            x = x[:, spec.prefix_tokens :]  # (batch, patches, decoder_dim)
            predictions = _dense(spec.in_channels * spec.patch_size**2, "predictions", "float32")(x)
            super().__init__(inputs, {"predictions": predictions, "mask": mask}, name=name)
        self._keep(
            vit,
            masked=masked,
            decoder_dim=decoder_dim,
            decoder_depth=decoder_depth,
            decoder_heads=decoder_heads,
            decoder_mlp_dim=decoder_mlp_dim,
        )


def values_of(target: PatchTarget, spec: ViTSpec) -> int:
    """The number of values that are predicted for a patch."""
    return {
        "colour": COLOURS,
        "colours": CELLS**2 * COLOURS,
        "pixels": spec.in_channels * spec.patch_size**2,
    }[target]


def _check_vit(vit: Any, target: PatchTarget | None) -> None:
    check_maskable(getattr(vit, "spec", None), getattr(vit, "name", type(vit).__name__), target)


def _masked_inputs(vit: ViT) -> dict[str, Any]:
    """The symbolic inputs: images, and noise for their patches."""
    return {
        "images": keras.Input(vit.input_shape[1:], name="images"),
        "noise": keras.Input((math.prod(vit.grid),), name="noise"),
    }


def _encoded(vit: ViT, x):
    """Tokens (batch, tokens, hidden_dim) through the blocks and the final norm of a ViT."""
    x = vit.get_layer("dropout")(x)
    for i in range(vit.spec.depth):
        x = vit.get_layer(f"encoderblock_{i}")(x)
    return vit.get_layer("encoder_norm")(x)


def _dense(units: int, name: str, dtype: Any):
    return keras.layers.Dense(units, kernel_initializer="glorot_uniform", dtype=dtype, name=name)
