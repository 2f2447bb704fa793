"""What a training step costs: floating-point operations, and the memory of a device.

Parameters, gradients and the optimiser's state are counted exactly. Activations are an estimate of
the largest memory of the backward pass: see `models/activations.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from keras_vit.models.activations import decoder_block_values, held_values
from keras_vit.models.flops import autoencoder_flops, forward_flops, masked_patch_flops
from keras_vit.models.masked_models import MaskedAutoencoder, MaskedPatchPredictor, values_of
from keras_vit.models.profile import LayerCost, grouped, profile
from keras_vit.parts.masked_patches import masked_count
from keras_vit.recipe import SELF_SUPERVISED
from keras_vit.specs import Spec
from keras_vit.training.recipes import Recipe

_EMBEDDING = {"visible": "patch_encoder", "corrupted": "patch_encoder"}
_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}  # of an activation


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a training step costs.

    Attributes:
        forward_flops: operations of the forward pass of one image; products and convolutions.
        step_flops: operations of a step, over all devices.
        parameters, gradients, optimizer, activations: bytes on each device.
        layers: the costs of the layers that are trained for one image, those that cost the same
            together; without classes those of the decoder or of the other head are among them.
    """

    forward_flops: int
    step_flops: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    layers: tuple[LayerCost, ...] = ()

    @property
    def memory(self) -> int:
        """Bytes on each device in all, without the framework's own."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def costs_of(
    recipe: Recipe, model: Any, learner: Any, devices: int = 1, teacher: Any = None
) -> Costs:
    """The costs of a step.

    Args:
        recipe: the settings; without `accumulate`, the batch is computed at once.
        model: the model that is trained.
        learner: its learner, with a built optimiser.
        devices: the number of devices that a batch is divided among.
        teacher: the model that teaches it, which sees each image once; None for none.
    """
    flops = _forward(recipe, model)
    parts = recipe.accumulate or 1
    images = recipe.batch_size // devices // parts  # at a time
    each = _activations(model.spec, model.image_size, recipe) * _BYTES[recipe.precision]
    trainable = _bytes(learner.trainable_variables)
    state = learner.optimizer.variables
    layers = tuple(grouped(_layers(recipe, model, learner, flops)))
    # Without classes the learner has a decoder or another head, and not the model's.
    taught, models = 0, [learner if recipe.loss in SELF_SUPERVISED else model]
    if teacher is not None:
        taught = sum(forward_flops(teacher.spec, teacher.num_classes, teacher.image_size).values())
        models.append(teacher)
    return Costs(
        sum(flops.values()),
        recipe.batch_size * (training_flops(flops, recipe) + taught),
        sum(_bytes(each.weights) for each in models),
        # Parts of a batch are added to the gradients of the parts before.
        trainable * (2 if parts > 1 else 1),
        _bytes(state() if callable(state) else state),
        images * each,
        layers,
    )


def step_flops(recipe: Recipe, model: Any) -> int:
    """The operations of a step over all devices, without those of a teacher."""
    return recipe.batch_size * training_flops(_forward(recipe, model), recipe)


def _layers(recipe: Recipe, model: Any, learner: Any, flops: dict[str, int]) -> list[LayerCost]:
    """The costs of the layers of what is trained, from input to output."""
    spec, size = model.spec, model.image_size
    if recipe.loss not in SELF_SUPERVISED:
        return profile(spec, model.num_classes, size)
    kinds = (MaskedAutoencoder, MaskedPatchPredictor)
    predictor = next((layer for layer in learner.layers if isinstance(layer, kinds)), None)
    if predictor is None:  # a task of one's own
        return []
    # The layer that chooses patches contains the embedding.
    parameters = {
        _EMBEDDING.get(layer.name, layer.name): layer.count_params() for layer in predictor.layers
    }
    held = held_values(spec, size, _visible(recipe, spec, size))
    if recipe.loss == "mae":
        block = _decoder_block(recipe, spec, size)
        held |= {f"decoderblock_{i}": block for i in range(recipe.decoder_depth)}
    costs = [
        LayerCost(name, parameters.get(name, 0), flops.get(name, 0), held.get(name, 0))
        for name in dict.fromkeys(["images", *parameters, *flops, *held])
    ]
    return [each for each in costs if each.parameters or each.flops or each.held]


def _forward(recipe: Recipe, model: Any) -> dict[str, int]:
    """The operations of what is trained, by layer."""
    spec, size = model.spec, model.image_size
    if recipe.loss not in SELF_SUPERVISED:
        return forward_flops(spec, model.num_classes, size)
    target, _ = SELF_SUPERVISED[recipe.loss]
    if target is not None:
        return masked_patch_flops(spec, size, values_of(target, spec))
    visible, width = _visible(recipe, spec, size), recipe.decoder_dim
    return autoencoder_flops(spec, size, visible, width, recipe.decoder_depth, 4 * width)


def _visible(recipe: Recipe, spec: Spec, image_size: tuple[int, int]) -> int | None:
    """The number of patches that the blocks see; None for all."""
    if recipe.loss != "mae":
        return None
    grid = spec.grid(image_size)
    return math.prod(grid) - masked_count(grid, recipe.masked_fraction)


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
    held = held_values(spec, image_size, _visible(recipe, spec, image_size))
    blocks = [values for name, values in held.items() if name.startswith("encoderblock_")]
    if not blocks:
        return sum(held.values())
    others, block = sum(held.values()) - sum(blocks), max(blocks)
    if recipe.loss == "mae":
        others += recipe.decoder_depth * _decoder_block(recipe, spec, image_size)
    if recipe.freeze == "body":
        return others + block  # one block at a time, and nothing is kept
    if recipe.remat:
        rows, columns = spec.grid(image_size)
        tokens = rows * columns + spec.prefix_tokens
        return others + spec.depth * tokens * spec.hidden_dim + block
    return others + sum(blocks)


def _decoder_block(recipe: Recipe, spec: Spec, image_size: tuple[int, int]) -> int:
    """Values that the backward pass of one image holds of a block of MAE's decoder."""
    tokens, width = math.prod(spec.grid(image_size)) + spec.prefix_tokens, recipe.decoder_dim
    return decoder_block_values(tokens, width, 4 * width, recipe.decoder_heads)


def _bytes(variables: Iterable[Any]) -> int:
    return sum(math.prod(v.shape) * _item(v.dtype) for v in variables)


def _item(dtype: Any) -> int:
    name = getattr(dtype, "name", str(dtype))
    return int("".join(c for c in name if c.isdigit()) or 8) // 8
