"""The masked autoencoder (MAE) of He et al. 2022, arXiv 2111.06377."""

from __future__ import annotations

import math
from typing import Any

from keras_vit._keras import building, keras, register
from keras_vit._masked import check_added_positions, check_decoder, masked_count
from keras_vit.layers import TransformerBlock
from keras_vit.layers.masking import RestoredTokens, VisibleTokens
from keras_vit.models.masked_patches import check_masked_vit, encoded, masked_inputs
from keras_vit.models.vit import ViT


@register
class MaskedAutoencoder(keras.Model):
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
        check_masked_vit(vit)
        check_added_positions(vit.spec)
        check_decoder(decoder_dim, decoder_depth, decoder_heads)
        spec, visible = vit.spec, math.prod(vit.grid) - masked_count(vit.grid, masked)
        policy = vit.dtype_policy
        with building:
            inputs = masked_inputs(vit)
            keep = VisibleTokens(vit.get_layer("patch_encoder"), visible, name="visible")
            x, places, mask = keep([vit.get_layer("patches")(inputs["images"]), inputs["noise"]])
            x = encoded(vit, x)
            x = _dense(decoder_dim, "decoder_embedding", policy)(x)
            restore = RestoredTokens(vit.grid, spec.prefix_tokens, dtype=policy, name="restored")
            x = restore([x, places])
            for i in range(decoder_depth):
                x = TransformerBlock(
                    decoder_heads,
                    decoder_mlp_dim or 4 * decoder_dim,
                    spec.gelu,
                    spec.layer_norm_eps,
                    dtype=policy,
                    name=f"decoderblock_{i}",
                )(x)
            x = keras.layers.LayerNormalization(
                epsilon=spec.layer_norm_eps, dtype=policy, name="decoder_norm"
            )(x)
            x = x[:, spec.prefix_tokens :]  # (batch, patches, decoder_dim)
            predictions = _dense(spec.in_channels * spec.patch_size**2, "predictions", "float32")(x)
            super().__init__(inputs, {"predictions": predictions, "mask": mask}, name=name)
        object.__setattr__(self, "_vit", lambda: vit)  # not tracked: its head is not trained
        self._arguments = {
            "masked": masked,
            "decoder_dim": decoder_dim,
            "decoder_depth": decoder_depth,
            "decoder_heads": decoder_heads,
            "decoder_mlp_dim": decoder_mlp_dim,
        }

    def get_config(self) -> dict[str, Any]:
        """The arguments that build this model again, with the ViT's."""
        vit = keras.saving.serialize_keras_object(self._vit())
        return {"vit": vit, **self._arguments, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> MaskedAutoencoder:
        """The model that `get_config` describes, with new weights."""
        vit = keras.saving.deserialize_keras_object(config["vit"], custom_objects)
        return cls(**{**config, "vit": vit})


def _dense(units: int, name: str, dtype: Any):
    return keras.layers.Dense(units, kernel_initializer="glorot_uniform", dtype=dtype, name=name)
