"""Weights of any known layout into a built model: every key of the file, every weight of the model.

`matching.py` finds which key belongs to which weight, and what does not fit.
"""

from __future__ import annotations

import dataclasses
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_vit._checks import keras_vit_model
from keras_vit._errors import UsageError
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.dialects import Place
from keras_vit.weights.matching import Head, Match, match
from keras_vit.weights.resampling import Method
from keras_vit.weights.tensors import display


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What `load_weights` did.

    Attributes:
        dialect: the layout that the file was found to be in.
        weights: how many weights of the model were set.
        dropped: official keys that `head="reset"` left out.
        ignored: keys of the file that are not weights, such as an optimiser's state.
        resampled: what was resampled, in words: "positions 14 x 14 to 24 x 24".
        head: "keep", or "reset" if it starts at zero.
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
    """Reads a file of weights into a built model; strict, all or nothing.

    The layout is detected: the official `.npz` in its spellings (prefixes, Linen names,
    big_vision's scanned layers and position tables, bfloat16), BiT's, and the safetensors files
    of timm and transformers. Position tables of another resolution are resampled.

    Args:
        model: a built `keras_vit.ViT` or `keras_vit.BiT` of the file's architecture.
        path: the file, or a folder with a model.safetensors.
        head: "keep" reads the head too; "reset" ignores it and starts the model's at zero, to
            fine-tune on other classes; a pre_logits that the model lacks goes with it.
        positions: how a position table is resampled: "bilinear" as the official code,
            "bicubic" as timm; see `resample_positions`.
        grid: rows and columns of the file's position table, where it is not square and the file
            does not say so itself.
        resize_patches: let patch kernels of another size be resized (FlexiViT).
        allow_nonfinite: take NaN and infinite values, which are otherwise refused.

    Returns:
        What was done, and which layout it took; `print` shows it in a line.

    Raises:
        UsageError: the file is absent, damaged or in no known layout; it goes with another GELU
            or epsilon, other heads or labels than the model's (official files go with "tanh" and
            1e-6, timm's and transformers' with "erf", unless they say otherwise); or its keys and
            shapes are not the model's. Then the message names the likely cause and lists, sorted,
            `-` what is missing, `+` what is unexpected and `!` what has another shape. The model
            is unchanged.
    """
    keras_vit_model(model)
    with open_checkpoint(path) as checkpoint:
        found = match(
            model,
            checkpoint,
            head,
            check_told=True,
            positions=positions,
            grid=grid,
            resize_patches=resize_patches,
        )
        return fill(model, checkpoint, found, allow_nonfinite)


def fill(model: Any, checkpoint: Checkpoint, found: Match, allow_nonfinite: bool = False) -> Loaded:
    """Sets the weights of a built model that `match` found; all or nothing."""
    if not allow_nonfinite:
        _check_finite(checkpoint, found.places)
    shapes = {
        key: checkpoint.shape(key) if key in found.changes else name.shape
        for key, name in found.names.items()
    }
    for key, array in _arrays(checkpoint, found.places, shapes):
        variable = found.names[key].variable(model)
        if key in found.changes:
            array = found.changes[key].apply(array)
        variable.assign(array.reshape(tuple(variable.shape)))
    if found.head == "reset" and model.num_classes:
        layer = model.get_layer("head")
        layer.kernel.assign(np.zeros(tuple(layer.kernel.shape), np.float32))
        layer.bias.assign(np.full(tuple(layer.bias.shape), getattr(model, "head_bias", 0.0)))
    resampled = tuple(sorted({change.told for change in found.changes.values()}))
    dialect, ignored = checkpoint.dialect, checkpoint.layout.ignored
    return Loaded(dialect, len(found.names), found.dropped, ignored, resampled, found.head)


def _arrays(
    checkpoint: Checkpoint, places: dict[str, Place], shapes: dict[str, tuple[int, ...]]
) -> Iterator[tuple[str, np.ndarray]]:
    # Each tensor of the file is read once and then freed, however many weights it holds.
    groups = defaultdict(list)
    for key, place in places.items():
        groups[place.key].append(key)
    for stored, keys in groups.items():
        tensor = checkpoint.tensors.read(stored)
        for key in keys:
            yield key, places[key].official(tensor, shapes[key])
        del tensor


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
            f"arrays, the first in {display(next(iter(bad)))}; set allow_nonfinite "
            "to load them anyway."
        )
