"""What a training step costs, and the settings with which it fits into the memory that is free.

A step costs floating-point operations, and the memory of a device.

Parameters, gradients and the optimiser's state are counted exactly. Activations are an estimate of
the largest memory of the backward pass: see `models/profile.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_vit._keras import LEGACY, backend
from keras_vit.encoder.masked_patches import masked_count
from keras_vit.models import profile
from keras_vit.models.masked_models import values_of
from keras_vit.models.profile import LayerCost
from keras_vit.recipe import SELF_SUPERVISED, Recipe
from keras_vit.specs import Spec, ViTSpec
from keras_vit.training.engines import Engine

# The part of the free memory that is filled: pictures, the compiler and other programs need some.
_FILLED = 0.75
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
    recipe: Recipe,
    model: Any,
    learner: Any,
    devices: int = 1,
    teacher: Any = None,
    keeps_features: bool = False,
) -> Costs:
    """The costs of a step.

    Args:
        recipe: the settings; without `accumulate`, the batch is computed at once.
        model: the model that is trained.
        learner: its learner, with a built optimiser.
        devices: the number of devices that a batch is divided among.
        teacher: the model that teaches it, which sees each image once; None for none.
        keeps_features: whether a step reads features, see `Plan`. The activations are those with
            which they are computed.
    """
    layers = _layers(recipe, model)
    parts = recipe.accumulate or 1
    images = recipe.batch_size // devices // parts  # at a time
    trainable = _bytes(learner.trainable_variables)
    state = learner.optimizer.variables
    # Without classes the learner has a decoder or another head, and not the model's.
    taught, models = 0, [learner if recipe.loss in SELF_SUPERVISED else model]
    if teacher is not None:
        seen = profile.profile(teacher.spec, teacher.num_classes, teacher.image_size)
        taught = sum(layer.flops for layer in seen)
        models.append(teacher)
    return Costs(
        sum(layer.flops for layer in layers),
        recipe.batch_size * (training_flops(layers, recipe, keeps_features) + taught),
        sum(_bytes(each.weights) for each in models),
        # Parts of a batch are added to the gradients of the parts before.
        trainable * (2 if parts > 1 else 1),
        _bytes(state() if callable(state) else state),
        images * _activations(layers, model, recipe) * _BYTES[recipe.precision],
        tuple(profile.grouped(layers)),
    )


def step_flops(recipe: Recipe, model: Any, keeps_features: bool = False) -> int:
    """The operations of a step over all devices, without those of a teacher."""
    return recipe.batch_size * training_flops(_layers(recipe, model), recipe, keeps_features)


def training_flops(
    layers: Sequence[LayerCost], recipe: Recipe, keeps_features: bool = False
) -> int:
    """Operations of one image in a step, from the layers of what is trained.

    The backward pass computes two products for each of the forward pass, the gradients of its
    weights and of its input; the first layer's input needs none.

    Args:
        layers: the layers, from input to output.
        recipe: the settings.
        keeps_features: whether a step reads features, see `Plan`.
    """
    forward = sum(layer.flops for layer in layers)
    first = next(layer.flops for layer in layers if layer.flops)
    head = sum(layer.flops for layer in layers if layer.name == "head")
    if keeps_features:
        return 2 * head
    if recipe.freeze == "body":
        return forward + head
    if recipe.lora:
        return 2 * forward - first + head  # no gradients of frozen kernels
    blocks = sum(layer.flops for layer in _blocks(layers))
    return 3 * forward - first + (blocks if recipe.remat else 0)


def free_memory(engine: Engine, held: int) -> int | None:
    """The bytes that are free for training on each device; None if that is not known.

    That is the memory of a GPU for this process, and otherwise what this machine, or the container,
    can give without swapping.

    Args:
        engine: the devices.
        held: the bytes that the run has taken already on each device.
    """
    if engine.processes > 1 or engine.name == "tpu":
        return None
    on_gpu = _free_on_gpu()
    if on_gpu is not None:
        return on_gpu
    sizes = [size for size in (_free_here(), _free_in_container()) if size is not None]
    return min(sizes) // engine.replicas + held if sizes else None


def accumulate_that_fits(
    recipe: Recipe, costs: Callable[[Recipe], Costs], images: int, free: int | None
) -> int:
    """The smallest number of equal parts of a batch of which one fits into the free memory.

    Args:
        recipe: the settings; its own `accumulate` is returned if it has one.
        costs: the costs of a step with the settings.
        images: the number of images in the batch of a device.
        free: bytes, see `free_memory`.

    Returns:
        The number of parts; `images` if not even one image fits.
    """
    if recipe.accumulate is not None or free is None:
        return recipe.accumulate or 1
    parts = (count for count in range(1, images) if images % count == 0)
    return next((n for n in parts if _memory(costs, recipe, n) <= _FILLED * free), images)


def why_too_large(
    recipe: Recipe, spec: Spec, costs: Callable[[Recipe], Costs], images: int, free: int | None
) -> str:
    """Why a run does not fit into the free memory, and what would; "" if it fits.

    Args:
        recipe: the settings, with the parts of a batch.
        spec: the model's spec.
        costs, images, free: see `accumulate_that_fits`.
    """
    needed = costs(recipe).memory
    if free is None or needed <= free:
        return ""
    fitting = []
    for changes in _less_memory(recipe, spec):
        changed = dataclasses.replace(recipe, **changes)
        parts = accumulate_that_fits(changed, costs, images, free)
        memory = _memory(costs, changed, parts)
        if memory <= free:
            settings = {**changes, "accumulate": parts}
            words = (f"{k}={v!r}" for k, v in settings.items() if v != getattr(recipe, k))
            fitting.append(f"{' and '.join(words)} ({_gib(memory)})")
    advice = (
        f"choose {', or '.join(fitting)}" if fitting else "choose a smaller model or image_size"
    )
    return (
        f"a step needs about {_gib(needed)} of memory with accumulate={recipe.accumulate}, and "
        f"{_gib(free)} are free; {advice}."
    )


def _layers(recipe: Recipe, model: Any) -> list[LayerCost]:
    """The layers of what is trained, from input to output."""
    spec, size = model.spec, model.image_size
    if recipe.loss not in SELF_SUPERVISED:
        return profile.profile(spec, model.num_classes, size)
    target, _ = SELF_SUPERVISED[recipe.loss]
    if target is not None:
        return profile.masked_patch_profile(spec, size, values_of(target, spec))
    grid = spec.grid(size)
    visible = math.prod(grid) - masked_count(grid, recipe.masked_fraction)
    decoder = recipe.decoder_dim, recipe.decoder_depth, recipe.decoder_heads
    return profile.autoencoder_profile(spec, size, visible, *decoder)


def _blocks(layers: Iterable[LayerCost]) -> list[LayerCost]:
    return [layer for layer in layers if layer.name.startswith("encoderblock_")]


def _activations(layers: Sequence[LayerCost], model: Any, recipe: Recipe) -> int:
    """Values that the backward pass of one image holds at a time."""
    held = sum(layer.held for layer in layers)
    blocks = [layer.held for layer in _blocks(layers)]
    if not blocks or not (recipe.remat or recipe.freeze == "body"):
        return held
    one_at_a_time = held - sum(blocks) + max(blocks)
    if recipe.freeze == "body":
        return one_at_a_time  # and nothing is kept
    spec = model.spec
    tokens = math.prod(spec.grid(model.image_size)) + spec.prefix_tokens
    return one_at_a_time + spec.depth * tokens * spec.hidden_dim


def _bytes(variables: Iterable[Any]) -> int:
    import tensorflow as tf

    return sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables)


def _less_memory(recipe: Recipe, spec: Spec) -> list[dict[str, Any]]:
    """Changes of a recipe that save memory, the one that changes the run least first."""
    changes: list[dict[str, Any]] = [{"accumulate": None}]
    if isinstance(spec, ViTSpec) and not (recipe.remat or LEGACY):
        changes.append({"accumulate": None, "remat": True})
    if recipe.freeze == "none" and recipe.loss not in SELF_SUPERVISED:
        changes.append({"accumulate": None, "lora": 0, "layer_decay": 1.0, "freeze": "body"})
    return changes


def _memory(costs: Callable[[Recipe], Costs], recipe: Recipe, parts: int) -> int:
    each = costs(dataclasses.replace(recipe, accumulate=parts))
    # The head's gradients are few, and the others are not computed.
    return each.parameters + each.activations if recipe.freeze == "body" else each.memory


def _free_on_gpu() -> int | None:
    """The memory of the first GPU that this process may fill; None without a GPU."""
    if backend() == "jax":
        import jax

        return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return None
    from tensorflow.python.client import device_lib  # tf.config does not tell the limit

    return min(
        each.memory_limit for each in device_lib.list_local_devices() if each.device_type == "GPU"
    )


def _free_here() -> int | None:
    """What Linux can give without swapping; elsewhere all memory of this machine."""
    file = Path("/proc/meminfo")
    if file.is_file():
        lines = (line.split() for line in file.read_text().splitlines())
        return next((1024 * int(size) for name, size, *_ in lines if name == "MemAvailable:"), None)
    with contextlib.suppress(AttributeError, ValueError):  # Windows has no such function
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _free_in_container() -> int | None:
    """What the limit of this container leaves; None without a limit."""
    folder = Path("/sys/fs/cgroup")
    for limit, usage, cache in (
        (folder / "memory.max", "memory.current", "inactive_file"),
        (folder / "memory/memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        if (text := _text(limit).strip()).isdecimal():
            stat = dict(line.split() for line in _text(limit.with_name("memory.stat")).splitlines())
            # The system takes the cache of files that are not in use where memory is needed.
            used = int(_text(limit.with_name(usage)) or 0) - int(stat.get(cache, 0))
            return max(0, int(text) - used)
    return None


def _text(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
