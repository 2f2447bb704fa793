"""What a training step costs: floating-point operations, and the memory of a device.

Parameters, gradients and the optimiser's state are counted exactly. Activations are an estimate of
the largest memory of the backward pass, in multiples of the sizes of a block's arrays. The factors
below were fitted to what XLA allocates on CPUs for small models; a device with fused attention
needs less. For five other models, from ViT-Pico to BiT-R50x1, the estimate was 0.81 to 1.03 of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from keras_vit.models.flops import forward_flops
from keras_vit.specs import ResNetUnit, Spec, ViTSpec, as_size
from keras_vit.training.recipes import Recipe

_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}  # of an activation
# How often the backward pass holds an array of a block: tokens x width, tokens x MLP width, and
# heads x tokens x tokens; and the output of a convolution.
_WIDTH, _HIDDEN, _SCORES, _CONVOLUTION = 10, 3, 3.5, 4


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a training step costs.

    Attributes:
        forward_flops: operations of the forward pass of one image; products and convolutions.
        step_flops: operations of a step, over all devices.
        parameters, gradients, optimizer, activations: bytes on each device.
    """

    forward_flops: int
    step_flops: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def memory(self) -> int:
        """Bytes on each device in all, without the framework's own."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def costs_of(
    recipe: Recipe, model: Any, optimizer: Any, devices: int = 1, teacher: Any = None
) -> Costs:
    """The costs of a step.

    Args:
        recipe: the settings.
        model: the model that is trained.
        optimizer: its optimiser, which is built.
        devices: the number of devices that a batch is divided among.
        teacher: the model that teaches it, which sees each image once; None for none.
    """
    flops = forward_flops(model.spec, model.num_classes, model.image_size)
    images = recipe.batch_size // devices // recipe.accumulate  # at a time
    each = _activations(model.spec, model.image_size, recipe) * _BYTES[recipe.precision]
    trainable = _bytes(model.trainable_variables)
    state = optimizer.variables
    taught, models = 0, [model]
    if teacher is not None:
        taught = sum(forward_flops(teacher.spec, teacher.num_classes, teacher.image_size).values())
        models.append(teacher)
    return Costs(
        sum(flops.values()),
        recipe.batch_size * (training_flops(flops, recipe) + taught),
        sum(_bytes(each.variables) for each in models),
        # Parts of a batch are added to the gradients of the parts before.
        trainable * (2 if recipe.accumulate > 1 else 1),
        _bytes(state() if callable(state) else state),
        images * each,
    )


def training_flops(flops: dict[str, int], recipe: Recipe) -> int:
    """Operations of one image in a step, from those of the layers' forward passes.

    The backward pass computes two products for each of the forward pass, the gradients of its
    weights and of its input; the first layer's input needs none.
    """
    first, *_ = flops.values()
    forward, head = sum(flops.values()), flops.get("head", 0)
    if recipe.freeze == "body":
        return forward + head
    if recipe.lora:
        return 2 * forward - first + head  # no gradients of frozen kernels
    blocks = sum(count for name, count in flops.items() if name.startswith("encoderblock_"))
    return 3 * forward - first + (blocks if recipe.remat else 0)


def _activations(spec: Spec, image_size: tuple[int, int], recipe: Recipe) -> int:
    """Values that the backward pass of one image holds at a time."""
    if not isinstance(spec, ViTSpec):
        return 3 * math.prod(image_size) + _resnet(64 * spec.width, spec.units, image_size)
    rows, columns = spec.grid(image_size)
    tokens = rows * columns + spec.prefix_tokens
    values = 3 * math.prod(image_size)
    if spec.stem is not None:
        values += _resnet(spec.stem.root_channels, spec.stem.units, image_size)
    block = _block(spec, tokens)
    if recipe.freeze == "body":
        return values + block  # one block at a time, and nothing is kept
    if recipe.remat:
        return values + spec.depth * tokens * spec.hidden_dim + block
    return values + spec.depth * block


def _block(spec: ViTSpec, tokens: int) -> int:
    dropped = 2 * bool(spec.dropout)
    width = (_WIDTH + dropped) * tokens * spec.hidden_dim
    hidden = (_HIDDEN + dropped) * tokens * spec.mlp_dim
    scores = (_SCORES + 2 * bool(spec.attention_dropout)) * spec.num_heads * tokens**2
    return round(width + hidden + scores)


def _resnet(root: int, units: Iterable[ResNetUnit], image_size: tuple[int, int]) -> int:
    height, width = (-(-side // 2) for side in as_size(image_size))
    values = height * width * root
    height, width = -(-height // 2), -(-width // 2)
    for unit in units:
        before = height * width
        if unit.strides == 2:
            height, width = -(-height // 2), -(-width // 2)
        after = height * width
        inner, outer = unit.features, 4 * unit.features
        values += before * inner + after * inner + after * outer
        values += after * outer if unit.projects else 0
    return _CONVOLUTION * values


def _bytes(variables: Iterable[Any]) -> int:
    return sum(math.prod(v.shape) * _item(v.dtype) for v in variables)


def _item(dtype: Any) -> int:
    name = getattr(dtype, "name", str(dtype))
    return int("".join(c for c in name if c.isdigit()) or 8) // 8
