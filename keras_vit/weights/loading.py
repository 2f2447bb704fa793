"""Loads weights in any known layout into a built model. Every key and every weight must match.

`matching.py` matches keys with weights and reports everything that does not fit.
"""

from __future__ import annotations

import dataclasses
import os
from collections import defaultdict
from typing import Any

import numpy as np

from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit.parts.grids import Method
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.dialects import Place
from keras_vit.weights.matching import Head, Match, match
from keras_vit.weights.names import weight_names
from keras_vit.weights.tensors import display


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The record that `load_weights` returns.

    Attributes:
        dialect: the detected layout of the file.
        weights: the number of weights that were set.
        dropped: official keys that were not read because of `head="reset"`.
        ignored: keys of the file that are not weights, such as optimiser state.
        resampled: descriptions of resampled weights: "positions 14 x 14 to 24 x 24".
        head: "keep", or "reset" if the head starts at zero.
    """

    dialect: str
    weights: int
    dropped: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    resampled: tuple[str, ...] = ()
    head: Head = "keep"

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
    """Loads a file of weights into a built model. Either all weights are loaded or none.

    >>> keras_vit.save_weights(model, "out.npz")
    >>> print(keras_vit.load_weights(model, "out.npz"))
    40 weights from npz, official

    The layout is detected: the official `.npz` and its variations (prefixes, Linen names,
    big_vision's scanned layers and position tables, bfloat16), BiT's `.npz`, and the safetensors
    files of timm and transformers. A prefix of another program, such as "module.", is taken off if
    nothing else fits, and is part of the record's `dialect`. Position tables of another resolution
    are resampled. The kernel that reads RGB images is folded for a model of other `in_channels`:
    see `fold_channels`.

    Args:
        model: a built `keras_vit.ViT` or `keras_vit.BiT` with the architecture of the file.
        path: the file, or a folder with a model.safetensors.
        head: "keep" loads the head too. "reset" ignores the file's head, and the model's head
            starts at zero, for fine-tuning on other classes. A pre_logits layer in the file is
            then ignored too, if the model has none.
        positions: the resampling of position tables: "bilinear" as in the official code,
            "bicubic" as in timm; see `resample_positions`.
        grid: rows and columns of the file's position table, if it is not square and the file
            does not state them.
        resize_patches: allow patch kernels of another size to be resized (FlexiViT).
        allow_nonfinite: accept NaN and infinite values, which are otherwise refused.

    Returns:
        A record of the loading, with the detected layout; it prints as one line.

    Raises:
        UsageError: the file is absent, damaged or in an unknown layout; its GELU, epsilon, heads or
            labels differ from the model's (unless stated, they are "tanh" and 1e-6 in official
            files, "erf" in timm's and transformers'); or its keys and shapes differ from the
            model's. Then the message has the likely cause and sorted lists of weights that are
            missing (`-`), unexpected (`+`) or of another shape (`!`). The model is unchanged.
    """
    keras_vit_model(model)
    changes = {"positions": positions, "grid": grid, "resize_patches": resize_patches}
    with open_checkpoint(path, getattr(model.spec, "num_heads", None)) as checkpoint:
        matched = match(model, checkpoint, head, check_stated=True, **changes)
        return fill(model, checkpoint, matched, allow_nonfinite)


def fill(
    model: Any, checkpoint: Checkpoint, matched: Match, allow_nonfinite: bool = False
) -> Loaded:
    """Loads the weights that `match` returned into a built model, either all or none."""
    if not allow_nonfinite:
        _check_finite(checkpoint, matched.places)
    # Each tensor of the file is read once and then freed, even if it contains several weights.
    groups = defaultdict(list)
    for key, place in matched.places.items():
        groups[place.key].append(key)
    for stored, keys in groups.items():
        _assign(model, checkpoint, matched, checkpoint.tensors.read(stored), keys)
    if matched.head == "reset" and model.num_classes:
        _reset_head(model)
    resampled = tuple(sorted({change.description for change in matched.changes.values()}))
    dialect, ignored = checkpoint.dialect, checkpoint.layout.ignored
    return Loaded(dialect, len(matched.names), matched.dropped, ignored, resampled, matched.head)


def _assign(
    model: Any, checkpoint: Checkpoint, matched: Match, tensor: np.ndarray, keys: list[str]
) -> None:
    for key in keys:
        name, change = matched.names[key], matched.changes.get(key)
        shape = checkpoint.shape(key) if change else name.shape
        array = matched.places[key].official(tensor, shape)
        variable = name.variable(model)
        array = change.apply(array) if change else array
        variable.assign(array.reshape(tuple(variable.shape)))


def _reset_head(model: Any) -> None:
    for name in weight_names(model.spec, model.num_classes, model.image_size):
        layer, _, part = name.path.partition("/")
        if layer == "head":
            variable = name.variable(model)
            value = getattr(model, "head_bias", 0.0) if part.endswith("bias") else 0.0
            variable.assign(np.full(tuple(variable.shape), value, np.float32))


def _check_finite(checkpoint: Checkpoint, places: dict[str, Place]) -> None:
    keys = dict.fromkeys(place.key for place in places.values())
    counts = {key: np.count_nonzero(~np.isfinite(checkpoint.tensors.read(key))) for key in keys}
    bad = [key for key, count in counts.items() if count]
    if bad:
        raise UsageError(
            f"{checkpoint.path} has {sum(counts.values()):,} NaN or infinite values in {len(bad)} "
            f"arrays, the first in {display(bad[0])}; set allow_nonfinite to load them anyway."
        )
