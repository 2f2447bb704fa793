"""The official `.npz` layout: flat keys, float32, what the JAX code and timm read."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.weights.names import WeightName, weight_names


def save_weights(model: Any, path: str | os.PathLike) -> None:
    """Writes a ViT's weights as float32 in the official layout, atomically.

    Args:
        model: a built `keras_vit.ViT`.
        path: the `.npz` file, replaced if it exists.
    """
    arrays = {
        name.key: np.asarray(_numpy(name.variable(model)), np.float32).reshape(name.shape)
        for name in _names(model)
    }
    with _files.replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def load_weights(
    model: Any, path: str | os.PathLike, head: Literal["keep", "reset"] = "keep"
) -> None:
    """Reads a `.npz` file of the official layout into a built ViT; strict, all or nothing.

    Args:
        model: a built `keras_vit.ViT` of the file's shape and image size.
        path: the file.
        head: "keep" reads the head too; "reset" leaves the model's as it is and ignores the
            file's, to fine-tune on other classes; a pre_logits that the model lacks goes with it.

    Raises:
        UsageError: the file is absent or not a `.npz`, or its keys and shapes are not the
            model's: the message lists `-` what is missing, `+` what is unexpected and `!` what
            has another shape. The model is then unchanged.
    """
    if head not in ("keep", "reset"):
        raise UsageError(f'head must be "keep" or "reset". Received: head={head!r}.')
    names = {name.key: name for name in _names(model)}
    with _open(path) as file:
        keys = set(file.files)
        if head == "reset":
            names = {key: name for key, name in names.items() if not key.startswith("head/")}
            # The pre-training representation goes with its head (paper, section 3.1.1).
            dropped = ("head/",) if model.spec.representation_dim else ("head/", "pre_logits/")
            keys = {key for key in keys if not key.startswith(dropped)}
        shapes = {key: _header(file, path, key) for key in sorted(keys & names.keys())}
        _check(names, keys, shapes, path)
        arrays = {key: _array(file, path, key) for key in names}
    for key, name in names.items():
        variable = name.variable(model)
        variable.assign(arrays[key].reshape(tuple(variable.shape)))


def num_classes_of(path: str | os.PathLike) -> int:
    """How many classes the head of an official `.npz` file has; 0 if it has none.

    Only the array's header is read.
    """
    with _open(path) as file:
        if "head/bias" not in file.files:
            return 0
        shape = _header(file, path, "head/bias")
    if len(shape) != 1:
        raise UsageError(f"{path}: head/bias must have one dimension. Received: shape={shape}.")
    return shape[0]


def _names(model: Any) -> list[WeightName]:
    if not hasattr(model, "spec"):
        raise UsageError(
            "expected a keras_vit.ViT, whose weights have official names. "
            f"Received: {type(model).__name__}."
        )
    return weight_names(model.spec, model.num_classes, model.image_size)


@contextlib.contextmanager
def _open(path: str | os.PathLike) -> Iterator[np.lib.npyio.NpzFile]:
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: expected a .npz file of weights; there is no such file.")
    if not zipfile.is_zipfile(path):
        raise UsageError(f"{path} is not a whole .npz file; copy or download it again.")
    # Never a pickle: a checkpoint from a stranger must not run code.
    with np.load(path, allow_pickle=False) as file:
        yield file


def _header(file: np.lib.npyio.NpzFile, path: str | os.PathLike, key: str) -> tuple[int, ...]:
    # The shape alone, so that a wrong file is refused before its arrays take memory.
    try:
        with file.zip.open(f"{key}.npy") as stream:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            return read(stream)[0]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: {key} is not a numpy array: {error}.") from None


def _array(file: np.lib.npyio.NpzFile, path: str | os.PathLike, key: str) -> np.ndarray:
    try:
        array = file[key]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: {key} cannot be read: {error}.") from None
    if array.dtype.kind != "f":
        raise UsageError(f"{path}: {key} must hold floats. Received: {array.dtype}.")
    return array


def _check(
    names: dict[str, WeightName],
    keys: set[str],
    shapes: dict[str, tuple[int, ...]],
    path: str | os.PathLike,
) -> None:
    lines = [f"  - {key} {names[key].shape}" for key in sorted(names.keys() - keys)]
    lines += [f"  + {key}" for key in sorted(keys - names.keys())]
    lines += [
        f"  ! {key} {shape}, the model's is {names[key].shape}"
        for key, shape in shapes.items()
        if shape != names[key].shape
    ]
    if lines:
        raise UsageError(
            f"{path} does not fit the model in {len(lines)} weights (- missing, + unexpected, "
            f"! other shape), the first: {lines[0].strip()}\n" + "\n".join(lines)
        )


def _numpy(variable: Any) -> np.ndarray:
    return variable.numpy() if hasattr(variable, "numpy") else np.asarray(variable)
