"""Finds a bundle, and says what a folder is that holds none."""

from __future__ import annotations

import os
from pathlib import Path

from keras_vit._errors import UsageError


def bundle_folder(path: str | os.PathLike) -> Path:
    """A bundle's folder, given itself or the model.tflite in it."""
    path = Path(path)
    return path.parent if path.name == "model.tflite" else path


def check_bundle(path: str | os.PathLike, export: str = "keras-vit export") -> None:
    """Raises a `UsageError` if there is no bundle, which names bundles that are near.

    Args:
        path: the folder, or the model.tflite in it.
        export: the command that makes bundles, as the user types it.
    """
    folder = bundle_folder(path)
    if (folder / "model.json").is_file():
        return
    raise UsageError(f"{folder}: expected a bundle's folder{_found(folder, export)}.")


def _found(folder: Path, export: str) -> str:
    if not folder.exists():
        return "; there is no such folder"
    # A common mistake: the folder of several bundles, or of a run.
    for parent in (folder, folder / "export"):
        bundles = sorted(path.parent for path in parent.glob("*/model.json"))
        if bundles:
            return f". Received: a folder that holds {', '.join(map(str, bundles))}; choose one"
    if (folder / "spec.json").is_file():
        return (
            f". Received: a run; export it first ({export} --run {folder} --quantize "
            f"int8), then give {folder / 'export' / 'int8'}"
        )
    is_empty = folder.is_dir() and not any(folder.iterdir())
    return f". Received: {'an empty folder' if is_empty else 'something else'}"
