"""Weights of any known layout into a built model: every key of the file, every weight of the model.

The rule for another resolution or patch size is in `resampling.py`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.specs import ResNetSpec, Spec, ViTSpec
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.dialects import Place
from keras_vit.weights.names import WeightName, weight_names
from keras_vit.weights.resampling import (
    Grid,
    Method,
    resample_grid,
    resample_patches,
    resample_positions,
)
from keras_vit.weights.tensors import display

Head = Literal["keep", "reset"]
_POSITIONS = "Transformer/posembed_input/pos_embedding"
_PATCHES = "embedding/kernel"
# A table of more positions than this is no published one; the bound keeps memory bounded.
_MOST_POSITIONS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What `load_weights` did.

    Attributes:
        dialect: the layout that the file was found to be in.
        weights: how many weights of the model were set.
        dropped: official keys that `head="reset"` left out.
        ignored: keys of the file that are no weights: an optimiser's state and the like.
        resampled: in words, "positions 14 x 14 to 24 x 24"; empty if nothing was.
    """

    dialect: str
    weights: int
    dropped: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    resampled: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.weights} weights from {self.dialect}", *self.resampled]
        if self.dropped:
            parts.append(f"dropped {', '.join(sorted(self.dropped))}")
        if self.ignored:
            parts.append(f"ignored {len(self.ignored)} keys such as {display(self.ignored[0])}")
        return "; ".join(parts)


def load_weights(
    model: Any,
    path: str | os.PathLike,
    head: Head = "keep",
    *,
    positions: Method = "bilinear",
    grid: tuple[int, int] | None = None,
    resize_patches: bool = False,
    allow_nonfinite: bool = False,
) -> Loaded:
    """Reads a file of weights into a built model; strict, all or nothing.

    The layout is found out: the official `.npz` in its spellings (prefixes, Linen names,
    big_vision's scanned layers and position tables, bfloat16), BiT's, and the safetensors files
    of timm and transformers. Position tables of another resolution are resampled.

    Args:
        model: a built `keras_vit.ViT` or `keras_vit.BiT` of the file's architecture.
        path: the file, or a folder with a model.safetensors.
        head: "keep" reads the head too; "reset" leaves the model's as it is and ignores the
            file's, to fine-tune on other classes; a pre_logits that the model lacks goes with it.
        positions: how a position table gets another grid: "bilinear" as the official code,
            "bicubic" as timm; see `resample_positions`.
        grid: rows and columns of the file's position table, where it is not square and the file
            does not say so itself.
        resize_patches: let patch kernels of another size be resized (FlexiViT).
        allow_nonfinite: take NaN and infinite values, which are otherwise refused.

    Returns:
        What was done, and which layout it took; `print` shows it in a line.

    Raises:
        UsageError: the file is absent, damaged or in no known layout; it says that it was made
            with another GELU or epsilon than the model has; or its keys and shapes are not the
            model's. Then the message names the likely cause and lists, sorted, `-` what is
            missing, `+` what is unexpected and `!` what has another shape. The model is unchanged.
    """
    if not hasattr(model, "spec"):
        raise UsageError(
            "expected a keras_vit.ViT or keras_vit.BiT, whose weights have official names. "
            f"Received: {type(model).__name__}."
        )
    with open_checkpoint(path) as checkpoint:
        return fill(
            model,
            checkpoint,
            head,
            check_numerics=True,
            positions=positions,
            grid=grid,
            resize_patches=resize_patches,
            allow_nonfinite=allow_nonfinite,
        )


def fill(
    model: Any,
    checkpoint: Checkpoint,
    head: Head = "keep",
    *,
    check_numerics: bool = False,
    positions: Method = "bilinear",
    grid: tuple[int, int] | None = None,
    resize_patches: bool = False,
    allow_nonfinite: bool = False,
) -> Loaded:
    """`load_weights` from an open checkpoint.

    Args:
        check_numerics: whether the GELU and epsilon that the file tells must be the model's.
    """
    if head not in ("keep", "reset"):
        raise UsageError(f'head must be "keep" or "reset". Received: head={head!r}.')
    if positions not in get_args(Method):
        raise UsageError(
            f'positions must be "bilinear" or "bicubic". Received: positions={positions!r}.'
        )
    names = {n.key: n for n in weight_names(model.spec, model.num_classes, model.image_size)}
    places = dict(checkpoint.layout.places)
    dropped = ()
    if head == "reset":
        names = {key: n for key, n in names.items() if not key.startswith(f"{checkpoint.head}/")}
        dropped = tuple(k for k in places if k.startswith(_droppable(model.spec, checkpoint.head)))
        places = {key: place for key, place in places.items() if key not in dropped}
    changes = {}
    for key in names.keys() & places.keys():
        change = _change(key, model, checkpoint, names[key].shape, positions, grid, resize_patches)
        if change is not None:
            changes[key] = change
    _check_names(model, checkpoint, names, places, changes)
    if check_numerics:
        _check_numerics(model, checkpoint)
    if not allow_nonfinite:
        _check_finite(checkpoint, places)
    shapes = {key: checkpoint.shape(key) if key in changes else n.shape for key, n in names.items()}
    for key, array in _arrays(checkpoint, places, shapes):
        variable = names[key].variable(model)
        if key in changes:
            array = changes[key].apply(array)
        variable.assign(array.reshape(tuple(variable.shape)))
    told = tuple(sorted({change.told for change in changes.values()}))
    return Loaded(checkpoint.dialect, len(names), dropped, checkpoint.layout.ignored, told)


def _droppable(spec: Spec, head: str) -> tuple[str, ...]:
    # The pre-training representation goes with its head (paper, section 3.1.1).
    keeps = isinstance(spec, ResNetSpec) or spec.representation_dim
    return (f"{head}/",) if keeps else (f"{head}/", "pre_logits/")


def _arrays(
    checkpoint: Checkpoint, places: dict[str, Place], shapes: dict[str, tuple[int, ...]]
) -> Iterator[tuple[str, np.ndarray]]:
    # Each tensor of the file is read once and let go, however many weights it holds.
    groups = defaultdict(list)
    for key, place in places.items():
        groups[place.key].append(key)
    for stored, keys in groups.items():
        tensor = checkpoint.tensors.read(stored)
        for key in keys:
            yield key, places[key].official(tensor, shapes[key])
        del tensor


def _check_numerics(model: Any, checkpoint: Checkpoint) -> None:
    for field, theirs in checkpoint.told.items():
        ours = getattr(model.spec, field, theirs)
        if ours != theirs:
            raise UsageError(
                f"{checkpoint.path} ({checkpoint.dialect}) goes with {field}={theirs!r}, the model "
                f"has {ours!r}; build the model with {field}={theirs!r}."
            )


@dataclasses.dataclass(frozen=True)
class _Change:
    """How an array of another shape becomes the model's, and what to say of it."""

    apply: Callable[[np.ndarray], np.ndarray]
    told: str


def _change(
    key: str,
    model: Any,
    checkpoint: Checkpoint,
    shape: tuple[int, ...],
    method: Method,
    grid: tuple[int, int] | None,
    resize_patches: bool,
) -> _Change | None:
    found = checkpoint.shape(key)
    if len(found) != len(shape):
        return None
    if key == _PATCHES and resize_patches and found[2:] == shape[2:] and found[:2] != shape[:2]:
        told = f"patches {found[0]} x {found[1]} to {shape[0]} x {shape[1]}"
        return _Change(lambda kernel: resample_patches(kernel, shape[0]), told)
    if not re.search(r"pos_embedding$|posembed_input/|relative_position_bias$", key):
        return None
    if found[-1] != shape[-1] or max(found[:-1]) > _MOST_POSITIONS:
        return None
    old, new = grid or _old_grid(key, model, checkpoint, found), model.grid
    if old is None or old == new:
        return None
    told = f"positions {old[0]} x {old[1]} to {new[0]} x {new[1]} ({method})"
    return _Change(lambda table: _resampled(key, table, old, new, model.spec, method), told)


def _old_grid(
    key: str, model: Any, checkpoint: Checkpoint, found: tuple[int, ...]
) -> tuple[int, int] | None:
    # The grid of the file's table; None where it is taken for the model's own. A file that does not
    # say holds a square, as the official code assumes too.
    told = checkpoint.grid
    if told is not None or key != _POSITIONS:
        return told
    patches = found[1] - int(model.spec.class_token)
    if patches == math.prod(model.grid):
        return None
    raise UsageError(
        f"{checkpoint.path}: its {patches} positions are no square; pass grid=(rows, columns)."
    )


def _resampled(
    key: str, table: np.ndarray, old: Grid, new: Grid, spec: ViTSpec, method: Method
) -> np.ndarray:
    if key == _POSITIONS:
        return resample_positions(table, old, new, spec.class_token, method)
    if key.endswith("relative_position_bias"):
        # Offsets form a grid of (2 * rows - 1, 2 * columns - 1); the class token's three follow.
        old, new = ((2 * rows - 1, 2 * columns - 1) for rows, columns in (old, new))
        offsets = table[: math.prod(old)].reshape(*old, -1)  # (rows, columns, heads)
        offsets = resample_grid(offsets, new, method).reshape(math.prod(new), -1)
        return np.concatenate([offsets, table[math.prod(old) :]])
    side = new[0] if key.endswith("row_embedding") else new[1]
    return resample_grid(table[:, None], (side, 1), method)[:, 0]  # (side, hidden_dim / 2)


def _check_names(
    model: Any,
    checkpoint: Checkpoint,
    names: dict[str, WeightName],
    places: dict[str, Place],
    changes: dict[str, _Change],
) -> None:
    stored = checkpoint.tensors.shapes
    missing = sorted(f"  - {key} {names[key].shape}" for key in names.keys() - places.keys())
    unexpected = {places[key].key for key in places.keys() - names.keys()}
    unexpected = sorted(f"  + {display(key)}" for key in unexpected | {*checkpoint.layout.unknown})
    shapes = sorted(
        {
            f"  ! {display(place.key)} {stored[place.key]}, the model's is "
            f"{place.stored_shape(names[key].shape)}"
            for key, place in places.items()
            if key in names
            and key not in changes
            and not place.fits(stored[place.key], names[key].shape)
        }
    )
    lines = missing + unexpected + shapes
    if lines:
        because = _cause(model, checkpoint, names, places) or f"the first: {lines[0].strip()}"
        raise UsageError(
            f"{checkpoint.path} does not fit the model in {len(lines)} weights (- missing, "
            f"+ unexpected, ! other shape): {because}\n" + "\n".join(lines)
        )


# What an unknown key gives away.
_STRANGERS = {
    r"\.ls[12]\.|layer_scale|lambda_[12]": "it has LayerScale, which no ViT here has",
    r"reg_token|register_tokens": "it has register tokens, which no ViT here has",
    r"dist_token|head_dist|distillation": "it has a distillation token, which no ViT here has",
    r"fc_norm": "it normalises after pooling, where the models here do before",
    r"[qk]_norm": "it normalises queries and keys, which no ViT here does",
    r"norm_pre": "it normalises before the blocks, which no ViT here does",
    r"lora_|adapter": "it holds adapters; merge them into the weights first",
}


def _cause(
    model: Any, checkpoint: Checkpoint, names: dict[str, WeightName], places: dict[str, Place]
) -> str | None:
    for pattern, cause in _STRANGERS.items():
        if any(re.search(pattern, key) for key in checkpoint.layout.unknown):
            return cause
    head = checkpoint.head
    try:
        differs = _differences(checkpoint.spec, model.spec)
        classes = checkpoint.num_classes
        what = checkpoint.variant or "another architecture"
    except UsageError:
        return None
    if differs:
        return f"this file is {what}: {'; '.join(differs)}"
    if f"{head}/bias" in names and classes == 0:
        return 'this file has no head; head="reset" leaves the model\'s as it is'
    if f"{head}/bias" in names and classes != model.num_classes:
        return (
            f"this file has {classes} classes, not {model.num_classes}; "
            'head="reset" leaves the model\'s head as it is'
        )
    if "pre_logits/kernel" in places and "pre_logits/kernel" not in names:
        return (
            f"this file has a pre_logits layer; build the model with representation_dim="
            f'{checkpoint.spec.representation_dim}, or drop it with head="reset"'
        )
    return None


_ARCHITECTURE = (
    "hidden_dim", "depth", "num_heads", "mlp_dim", "patch_size", "stem", "pooling",
    "position_embedding", "layers", "width",
)  # fmt: skip


def _differences(theirs: Spec, ours: Spec) -> list[str]:
    if type(theirs) is not type(ours):
        kinds = {ViTSpec: "a ViT", ResNetSpec: "a BiT ResNet"}
        return [f"{kinds[type(theirs)]}, not {kinds[type(ours)]}"]
    pairs = {
        field: (getattr(theirs, field), getattr(ours, field))
        for field in _ARCHITECTURE
        if hasattr(ours, field)
    }
    if pairs.get("pooling") == ("token", "none"):  # both have a class token: the same weights
        del pairs["pooling"]
    return [f"{field} {one}, not {other}" for field, (one, other) in pairs.items() if one != other]


def _check_finite(checkpoint: Checkpoint, places: dict[str, Place]) -> None:
    bad = {}
    for key in dict.fromkeys(place.key for place in places.values()):
        array = checkpoint.tensors.read(key)
        count = array.size - np.count_nonzero(np.isfinite(array))
        if count:
            bad[key] = count
    if bad:
        raise UsageError(
            f"{checkpoint.path} holds {sum(bad.values()):,} NaN or infinite values in {len(bad)} "
            f"arrays, the first in {display(next(iter(bad)))}; allow_nonfinite takes them."
        )
