"""What training on masked patches needs of a ViT, known from its spec without Keras."""

from __future__ import annotations

import math
from typing import Literal

from keras_vit._checks import inner_fraction, positive_integer
from keras_vit._errors import UsageError
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.specs import Spec, ViTSpec

PatchTarget = Literal["colour", "colours", "pixels"]
CELLS = 4  # along each side of a patch, for the target "colours"


def check_maskable(spec: Spec | None, name: str, target: PatchTarget | None) -> None:
    """Raises a `UsageError` unless a model can learn from masked patches.

    Args:
        spec: the model's spec; None if it has none.
        name: the model's name, for the error.
        target: what is predicted of a patch; None for the pixels that MAE's decoder predicts.
    """
    if not isinstance(spec, ViTSpec) or spec.stem is not None:
        raise UsageError(
            "masked patches need a ViT without a stem, because a stem sees the pixels of hidden "
            f"patches. Received: {name}."
        )
    if spec.norm_after_pooling:
        raise UsageError(
            "masked patches need a ViT whose last norm precedes the pooling. "
            "Received: norm_after_pooling=True."
        )
    if target in ("colour", "colours") and spec.in_channels != 3:
        raise UsageError(
            "the colours of masked patches are those of RGB. "
            f"Received: in_channels={spec.in_channels}; choose masked_pixels or mae."
        )
    if target == "colours" and spec.patch_size % CELLS:
        raise UsageError(
            f"the target colours divides patches into {CELLS} x {CELLS} cells. "
            f"Received: patch_size={spec.patch_size}."
        )
    if target is None:
        _check_added_positions(spec)


def _check_added_positions(spec: ViTSpec) -> None:
    """Refuses positions that act in attention, which hidden patches would shift."""
    for field, acts in (
        ("position_embedding", POSITION_EMBEDDINGS[spec.position_embedding].bias is not None),
        ("rotation", spec.rotation != "none"),
    ):
        if acts:
            raise UsageError(
                "a masked autoencoder needs positions that are added to the tokens, such as "
                f"learned or sincos2d. Received: {field}={getattr(spec, field)!r}."
            )


def check_decoder(width: int, depth: int, heads: int) -> None:
    """Raises a `UsageError` unless a decoder of MAE can have these sizes."""
    positive_integer("decoder_dim", width)
    positive_integer("decoder_depth", depth)
    positive_integer("decoder_heads", heads)
    if width % 4 or width % heads:
        raise UsageError(
            "decoder_dim must be a multiple of 4 and of decoder_heads. "
            f"Received: decoder_dim={width}, decoder_heads={heads}."
        )


def masked_count(grid: tuple[int, int], part: float) -> int:
    """The number of masked patches of a grid (rows, columns), at least one and never all.

    Raises:
        UsageError: the fraction is not in (0, 1), or there is only one patch.
    """
    patches = math.prod(grid)
    if patches < 2:
        raise UsageError(
            "masked patches need images of two patches or more. Received: one patch; choose a "
            "larger image_size or a smaller patch_size."
        )
    return min(max(round(inner_fraction("masked", part) * patches), 1), patches - 1)
