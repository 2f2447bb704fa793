"""Loads weights in any known layout into a built model. Every key and every weight must match.

The keys of a file are matched with the weights of a model, built or not, before anything is read:
a file that does not fit needs no memory, and a mismatch is explained.
"""

from __future__ import annotations

import dataclasses
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from keras_vit._checks import Resampling, choice, keras_vit_model
from keras_vit._errors import UsageError, shown
from keras_vit.encoder.block import BLOCK_OPTIONS, SHOWN_BY_ROWS
from keras_vit.encoder.dense_heads import DENSE_FIELDS
from keras_vit.encoder.embedding import EMBEDDING_SHOWN_BY_ROWS
from keras_vit.encoder.encode import NORM_ROWS
from keras_vit.encoder.patch_grids import Grid
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.specs import ResNetSpec, Spec, ViTSpec
from keras_vit.weights.checkpoint import Checkpoint, open_checkpoint
from keras_vit.weights.names import (
    WeightName,
    classifier_keys,
    head_keys,
    input_key,
    weight_names,
)
from keras_vit.weights.places import Place
from keras_vit.weights.resampling import fold_channels, resample_patches
from keras_vit.weights.tensors import display

Head = Literal["keep", "reset"]
_PATCHES = "embedding/kernel"
_LEAST_SCALE = 0.25  # of the last norm, on average
_FOLDED = 3  # channels of the kernels that can be folded to another number
# No published table has more positions than this. The limit keeps memory bounded.
_MOST_POSITIONS = 1 << 16


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
    positions: Resampling | None = None,
    grid: Grid | None = None,
    resize_patches: bool = False,
    allow_nonfinite: bool = False,
    added_to: str | os.PathLike | None = None,
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
            starts at zero, for fine-tuning on other classes. A pre_logits or projection layer in
            the file is then ignored too, if the model has none. Of EoMT only the classifier is
            reset if the queries are the same.
        positions: the resampling of position tables, see `resample_positions`; default: as the
            code that belongs to the file's family does it, "bilinear" for official files.
        grid: rows and columns of the file's position table, if it is not square and the file
            does not state them.
        resize_patches: allow patch kernels of another size to be resized (FlexiViT).
        allow_nonfinite: accept NaN and infinite values, which are otherwise refused.
        added_to: the file of an encoder to whose weights those of this file are added, because they
            are the differences: EoMT's own files with DINOv3 are.

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
        return fill(model, checkpoint, matched, allow_nonfinite, added_to)


class Target(NamedTuple):
    """A model that is not built yet; built models have the same attributes."""

    spec: Spec
    num_classes: int
    image_size: tuple[int, int]
    labels: Sequence[str] | None = None


class Match(NamedTuple):
    """The weights to load from a file into a model.

    Attributes:
        names: the model's weights that are in the file, by official key.
        places: the place of each in the file.
        changes: the resampling of weights that have another shape in the file.
        dropped: official keys of the file that are dropped with the head.
        head: "keep", or "reset" for a head that starts at zero.
    """

    names: dict[str, WeightName]
    places: dict[str, Place]
    changes: dict[str, Change]
    dropped: tuple[str, ...]
    head: Head


class Change(NamedTuple):
    """A function that resamples an array to the model's shape, and its description for messages."""

    apply: Callable[[np.ndarray], np.ndarray]
    description: str


def match(
    target: Target | Any,
    checkpoint: Checkpoint,
    head: Head = "keep",
    *,
    check_stated: bool = False,
    positions: Resampling | None = None,
    grid: Grid | None = None,
    resize_patches: bool = False,
) -> Match:
    """Matches every key of the file with every weight of the model.

    Args:
        target: the model, built or not.
        checkpoint: the open file.
        head, positions, grid, resize_patches: as in `load_weights`.
        check_stated: whether the GELU, the epsilon and the labels that the file states must be
            those of the model, as its number of heads must always be.

    Raises:
        UsageError: see `load_weights`.
    """
    if head not in get_args(Head):
        raise UsageError(f'head must be "keep" or "reset". Received: head={head!r}.')
    positions = checkpoint.resampling if positions is None else positions
    choice("positions", positions, get_args(Resampling))
    names = weight_names(target.spec, target.num_classes, target.image_size)
    names = {name.key: name for name in names}
    places, dropped = dict(checkpoint.layout.places), ()
    if head == "reset":
        heads = _reset_keys(target, checkpoint)
        names = {key: name for key, name in names.items() if key not in heads}
        dropped = tuple(k for k in places if k in heads or _drops(target.spec, k))
        places = {key: place for key, place in places.items() if key not in dropped}
    changes = {}
    for key in names.keys() & places.keys():
        change = _change(names[key], target, checkpoint, positions, grid, resize_patches)
        if change is not None:
            changes[key] = change
    matched = Match(names, places, changes, dropped, head)
    _check_names(target, checkpoint, matched)
    stated = checkpoint.stated if check_stated else ("num_heads",)
    # The blocks that queries are added to belong to the head.
    fields = stated if head == "keep" else [name for name in stated if name != "query_blocks"]
    _check_fields(target, checkpoint, fields)
    if check_stated and head == "keep":
        _check_pooling(target, checkpoint)
        _check_labels(target, checkpoint)
    return matched


def _reset_keys(target: Target | Any, checkpoint: Checkpoint) -> tuple[str, ...]:
    """The keys of the head that starts anew: of queries that are the same, only the classifier."""
    keys, dense = head_keys(checkpoint.layout.family.bit), target.spec.dense
    if dense is not None and dense.classifier and target.num_classes:
        fields = ("dense_head", *dense.fields)
        if all(getattr(target.spec, f) == getattr(checkpoint.spec, f, None) for f in fields):
            return tuple(key for key in keys if key.startswith(f"{dense.classifier}/"))
    return keys


def fill(
    model: Any,
    checkpoint: Checkpoint,
    matched: Match,
    allow_nonfinite: bool = False,
    added_to: str | os.PathLike | None = None,
) -> Loaded:
    """Loads the weights that `match` returned into a built model, either all or none.

    Args:
        model, checkpoint, matched: as in `match`.
        allow_nonfinite, added_to: as in `load_weights`.
    """
    if not allow_nonfinite:
        _check_finite(checkpoint, matched.places)
    _check_differences(checkpoint, bool(added_to))
    if matched.head == "keep":
        _check_unmasked(checkpoint)
    if added_to is None:
        return _filled(model, checkpoint, matched)
    encoder = dataclasses.replace(model.spec, **DENSE_FIELDS)
    with open_checkpoint(added_to, encoder.num_heads) as other:
        base = match(Target(encoder, 0, model.image_size), other, "reset")
        if not allow_nonfinite:
            _check_finite(other, base.places)
        loaded = _filled(model, checkpoint, matched)
        _filled(model, other, base, added=True)
    return dataclasses.replace(loaded, dialect=f"{loaded.dialect}, added to {other.dialect}")


def _check_differences(checkpoint: Checkpoint, added: bool) -> None:
    """Raises a `UsageError` if differences are not added to an encoder, or whole weights are.

    The last norm of differences scales by nearly 0.
    """
    if not checkpoint.layout.family.differences:
        if added:
            raise UsageError(
                f"added_to is for EoMT's own files with DINOv3. Received: {checkpoint.path}, "
                f"{checkpoint.dialect}; leave it out."
            )
        return
    scale = np.abs(checkpoint.read(NORM_ROWS[0].key)).mean()
    if (scale < _LEAST_SCALE) != added:
        held, fix = "whole weights", "leave added_to out"
        if not added:
            held = "differences from an encoder's weights"
            fix = "pass added_to=, the file of the encoder"
        raise UsageError(
            f"{checkpoint.path} holds {held}: its last norm scales by {scale:.2g}; {fix}."
        )


def _check_unmasked(checkpoint: Checkpoint) -> None:
    """Raises a `UsageError` if the file's own library would mask attention when it predicts."""
    probabilities = None
    if checkpoint.layout.family.masks_attention:
        probabilities = checkpoint.ignored("attn_mask_probs")
    if probabilities is not None and probabilities.any():
        raise UsageError(
            f"{checkpoint.path} has attn_mask_probs {shown(probabilities.tolist())}, by which "
            "transformers masks attention, as EoMT's training does before its end; keras_vit never "
            "does. If the model may do without, save it after model.attn_mask_probs.zero_()."
        )


def _filled(model: Any, checkpoint: Checkpoint, matched: Match, added: bool = False) -> Loaded:
    """Assigns the weights, or adds them to those of the model."""
    # Each tensor of the file is read once and then freed, even if it contains several weights.
    groups = defaultdict(list)
    for key, place in matched.places.items():
        groups[place.key].append(key)
    for stored, keys in groups.items():
        tensor = checkpoint.tensors.read(stored)
        for key in keys:
            name, change = matched.names[key], matched.changes.get(key)
            shape = checkpoint.shape(key) if change else name.shape
            array = matched.places[key].official(tensor, shape)
            variable = name.variable(model)
            array = change.apply(array) if change else array
            array = array.reshape(tuple(variable.shape))  # heads and their width as one
            variable.assign(np.asarray(variable) + array if added else array)
    if matched.head == "reset" and model.num_classes and not added:
        _reset_head(model)
    resampled = tuple(sorted({change.description for change in matched.changes.values()}))
    dialect, ignored = checkpoint.dialect, checkpoint.layout.ignored
    return Loaded(dialect, len(matched.names), matched.dropped, ignored, resampled, matched.head)


def _reset_head(model: Any) -> None:
    for name in weight_names(model.spec, model.num_classes, model.image_size):
        layer, _, part = name.path.partition("/")
        if layer in ("head", "head_norm"):
            variable = name.variable(model)
            value = 1.0 if part in ("gamma", "moving_variance") else 0.0
            value = getattr(model, "head_bias", 0.0) if part.endswith("bias") else value
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


def _drops(spec: Spec, key: str) -> bool:
    # The pre-training representation is dropped with its head (paper, section 3.1.1), and so is the
    # projection to the space of texts.
    if isinstance(spec, ResNetSpec):
        return False
    if spec.dense is not None:
        return key in classifier_keys() and (
            spec.norm_after_pooling or key not in {row.key for row in NORM_ROWS}
        )
    layers = {"pre_logits/": spec.representation_dim, "projection/": spec.projection_dim}
    return any(key.startswith(prefix) and not keeps for prefix, keeps in layers.items())


def _check_fields(target: Target | Any, checkpoint: Checkpoint, fields: Iterable[str]) -> None:
    for field in fields:
        received = getattr(target.spec, field, None)
        expected = checkpoint.stated.get(field, received)
        if received not in (None, expected):
            raise UsageError(
                f"{checkpoint.path} ({checkpoint.dialect}) needs {field}={expected!r}, the model "
                f"has {received!r}; build the model with {field}={expected!r}."
            )


def _check_pooling(target: Target | Any, checkpoint: Checkpoint) -> None:
    received, expected = getattr(target.spec, "pooling", None), checkpoint.pooling
    if received not in (None, "none", expected) and expected != "none":
        raise UsageError(
            f"the head of {checkpoint.path} needs pooling={expected!r}, the model has "
            f'{received!r}; head="reset" starts with a new head of zeros.'
        )


def _check_labels(target: Target | Any, checkpoint: Checkpoint) -> None:
    labels, file_labels = target.labels, checkpoint.labels
    if labels and file_labels and tuple(labels) != file_labels:
        raise UsageError(
            f"the head of {checkpoint.path} has other classes ({file_labels[0]!r} ...) than the "
            f'model ({labels[0]!r} ...); head="reset" starts with a new head of zeros.'
        )


def _change(
    name: WeightName,
    target: Target | Any,
    checkpoint: Checkpoint,
    method: Resampling,
    grid: Grid | None,
    resize_patches: bool,
) -> Change | None:
    stored, shape = checkpoint.shape(name.key), name.shape
    if len(stored) != len(shape) or len(stored) < 2:
        return None
    if name.key in (_PATCHES, input_key(target.spec)):
        resizes = resize_patches and name.key == _PATCHES
        return _kernel_change(stored, shape, resizes, name.key == input_key(target.spec))
    is_table = name.resample is not None and stored[-1] == shape[-1]
    if not is_table or max(stored[:-1]) > _MOST_POSITIONS:
        return None
    new = target.spec.grid(target.image_size)
    # As in the official code, a table that fits is not resampled, and others are assumed to be
    # square.
    old = grid or checkpoint.stated_grid or (None if stored == shape else checkpoint.grid)
    if old is None or old == new:
        return None
    prefix = target.spec.tokens(target.image_size).prefix_positions
    description = f"positions {old[0]} x {old[1]} to {new[0]} x {new[1]} ({method})"
    return Change(lambda array: name.resample(array, old, new, prefix, method), description)


def _kernel_change(
    stored: tuple[int, ...], shape: tuple[int, ...], may_resize: bool, may_fold: bool
) -> Change | None:
    """The change of a kernel (rows, columns, channels, features) that reads patches or images."""
    resizes = may_resize and stored[:2] != shape[:2]
    folds = may_fold and stored[2] == _FOLDED != shape[2]
    changed = (*(shape if resizes else stored)[:2], (shape if folds else stored)[2], *stored[3:])
    if changed != shape or not (resizes or folds):
        return None
    words = [f"patches {stored[0]} x {stored[1]} to {shape[0]} x {shape[1]}"] if resizes else []
    words += [f"channels {stored[2]} to {shape[2]}"] if folds else []

    def apply(kernel: np.ndarray) -> np.ndarray:
        kernel = resample_patches(kernel, shape[0]) if resizes else kernel
        return fold_channels(kernel, shape[2]) if folds else kernel

    return Change(apply, "; ".join(words))


def _check_names(target: Target | Any, checkpoint: Checkpoint, matched: Match) -> None:
    names, places, stored = matched.names, matched.places, checkpoint.tensors.shapes
    missing = sorted(f"  - {key} {names[key].shape}" for key in names.keys() - places.keys())
    unexpected = {places[key].key for key in places.keys() - names.keys()}
    unexpected = sorted(f"  + {display(key)}" for key in unexpected | {*checkpoint.layout.unknown})
    shapes = sorted(
        {
            f"  ! {display(place.key)} {stored[place.key]}, the model's is "
            f"{place.stored_shape(names[key].shape)}"
            for key, place in places.items()
            if key in names
            and key not in matched.changes
            and not place.fits(stored[place.key], names[key].shape)
        }
    )
    lines = missing + unexpected + shapes
    if lines:
        cause = _cause(target, checkpoint, matched) or f"the first: {lines[0].strip()}"
        raise UsageError(
            f"{checkpoint.path} does not fit the model in {len(lines)} weights: {cause}",
            ["(- missing, + unexpected, ! other shape)", *lines],
        )


def _cause(target: Target | Any, checkpoint: Checkpoint, matched: Match) -> str | None:
    if checkpoint.layout.unknown_part:
        return checkpoint.layout.unknown_part
    head, names, places = checkpoint.head, matched.names, matched.places
    try:
        differences = _differences(checkpoint.spec, target.spec)
        classes, variant = checkpoint.num_classes, checkpoint.variant
    except UsageError:
        return None
    if differences:
        advice = f"; choose model={variant!r}" if variant else ""
        return f"this file is {variant or 'another architecture'}: {'; '.join(differences)}{advice}"
    if others := _beside_the_prefix(checkpoint):
        return others
    if f"{head}/bias" in names and classes == 0:
        return 'this file has no head; head="reset" starts the model\'s at zero'
    if f"{head}/bias" in names and classes != target.num_classes:
        return (
            f"this file has {classes} classes, not {target.num_classes}; "
            'head="reset" starts a head of zeros'
        )
    if checkpoint.grid is None:
        for key in names.keys() & places.keys():
            shape = checkpoint.shape(key)
            if names[key].resample and shape != names[key].shape:
                return (
                    f"its positions, of shape {shape}, do not form a square grid; pass "
                    "grid=(rows, columns)"
                )
    for layer, field in (("pre_logits", "representation_dim"), ("projection", "projection_dim")):
        if f"{layer}/kernel" in places and f"{layer}/kernel" not in names:
            return (
                f"this file has a {layer} layer; build the model with {field}="
                f'{getattr(checkpoint.spec, field)}, or drop it with head="reset"'
            )
    return None


def _beside_the_prefix(checkpoint: Checkpoint) -> str | None:
    prefix = checkpoint.layout.prefix
    other = next((key for key in checkpoint.layout.unknown if not key.startswith(prefix)), None)
    if other is None:
        return None
    read, write = {
        "npz": ("np.load('in.npz')", "np.savez('out.npz', **{})"),
        "safetensors": ("load_file('in.safetensors')", "save_file({}, 'out.safetensors')"),
    }[checkpoint.tensors.kind]
    prefix = shown(prefix)
    arrays = f"{{k.removeprefix({prefix}): v for k, v in {read}.items() if k.startswith({prefix})}}"
    return (
        f"its model is under {prefix}, and names beside it, such as {shown(other)}, are in no "
        f"layout; keep the model alone: {write.format(arrays)}"
    )


_ARCHITECTURE = (
    "hidden_dim", "depth", "num_heads", "mlp_dim", "patch_size", "stem", "pooling",
    "position_embedding", "registers", *BLOCK_OPTIONS, *EMBEDDING_SHOWN_BY_ROWS, "layers", "width",
)  # fmt: skip


def _differences(stored: Spec, target: Spec) -> list[str]:
    if type(stored) is not type(target):
        kinds = {ViTSpec: "a ViT", ResNetSpec: "a BiT ResNet"}
        return [f"{kinds[type(stored)]}, not {kinds[type(target)]}"]
    pairs = {
        field: (getattr(stored, field), getattr(target, field))
        for field in _ARCHITECTURE
        if hasattr(target, field)
    }
    if isinstance(target, ViTSpec):
        for field in SHOWN_BY_ROWS:
            if all(pairs[field]):
                del pairs[field]  # where training began
        one, other = (POOLINGS[pooling] for pooling in pairs["pooling"])
        if (one.prefix_tokens, one.rows) == (other.prefix_tokens, other.rows):
            del pairs["pooling"]  # the same weights, as those of "token" and "none"
    if stored.in_channels not in (_FOLDED, target.in_channels):
        reason = f"only kernels of {_FOLDED} channels are folded to other numbers"
        pairs["in_channels"] = (stored.in_channels, f"{target.in_channels}; {reason}")
    return [f"{field} {one}, not {other}" for field, (one, other) in pairs.items() if one != other]
