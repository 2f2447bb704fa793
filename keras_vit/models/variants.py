"""The constructors, one for each row of the table of variants."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from keras_vit.models.bit import BiT
from keras_vit.models.pretrained import create_model
from keras_vit.models.vit import ViT
from keras_vit.specs import Spec, ViTSpec
from keras_vit.variant_specs import VARIANTS

_Arguments = ParamSpec("_Arguments")


def list_models() -> list[str]:
    """The names that `create_model` accepts."""
    return list(VARIANTS)


def _constructor(
    create: Callable[Concatenate[str, _Arguments], ViT | BiT], variant: str
) -> Callable[_Arguments, ViT | BiT]:
    """`create` with a variant's name as its first argument; editors complete the others."""

    def constructor(*arguments: _Arguments.args, **keywords: _Arguments.kwargs) -> ViT | BiT:
        return create(variant, *arguments, **keywords)

    signature = inspect.signature(create)
    _, *parameters = signature.parameters.values()
    constructor.__signature__ = signature.replace(parameters=parameters)
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


ViT_Pico4 = _constructor(create_model, "ViT-Pico_4")
ViT_Ti16 = _constructor(create_model, "ViT-Ti_16")
ViT_S16 = _constructor(create_model, "ViT-S_16")
ViT_S32 = _constructor(create_model, "ViT-S_32")
ViT_B8 = _constructor(create_model, "ViT-B_8")
ViT_B16 = _constructor(create_model, "ViT-B_16")
ViT_B32 = _constructor(create_model, "ViT-B_32")
ViT_L16 = _constructor(create_model, "ViT-L_16")
ViT_L32 = _constructor(create_model, "ViT-L_32")
ViT_H14 = _constructor(create_model, "ViT-H_14")
ViT_S16_gap = _constructor(create_model, "ViT-S_16-gap")
ViT_S32_gap = _constructor(create_model, "ViT-S_32-gap")
ViT_B16_gap = _constructor(create_model, "ViT-B_16-gap")
ViT_B32_gap = _constructor(create_model, "ViT-B_32-gap")
R_ViT_Pico4 = _constructor(create_model, "R+ViT-Pico_4")
R_ViT_Ti16 = _constructor(create_model, "R+ViT-Ti_16")
R26_ViT_S32 = _constructor(create_model, "R26+ViT-S_32")
R26_ViT_B32 = _constructor(create_model, "R26+ViT-B_32")
R50_ViT_B16 = _constructor(create_model, "R50+ViT-B_16")
R50_ViT_L32 = _constructor(create_model, "R50+ViT-L_32")
DINOv2_S14 = _constructor(create_model, "DINOv2-S_14")
DINOv2_B14 = _constructor(create_model, "DINOv2-B_14")
DINOv2_L14 = _constructor(create_model, "DINOv2-L_14")
DINOv2_G14 = _constructor(create_model, "DINOv2-G_14")
DINOv2_S14_reg4 = _constructor(create_model, "DINOv2-S_14-reg4")
DINOv2_B14_reg4 = _constructor(create_model, "DINOv2-B_14-reg4")
DINOv2_L14_reg4 = _constructor(create_model, "DINOv2-L_14-reg4")
DINOv2_G14_reg4 = _constructor(create_model, "DINOv2-G_14-reg4")
DINOv3_S16 = _constructor(create_model, "DINOv3-S_16")
DINOv3_S16_plus = _constructor(create_model, "DINOv3-S_16-plus")
DINOv3_B16 = _constructor(create_model, "DINOv3-B_16")
DINOv3_L16 = _constructor(create_model, "DINOv3-L_16")
DINOv3_H16_plus = _constructor(create_model, "DINOv3-H_16-plus")
DINOv3_7B16 = _constructor(create_model, "DINOv3-7B_16")
EVA02_Ti14 = _constructor(create_model, "EVA02-Ti_14")
EVA02_S14 = _constructor(create_model, "EVA02-S_14")
EVA02_B14 = _constructor(create_model, "EVA02-B_14")
EVA02_L14 = _constructor(create_model, "EVA02-L_14")
CLIP_B32 = _constructor(create_model, "CLIP-B_32")
CLIP_B16 = _constructor(create_model, "CLIP-B_16")
CLIP_L14 = _constructor(create_model, "CLIP-L_14")
SigLIP_B32 = _constructor(create_model, "SigLIP-B_32")
SigLIP_B16 = _constructor(create_model, "SigLIP-B_16")
SigLIP_L16 = _constructor(create_model, "SigLIP-L_16")
SigLIP_So400m14 = _constructor(create_model, "SigLIP-So400m_14")
SigLIP_So400m16 = _constructor(create_model, "SigLIP-So400m_16")
SigLIP_G16 = _constructor(create_model, "SigLIP-G_16")
BiT_R8x1 = _constructor(create_model, "BiT-R8x1")
BiT_R50x1 = _constructor(create_model, "BiT-R50x1")
BiT_R101x1 = _constructor(create_model, "BiT-R101x1")
BiT_R50x3 = _constructor(create_model, "BiT-R50x3")
BiT_R101x3 = _constructor(create_model, "BiT-R101x3")
BiT_R152x4 = _constructor(create_model, "BiT-R152x4")

__all__ = ["list_models", *map(_identifier, VARIANTS)]
