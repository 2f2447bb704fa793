"""Whether a run may be written to a folder."""

from __future__ import annotations

import os
from pathlib import Path

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.data.sources import source_folder


def check_out(path: str | os.PathLike, data: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that a run on `data` may be written to `path`; nothing is written.

    Raises:
        UsageError: the folder is not empty, lies inside the data or a run, or cannot be written.
    """
    path = Path(path)
    folder = source_folder(data)
    if folder is not None and folder.resolve() in [path.resolve(), *path.resolve().parents]:
        raise UsageError(f"out={path} lies inside the data, {data}; choose another folder.")
    if path.is_file():
        raise UsageError(f"{path} is a file; choose another folder.")
    around = next(
        (each for each in path.absolute().parents if (each / "spec.json").is_file()), None
    )
    if around is not None:
        raise UsageError(f"out={path} lies inside the run {around}; choose another folder.")
    _files.check_writable(path)
    if path.is_dir() and any(path.iterdir()):
        if not (path / "spec.json").is_file():
            raise UsageError(f"{path} is not empty and is not a run; choose another folder.")
        if not overwrite:
            raise UsageError(f"{path} is a run; choose another folder or pass overwrite=True.")
