"""The constructors: one for each row of the table of variants."""

from __future__ import annotations

import os
from typing import Any

from keras_vit.models.vit import ViT, with_overrides
from keras_vit.specs import VARIANTS, Preprocessing, find_variant
from keras_vit.weights.npz import load_weights, num_classes_of


def create_model(
    name: str,
    num_classes: int | None = None,
    image_size: int | tuple[int, int] = 224,
    weights: str | os.PathLike | None = None,
    preprocessing: Preprocessing | None = None,
    **overrides: Any,
) -> ViT:
    """A model of the table by its name: "ViT-B_16", also spelled "ViT_B16" or "vit-b/16".

    Args:
        name: see `list_models`.
        num_classes: logits; default: what `weights` has, or 1000. Where it differs from the
            file's, the head starts at zero.
        image_size: input size in pixels, one number or (height, width).
        weights: a `.npz` file in the official layout; default: fresh weights.
        preprocessing: how images become inputs; default: stretched to the size, [-1, 1].
        overrides: fields of `ViTSpec`, such as dropout=0.1 or pooling="gap".

    Raises:
        UsageError: an unknown name or field, or a file that is not this model's.
    """
    name = find_variant(name)
    spec = with_overrides(VARIANTS[name], overrides)
    in_file = None if weights is None else num_classes_of(weights)
    if num_classes is None:
        num_classes = 1000 if in_file is None else in_file
    model = ViT(spec, num_classes, image_size, preprocessing, name=name)
    if weights is not None:
        load_weights(model, weights, head="keep" if num_classes == in_file else "reset")
    return model


def list_models() -> list[str]:
    """The names that `create_model` takes."""
    return list(VARIANTS)


def _constructor(name: str):
    def constructor(
        num_classes: int | None = None,
        image_size: int | tuple[int, int] = 224,
        weights: str | os.PathLike | None = None,
        preprocessing: Preprocessing | None = None,
        **overrides: Any,
    ) -> ViT:
        return create_model(name, num_classes, image_size, weights, preprocessing, **overrides)

    spec = VARIANTS[name]
    constructor.__name__ = constructor.__qualname__ = _identifier(name)
    constructor.__doc__ = (
        f"{name}: hidden {spec.hidden_dim}, {spec.depth} blocks, {spec.num_heads} heads, MLP "
        f"{spec.mlp_dim}, patch {spec.patch_size}, pooling {spec.pooling!r}.\n\n"
        "The arguments are those of `create_model`."
    )
    return constructor


def _identifier(name: str) -> str:
    # "ViT-B_16-gap" to "ViT_B16_gap"
    model, size, *pooling = name.split("-")
    return "_".join([model, size.replace("_", ""), *pooling])


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
