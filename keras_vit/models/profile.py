"""What each layer of a model costs, from its spec, without building it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from keras_vit.models.activations import held_values
from keras_vit.models.flops import forward_flops
from keras_vit.specs import Spec
from keras_vit.weights.names import weight_names


@dataclasses.dataclass(frozen=True)
class LayerCost:
    """The costs of a layer, for one image.

    Attributes:
        name: the layer's name in the model.
        parameters: the number of its weights.
        flops: operations of its matrix products and convolutions in the forward pass; a
            multiplication and an addition are two.
        held: the number of values that the backward pass holds, an estimate: see `activations.py`.
    """

    name: str
    parameters: int
    flops: int
    held: int


def profile(
    spec: Spec, num_classes: int = 1000, image_size: int | tuple[int, int] = 224
) -> list[LayerCost]:
    """The costs of the layers that have any, from input to output.

    >>> from keras_vit.models.profile import profile
    >>> layers = profile(keras_vit.ViT_S16().spec)
    >>> sum(layer.parameters for layer in layers)
    22050664

    Args:
        spec: the hyperparameters.
        num_classes: number of logits; 0 for no head.
        image_size: input size in pixels, one number or (height, width).
    """
    parameters: dict[str, int] = {}
    for weight in weight_names(spec, num_classes, image_size):
        layer = weight.path.partition("/")[0]
        parameters[layer] = parameters.get(layer, 0) + math.prod(weight.shape)
    flops = forward_flops(spec, num_classes, image_size)
    held = held_values(spec, image_size)
    layers = dict.fromkeys(["images", *parameters, *flops, *held])
    return [
        LayerCost(name, parameters.get(name, 0), flops.get(name, 0), held.get(name, 0))
        for name in layers
    ]


def grouped(layers: Sequence[LayerCost]) -> list[LayerCost]:
    """Layers that follow each other and cost the same, as one: "encoderblock_0 to 11"."""
    groups: list[list[LayerCost]] = []
    for layer in layers:
        before = groups[-1][-1] if groups else None
        if before is not None and _kind(layer) == _kind(before) and _costs(layer) == _costs(before):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return [_joined(group) for group in groups]


def _kind(layer: LayerCost) -> str:
    return re.sub(r"\d+$", "", layer.name)


def _costs(layer: LayerCost) -> tuple[int, int, int]:
    return layer.parameters, layer.flops, layer.held


def _joined(group: Sequence[LayerCost]) -> LayerCost:
    if len(group) == 1:
        return group[0]
    last = group[-1].name.removeprefix(_kind(group[-1]))
    totals = (sum(each) for each in zip(*map(_costs, group), strict=True))
    return LayerCost(f"{group[0].name} to {last}", *totals)
