"""The memory that is free, and the settings with which a training fits into it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_vit._keras import LEGACY, backend
from keras_vit.recipe import SELF_SUPERVISED
from keras_vit.specs import Spec, ViTSpec
from keras_vit.training.costs import Costs
from keras_vit.training.engines import Engine
from keras_vit.training.recipes import Recipe

# The part of the free memory that is filled: pictures, the compiler and other programs need some.
_FILLED = 0.75


def free_memory(engine: Engine, held: int) -> int | None:
    """The bytes that are free for a training on each device; None if that is not known.

    That is the memory of a GPU for this process, and otherwise what this machine, or the container,
    can give without swapping.

    Args:
        engine: the devices.
        held: the bytes that the training has taken already on each device.
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
    if recipe.accumulate is not None:
        return recipe.accumulate
    if free is None:
        return 1
    parts = (count for count in range(1, images) if images % count == 0)
    return next((n for n in parts if _memory(costs, recipe, n) <= _FILLED * free), images)


def why_too_large(
    recipe: Recipe, spec: Spec, costs: Callable[[Recipe], Costs], images: int, free: int | None
) -> str:
    """Why a training does not fit into the free memory, and what would; "" if it fits.

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


def _less_memory(recipe: Recipe, spec: Spec) -> list[dict[str, Any]]:
    """Changes of a recipe that save memory, the one that changes the training least first."""
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
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    if not {*names} <= {*getattr(os, "sysconf_names", ())}:
        return None
    return os.sysconf(names[0]) * os.sysconf(names[1])


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
