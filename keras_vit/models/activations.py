"""The values that the backward pass of a model holds, by layer: an estimate.

They are counted in multiples of the sizes of a layer's arrays. The factors were fitted to what XLA
allocates on CPUs for small models; a device with fused attention needs less. For five other models,
from ViT-Pico to BiT-R50x1, the estimate was 0.81 to 1.03 of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from keras_vit.specs import ResNetUnit, Spec, ViTSpec, as_size

# How often the backward pass holds an array of a block: tokens x width, tokens x MLP width, and
# heads x tokens x tokens; and the output of a convolution.
_WIDTH, _HIDDEN, _SCORES, _CONVOLUTION = 10, 3, 3.5, 4


def held_values(
    spec: Spec, image_size: int | tuple[int, int], visible: int | None = None
) -> dict[str, int]:
    """The values that each layer holds for one image, by the layer's name, from input to output.

    Args:
        spec: the hyperparameters.
        image_size: input size in pixels, one number or (height, width).
        visible: number of patches that the blocks see; None for all.
    """
    size = as_size(image_size)
    values = {"images": spec.in_channels * math.prod(size)}
    if not isinstance(spec, ViTSpec):
        return values | _resnet(64 * spec.width, spec.units, size)
    if spec.stem is not None:
        values |= _resnet(spec.stem.root_channels, spec.stem.units, size)
    patches = math.prod(spec.grid(size)) if visible is None else visible
    block = _block(spec, patches + spec.prefix_tokens)
    return values | {f"encoderblock_{i}": block for i in range(spec.depth)}


def decoder_block_values(tokens: int, width: int, mlp_dim: int, heads: int) -> int:
    """The values that a block without dropout holds for so many tokens."""
    return round(_WIDTH * tokens * width + _HIDDEN * tokens * mlp_dim + _SCORES * heads * tokens**2)


def _block(spec: ViTSpec, tokens: int) -> int:
    dropped = 2 * bool(spec.dropout)
    width = (_WIDTH + dropped) * tokens * spec.hidden_dim
    hidden = (_HIDDEN + dropped) * tokens * spec.mlp_dim
    scores = (_SCORES + 2 * bool(spec.attention_dropout)) * spec.num_heads * tokens**2
    return round(width + hidden + scores)


def _resnet(root: int, units: Iterable[ResNetUnit], size: tuple[int, int]) -> dict[str, int]:
    height, width = (-(-side // 2) for side in size)
    values = {"conv_root": _CONVOLUTION * height * width * root}
    height, width = -(-height // 2), -(-width // 2)
    for unit in units:
        before = height * width
        if unit.strides == 2:
            height, width = -(-height // 2), -(-width // 2)
        after = height * width
        inner, outer = unit.features, 4 * unit.features
        each = before * inner + after * inner + after * outer
        each += after * outer if unit.projects else 0
        values[unit.name] = _CONVOLUTION * each
    return values
