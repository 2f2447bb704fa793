"""Finds bundles, says what a folder is that holds none, and names bundles in apps and on pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from keras_vit._errors import UsageError, shown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
    if not (folder / "model.json").is_file():
        raise UsageError(f"{folder}: expected a bundle's folder{_found(folder, export)}.")


def check_bundles_in(folder: str | os.PathLike, names: Iterable[str]) -> None:
    """Raises a `UsageError` if a folder of bundles lacks one of these, which names those it has."""
    for name in names:
        if (Path(folder) / name / "model.json").is_file():
            continue
        if (Path(folder) / "model.json").is_file():
            received = "a bundle; give the folder that holds it"
        elif found := sorted(path.parent.name for path in Path(folder).glob("*/model.json")):
            received = f"one with {', '.join(found)}"
        else:
            received = "one without bundles" if Path(folder).exists() else "none of this name"
        raise UsageError(
            f"{folder}: expected a folder with the bundle {name}. Received: {received}."
        )


def bundle_name(bundle: str | os.PathLike) -> str:
    """The default name of a bundle: "flowers-int8" for runs/flowers/export/int8."""
    bundle = bundle_folder(bundle).resolve()
    parts = [bundle.parents[1].name] if bundle.parent.name == "export" else []
    return safe_name("-".join([*parts, bundle.name]))


def safe_name(text: str) -> str:
    """What assets and URLs can have of a text; "" if that is nothing."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]


def check_name(name: str) -> None:
    """Raises a `UsageError` for a name that assets or URLs cannot have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "a bundle's name has up to 64 letters, digits, '.', '-' and '_'. "
            f"Received: {shown(name)}."
        )


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
