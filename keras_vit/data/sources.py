"""Where labelled images come from, behind one interface: an index in, a uint8 RGB image out."""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.data.decoding import check_image, decode_image

EXTENSIONS = (".jpg", ".jpeg", ".png")


@dataclasses.dataclass(frozen=True)
class Source:
    """Labelled images with random access.

    Attributes:
        name: what it is called: "digits", or a folder's absolute path.
        labels: the classes' names, in the order of the logits.
        ids: a stable name for each example.
        targets: each example's class, int64 (n,).
        image: the image at an index, uint8 (height, width, 3); called from many threads.
        skipped: what was left out, each with the reason.
    """

    name: str
    labels: tuple[str, ...]
    ids: tuple[str, ...]
    targets: np.ndarray
    image: Callable[[int], np.ndarray]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


def open_source(data: str | os.PathLike, strict: bool = False) -> Source:
    """The source that `data` names: "digits", or a folder with one subfolder a class."""
    return digits() if str(data) == "digits" else image_folder(data, strict)


def digits() -> Source:
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, ten classes, no network.

    Source: UCI "Optical Recognition of Handwritten Digits", test set. The 17 grey levels become
    0 to 255.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError("the digits need scikit-learn: pip install 'keras_vit[train]'") from None
    data = load_digits()
    grey = np.rint(data.images * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    images = np.repeat(grey[..., None], 3, axis=-1)  # (n, 8, 8, 3)
    return Source(
        name="digits",
        labels=tuple(str(name) for name in data.target_names),
        ids=tuple(f"digits/{i:04d}" for i in range(len(images))),
        targets=data.target.astype(np.int64),
        image=images.__getitem__,
    )


def image_folder(path: str | os.PathLike, strict: bool = False) -> Source:
    """A folder with one subfolder a class, each with JPEG or PNG images of any size and mode.

    Classes are the subfolders in alphabetical order. Every image is decoded once to find the
    corrupt ones; hidden files and files of other kinds are passed over.

    Args:
        path: the folder.
        strict: raise for the first unreadable image instead of skipping it.

    Raises:
        UsageError: the folder is absent or has fewer than two subfolders, a class has no readable
            image or a control character in its name, or, if strict, an image cannot be read.
    """
    path = Path(path).resolve()
    if not path.is_dir():
        raise UsageError(f"{path}: expected a folder with one subfolder a class; there is none.")
    folders = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(folders) < 2:
        raise UsageError(
            f"{path}: expected two subfolders or more, one a class. Received: {len(folders)}; "
            "is it one level too high?"
        )
    odd = [folder.name for folder in folders if not _is_text(folder.name)]
    if odd:
        raise UsageError(f"{path}: class {odd[0]!r} has a control character in its name.")
    files = [(target, file) for target, folder in enumerate(folders) for file in _images(folder)]
    with ThreadPoolExecutor() as pool:
        faults = list(pool.map(_fault, [file for _, file in files]))
    judged = list(zip(files, faults, strict=True))
    skipped = tuple(f"{_shown(file)}: {fault}" for (_, file), fault in judged if fault)
    if strict and skipped:
        raise UsageError(f"{skipped[0]} ({len(skipped)} unreadable in all).")
    good = [entry for entry, fault in judged if not fault]
    for target, folder in enumerate(folders):
        if not any(t == target for t, _ in good):
            raise UsageError(
                f"{folder} holds no readable image ({', '.join(EXTENSIONS)}); "
                "put some there or remove the folder."
            )
    return Source(
        name=str(path),
        labels=tuple(folder.name for folder in folders),
        ids=tuple(file.relative_to(path).as_posix() for _, file in good),
        targets=np.array([target for target, _ in good], np.int64),
        image=lambda i: decode_image(good[i][1]),
        skipped=skipped,
    )


def _images(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in EXTENSIONS
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    )


def _shown(file: Path) -> str:
    return str(file).encode("utf-8", "backslashreplace").decode()


def _fault(file: Path) -> str:
    return check_image(file) if _is_text(file.name) else "its name is not readable text"


def _is_text(name: str) -> bool:
    # No control characters, and no bytes that are not UTF-8 (which Python holds as surrogates).
    return not any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name
    )
