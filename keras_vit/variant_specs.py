"""The table of variants: the models that have a name, as data.

Sources: Dosovitskiy et al. 2021, table 1; google-research/vision_transformer `configs/models.py`;
big_vision `models/vit.py`; Kolesnikov et al. 2020 for BiT.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from keras_vit._errors import UsageError, did_you_mean, shown, squeeze
from keras_vit.specs import ResNetSpec, ResNetStem, Spec, ViTSpec


def find_variant(name: str) -> str:
    """The name in `VARIANTS` for any spelling of it: "ViT_B16", "vit-b/16", "ViT-B_16".

    AugReg's short names are accepted too: "B/16", "R_Ti_16", "R50+L/32".

    Raises:
        UsageError: there is no such variant; the message suggests a similar name.
    """
    variant = {_short(known): known for known in VARIANTS}.get(_short(name))
    if variant is None:
        raise UsageError(f"unknown model {shown(name)}; {did_you_mean(name, VARIANTS)}")
    return variant


def _short(name: str) -> str:
    # "R50+ViT-L_32" and "R50_L_32" are both "r50l32".
    return re.sub(r"vit|bit|\+", "", squeeze(name))


_SWIGLU = {"mlp_kind": "gated", "activation": "silu"}
# DINOv2 (Oquab et al. 2023, arXiv 2304.07193), whose largest has SwiGLU. With registers: Darcet et
# al. 2024.
_DINOV2 = functools.partial(
    ViTSpec,
    14,
    pooling="token_mean",
    activation="erf",
    layer_scale=1e-5,
    resampling="bicubic_sharp",
)
_DINOV2_SIZES = {
    "DINOv2-S_14": _DINOV2(384, 12, 6, 1536),
    "DINOv2-B_14": _DINOV2(768, 12, 12, 3072),
    "DINOv2-L_14": _DINOV2(1024, 24, 16, 4096),
    "DINOv2-G_14": _DINOV2(1536, 40, 24, 4096, **_SWIGLU),
}
# DINOv3 (Simeoni et al. 2025, arXiv 2508.10104).
_DINOV3 = functools.partial(
    ViTSpec,
    16,
    position_embedding="none",
    activation="erf",
    layer_norm_eps=1e-5,
    layer_scale=1e-5,
    rotation="dinov3",
    registers=4,
    key_bias=False,
)
# EVA-02 (Fang et al. 2023, arXiv 2303.11331).
_EVA02 = functools.partial(
    ViTSpec,
    14,
    pooling="token_gap",
    activation="silu",
    rotation="eva02",
    key_bias=False,
    norm_after_pooling=True,
    resampling="bicubic",
)
# CLIP (Radford et al. 2021, arXiv 2103.00020), whose projection belongs to its files.
_CLIP = functools.partial(
    ViTSpec,
    activation="quick",
    layer_norm_eps=1e-5,
    patch_bias=False,
    embedding_norm=True,
    resampling="bicubic_sharp",
)
# SigLIP (Zhai et al. 2023, arXiv 2303.15343) and SigLIP 2 (arXiv 2502.14786), whose MLPs are wider
# than four times the stream in So400m.
_SIGLIP = functools.partial(ViTSpec, pooling="map", resampling="bicubic_sharp")
# Sizes: table 1 of the paper; Ti and S from DeiT and AugReg; BiT from Kolesnikov et al. 2020. Pico
# and R8x1 are for tiny images such as the digits and have no published weights. Dropout rates are
# those of the published models.
VARIANTS: dict[str, Spec] = {
    # ViTSpec(patch_size, hidden_dim, depth, num_heads, mlp_dim)
    "ViT-Pico_4": ViTSpec(4, 64, 4, 4, 128),
    "ViT-Ti_16": ViTSpec(16, 192, 12, 3, 768),
    "ViT-S_16": ViTSpec(16, 384, 12, 6, 1536),
    "ViT-S_32": ViTSpec(32, 384, 12, 6, 1536),
    "ViT-B_8": ViTSpec(8, 768, 12, 12, 3072),
    "ViT-B_16": ViTSpec(16, 768, 12, 12, 3072),
    "ViT-B_32": ViTSpec(32, 768, 12, 12, 3072),
    "ViT-L_16": ViTSpec(16, 1024, 24, 16, 4096, dropout=0.1),
    "ViT-L_32": ViTSpec(32, 1024, 24, 16, 4096),
    "ViT-H_14": ViTSpec(14, 1280, 32, 16, 5120, dropout=0.1),
    # Without a class token
    "ViT-S_16-gap": ViTSpec(16, 384, 12, 6, 1536, "gap"),
    "ViT-S_32-gap": ViTSpec(32, 384, 12, 6, 1536, "gap"),
    "ViT-B_16-gap": ViTSpec(16, 768, 12, 12, 3072, "gap"),
    "ViT-B_32-gap": ViTSpec(32, 768, 12, 12, 3072, "gap"),
    # Hybrids: patch_size counts positions of the stem's output. R+ViT-Ti_16's patch has 32 pixels.
    "R+ViT-Pico_4": ViTSpec(1, 64, 4, 4, 128, stem=ResNetStem()),
    "R+ViT-Ti_16": ViTSpec(8, 192, 12, 3, 768, stem=ResNetStem()),
    "R26+ViT-S_32": ViTSpec(1, 384, 12, 6, 1536, stem=ResNetStem((2, 2, 2, 2))),
    "R26+ViT-B_32": ViTSpec(1, 768, 12, 12, 3072, stem=ResNetStem((2, 2, 2, 2))),
    "R50+ViT-B_16": ViTSpec(1, 768, 12, 12, 3072, dropout=0.1, stem=ResNetStem((3, 4, 9))),
    "R50+ViT-L_32": ViTSpec(1, 1024, 24, 16, 4096, dropout=0.1, stem=ResNetStem((3, 4, 6, 3))),
    **_DINOV2_SIZES,
    **{
        f"{name}-reg4": dataclasses.replace(spec, registers=4, resampling="bicubic")
        for name, spec in _DINOV2_SIZES.items()
    },
    "DINOv3-S_16": _DINOV3(384, 12, 6, 1536),
    "DINOv3-S_16-plus": _DINOV3(384, 12, 6, 1536, **_SWIGLU),
    "DINOv3-B_16": _DINOV3(768, 12, 12, 3072),
    "DINOv3-L_16": _DINOV3(1024, 24, 16, 4096),
    "DINOv3-H_16-plus": _DINOV3(1280, 32, 20, 5120, **_SWIGLU),
    "DINOv3-7B_16": _DINOV3(4096, 40, 32, 8192, query_bias=False, value_bias=False, **_SWIGLU),
    "EVA02-Ti_14": _EVA02(192, 12, 3, 512, mlp_kind="gated"),
    "EVA02-S_14": _EVA02(384, 12, 6, 1024, mlp_kind="gated"),
    "EVA02-B_14": _EVA02(768, 12, 12, 2048, mlp_kind="gated_norm"),
    "EVA02-L_14": _EVA02(1024, 24, 16, 2730, mlp_kind="gated_norm"),
    "CLIP-B_32": _CLIP(32, 768, 12, 12, 3072),
    "CLIP-B_16": _CLIP(16, 768, 12, 12, 3072),
    "CLIP-L_14": _CLIP(14, 1024, 24, 16, 4096),
    "SigLIP-B_32": _SIGLIP(32, 768, 12, 12, 3072),
    "SigLIP-B_16": _SIGLIP(16, 768, 12, 12, 3072),
    "SigLIP-L_16": _SIGLIP(16, 1024, 24, 16, 4096),
    "SigLIP-So400m_14": _SIGLIP(14, 1152, 27, 16, 4304),
    "SigLIP-So400m_16": _SIGLIP(16, 1152, 27, 16, 4304),
    "SigLIP-G_16": _SIGLIP(16, 1536, 40, 16, 6144),
    # ResNetSpec(units in each block, width)
    "BiT-R8x1": ResNetSpec((1, 1)),
    "BiT-R50x1": ResNetSpec((3, 4, 6, 3)),
    "BiT-R101x1": ResNetSpec((3, 4, 23, 3)),
    "BiT-R50x3": ResNetSpec((3, 4, 6, 3), 3),
    "BiT-R101x3": ResNetSpec((3, 4, 23, 3), 3),
    "BiT-R152x4": ResNetSpec((3, 8, 36, 3), 4),
}
# Usual image sizes in pixels; all other variants have 224.
USUAL_SIZES = {"ViT-Pico_4": 32, "R+ViT-Pico_4": 32, "BiT-R8x1": 32}
