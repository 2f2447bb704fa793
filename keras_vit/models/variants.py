"""The constructors, one for each row of the table of variants."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from keras_vit.models.bit import BiT
from keras_vit.models.pretrained import Request, check_overrides, model_class, pretrained
from keras_vit.models.vit import ViT
from keras_vit.specs import (
    USUAL_SIZES,
    VARIANTS,
    Preprocessing,
    Spec,
    ViTSpec,
    find_variant,
)

__all__ = [
    "BiT_R8x1",
    "BiT_R50x1",
    "BiT_R50x3",
    "BiT_R101x1",
    "BiT_R101x3",
    "BiT_R152x4",
    "R26_ViT_B32",
    "R26_ViT_S32",
    "R50_ViT_B16",
    "R50_ViT_L32",
    "R_ViT_Pico4",
    "R_ViT_Ti16",
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


def create_model(
    variant: str,
    num_classes: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    *,
    weights: str | os.PathLike | None = None,
    preprocessing: Preprocessing | None = None,
    labels: Sequence[str] | None = None,
    head_bias: float = 0.0,
    dtype: Any = None,
    name: str | None = None,
    **overrides: Any,
) -> ViT | BiT:
    """Builds a variant by its name: "ViT-B_16", also spelled "ViT_B16" or "vit-b/16".

    >>> model = keras_vit.create_model("ViT-Ti_16", num_classes=10, dropout=0.1)
    >>> model.output_shape
    (None, 10)

    Args:
        variant: see `list_models`.
        num_classes: number of logits; default: that of `weights`, or 1000. If the number or the
            labels differ from those of the file, the head starts at zero.
        image_size: input size in pixels, one number or (height, width); default: that of
            `weights`, or 224 (ViT-Pico_4, R+ViT-Pico_4 and BiT-R8x1: 32). Position tables of
            another size are resampled.
        weights: published weights ("imagenet21k", "augreg" ..., or a full name: see
            `list_weights`), a file in any layout that `load_weights` reads, or its URL; default:
            new weights. GELU, epsilon, pre-training representation and `in_channels` are taken
            from the file, and it must not state another number of heads.
        preprocessing: default: that of `weights`; otherwise images are stretched to the size, and
            pixels scaled to [-1, 1].
        labels: the class names; default: those in the file, if the head is kept.
        head_bias: initial bias of a new head.
        dtype: a dtype policy or its name, as in `ViT`.
        name: name of the model; default: name of the variant.
        overrides: fields of `ViTSpec` or `ResNetSpec`, such as dropout=0.1, pooling="gap" or
            in_channels=1 for grey pictures, to which weights for RGB are folded as in
            `load_weights`; with weights also `positions`, `grid`, `resize_patches` and
            `allow_nonfinite` of `load_weights`.

    Raises:
        UsageError: a name or a keyword is unknown, or the file does not fit the model.
    """
    variant = find_variant(variant)
    spec = VARIANTS[variant]
    check_overrides(variant, overrides, spec, weights is not None)
    build = {"head_bias": head_bias, "dtype": dtype, "name": name or variant}
    if weights is not None:
        request = Request(num_classes, image_size, preprocessing, labels, overrides, build)
        return pretrained(variant, spec, weights, request)
    return model_class(spec)(
        dataclasses.replace(spec, **overrides),
        1000 if num_classes is None else num_classes,
        USUAL_SIZES.get(variant, 224) if image_size is None else image_size,
        preprocessing=preprocessing,
        labels=labels,
        **build,
    )


def list_models() -> list[str]:
    """The names that `create_model` accepts."""
    return list(VARIANTS)


def _constructor(variant: str):
    def constructor(
        num_classes: int | None = None,
        image_size: int | tuple[int, int] | None = None,
        *,
        weights: str | os.PathLike | None = None,
        preprocessing: Preprocessing | None = None,
        labels: Sequence[str] | None = None,
        head_bias: float = 0.0,
        dtype: Any = None,
        name: str | None = None,
        **overrides: Any,
    ) -> ViT | BiT:
        return create_model(
            variant,
            num_classes,
            image_size,
            weights=weights,
            preprocessing=preprocessing,
            labels=labels,
            head_bias=head_bias,
            dtype=dtype,
            name=name,
            **overrides,
        )

    constructor.__name__ = constructor.__qualname__ = _identifier(variant)
    constructor.__doc__ = (
        f"{variant}: {_summary(VARIANTS[variant])}.\n\nThe arguments are those of `create_model`."
    )
    return constructor


def _identifier(name: str) -> str:
    # "ViT-B_16-gap" to "ViT_B16_gap", "R50+ViT-B_16" to "R50_ViT_B16"
    model, size, *pooling = name.replace("+", "_").split("-")
    return "_".join([model, size.replace("_", ""), *pooling])


def _summary(spec: Spec) -> str:
    if not isinstance(spec, ViTSpec):
        return f"ResNet-V2 of {spec.layers} units, width {spec.width}"
    stem = f"ResNet stem of {spec.stem.stages} units, " if spec.stem else ""
    return (
        f"{stem}hidden {spec.hidden_dim}, {spec.depth} blocks, {spec.num_heads} heads, MLP "
        f"{spec.mlp_dim}, patch {spec.patch_size}, pooling {spec.pooling!r}"
    )


ViT_Pico4 = _constructor("ViT-Pico_4")
ViT_Ti16 = _constructor("ViT-Ti_16")
ViT_S16 = _constructor("ViT-S_16")
ViT_S32 = _constructor("ViT-S_32")
ViT_B8 = _constructor("ViT-B_8")
ViT_B16 = _constructor("ViT-B_16")
ViT_B32 = _constructor("ViT-B_32")
ViT_L16 = _constructor("ViT-L_16")
ViT_L32 = _constructor("ViT-L_32")
ViT_H14 = _constructor("ViT-H_14")
ViT_S16_gap = _constructor("ViT-S_16-gap")
ViT_S32_gap = _constructor("ViT-S_32-gap")
ViT_B16_gap = _constructor("ViT-B_16-gap")
ViT_B32_gap = _constructor("ViT-B_32-gap")
R_ViT_Pico4 = _constructor("R+ViT-Pico_4")
R_ViT_Ti16 = _constructor("R+ViT-Ti_16")
R26_ViT_S32 = _constructor("R26+ViT-S_32")
R26_ViT_B32 = _constructor("R26+ViT-B_32")
R50_ViT_B16 = _constructor("R50+ViT-B_16")
R50_ViT_L32 = _constructor("R50+ViT-L_32")
BiT_R8x1 = _constructor("BiT-R8x1")
BiT_R50x1 = _constructor("BiT-R50x1")
BiT_R101x1 = _constructor("BiT-R101x1")
BiT_R50x3 = _constructor("BiT-R50x3")
BiT_R101x3 = _constructor("BiT-R101x3")
BiT_R152x4 = _constructor("BiT-R152x4")
