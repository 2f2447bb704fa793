"""Folders with one subfolder a class: which files are pictures, and why the others are not.

Nothing is decoded here; the format is found from the first bytes.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_vit._errors import UsageError
from keras_vit.data.decoding import check_format, printable
from keras_vit.data.formats import EXTENSIONS, UNREAD

# Names of the parts of a data set; two of them side by side are never classes.
_PARTS = {
    "train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval",
}  # fmt: skip
_HIDDEN = "hidden"
_CLUTTER = {"thumbs.db", "desktop.ini"}
_DEPTH = 4  # how far down class folders are looked for, to name them in an error
_SHOWN, _LONGEST = 3, 40  # names in a list, and the characters of one


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A file that was left out.

    Attributes:
        path: its place in the folder.
        label: the class it would have, "" for a file outside the class folders.
        reason: "HEIC in a .jpg", "truncated PNG", "hidden" ... There are few different ones.
        is_unreadable: whether it lies in a class and should be a picture, by name or content.
    """

    path: str
    label: str
    reason: str
    is_unreadable: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def class_folders(path: Path) -> list[Path]:
    """The subfolders of `path` that are classes, in alphabetical order.

    Raises:
        UsageError: `path` is not a folder, or its classes lie one level higher or lower.
    """
    if not path.is_dir():
        kind = "it is a file" if path.exists() else "there is no such folder"
        raise UsageError(f"{path}: expected a folder with one subfolder a class; {kind}.")
    pictures, folders = _look(path)
    _check_not_too_high(path, folders)
    _check_not_too_low(path, pictures, folders)
    if len(folders) < 2:
        names = f" ({printable(folders[0].name)})" if folders else ""
        raise UsageError(
            f"{path}: expected two subfolders or more, one a class. "
            f"Received: {len(folders)}{names}."
        )
    return folders


def list_pictures(path: Path, folders: list[Path]) -> tuple[list[tuple[int, Path]], list[Skipped]]:
    """Files that begin as pictures, each with its class's index, and all other files.

    Raises:
        UsageError: classes have unusable names or no pictures; one message names all problems.
    """
    files = []
    skipped = [
        Skipped(printable(file.name), "", "outside the class folders", is_unreadable=False)
        for file in sorted(path.iterdir())
        if not _is_hidden(file.name) and not file.is_dir()
    ]
    for target, folder in enumerate(folders):
        for file, reason in sorted(_walk(folder)):
            if not reason:
                files.append((target, file))
                continue
            unreadable = reason != _HIDDEN and (_is_picture(file) or reason.startswith(UNREAD))
            place = printable(file.relative_to(path).as_posix())
            skipped.append(Skipped(place, folder.name, reason, unreadable))
    check_classes(path, folders, {target for target, _ in files}, skipped)
    return files, skipped


def check_classes(
    path: Path, folders: list[Path], filled: set[int], skipped: Iterable[Skipped]
) -> None:
    """Raises one `UsageError` that names all problems of the classes.

    Args:
        path: the folder.
        folders: its classes.
        filled: indices of the classes that have pictures.
        skipped: the files that were left out, which may explain why a class is empty.
    """
    faults = []
    odd = [repr(folder.name) for folder in folders if not _is_text(folder.name)]
    if odd:
        faults.append(
            f"control characters or bytes that are not UTF-8 in the name of {listed(odd)}"
        )
    empty = [folder for target, folder in enumerate(folders) if target not in filled]
    if empty:
        reasons = collections.defaultdict(collections.Counter)
        for file in skipped:
            reasons[file.label][file.reason] += 1
        names = [_with_reasons(folder.name, reasons[folder.name]) for folder in empty]
        faults.append(f"no readable picture in {listed(names)}, fill or remove what is empty")
    if faults:
        raise UsageError(f"{path}: {'; '.join(faults)}.")


def summary(skipped: Iterable[Skipped], kept: int) -> list[str]:
    """A few lines that say which files were left out, by reason and class.

    >>> summary([Skipped("red/a.jpg", "red", "empty file", True)], 9)
    ['red/a.jpg: empty file']
    """
    groups = collections.defaultdict(list)
    for file in skipped:
        groups[file.reason].append(file)
    lines = []
    for reason, files in sorted(groups.items(), key=_importance):
        if len(files) < _SHOWN:
            lines += map(str, files)
            continue
        classes = collections.defaultdict(list)
        for file in files:
            classes[file.label].append(_short(file.path.removeprefix(f"{file.label}/")))
        places = [
            f"{len(names)} in {_short(printable(label))} ({listed(names)})"
            if label
            else listed(names)
            for label, names in sorted(classes.items(), key=lambda item: -len(item[1]))
        ]
        lines.append(f"{len(files)} files, {reason}: {listed(places, '; ')}")
    total = sum(map(len, groups.values()))
    return [*lines, f"{total} of {total + kept} files in all"] if len(lines) > 1 else lines


def listed(names: Iterable[str], separator: str = ", ") -> str:
    """The first names, and how many more there are.

    >>> listed("abcde")
    'a, b, c and 2 more'
    """
    names = list(names)
    more = len(names) - _SHOWN
    return separator.join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _check_not_too_low(path: Path, pictures: int, folders: list[Path]) -> None:
    below = sum(_look(folder)[0] for folder in folders)
    # A few beside the class folders are strays; they are named where files are listed.
    if pictures <= below or (len(folders) > 1 and not below):
        return
    siblings = _look(path.parent)[1]
    way = (
        f"pass {path.parent} if its {len(siblings)} subfolders are the classes"
        if len(siblings) > 1
        else "put the pictures of each class in a subfolder of its own"
    )
    raise UsageError(f"{path}: one level too low, {pictures} pictures lie in it directly; {way}.")


def _check_not_too_high(path: Path, folders: list[Path]) -> None:
    parts = [folder.name for folder in folders if folder.name.lower() in _PARTS]
    inner = [found for f in sorted(folders, key=_by_part) if (found := _classes_below(f))]
    if len(parts) > 1:
        way = f"pass {inner[0]}" if inner else "put the pictures of each class in a subfolder"
        raise UsageError(
            f"{path}: one level too high, {listed(parts)} are parts of a data set, not classes; "
            f"{way}."
        )
    are_classes = len(folders) > 1 and any(_look(folder)[0] for folder in folders)
    # One class may be divided into folders; if most are, they are data sets.
    if not are_classes and inner and 2 * len(inner) >= len(folders):
        other = ", or another folder like it" if len(inner) > 1 else ""
        raise UsageError(
            f"{path}: one level too high, no picture lies in its subfolders themselves; "
            f"pass {inner[0]}{other}."
        )


def _importance(group: tuple[str, list[Skipped]]) -> tuple[bool, bool, int, str]:
    # Lost pictures first, hidden files last.
    reason, files = group
    is_lost = any(file.is_unreadable for file in files)
    return reason == _HIDDEN, not is_lost, -len(files), reason


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """All files under `folder`, each with the reason to leave it out, or ""."""
    closed: list[tuple[Path, str]] = []

    def fail(error: OSError) -> None:
        closed.append((Path(error.filename), f"cannot be opened ({error.strerror})"))

    for directory, folders, files in os.walk(folder, onerror=fail):
        here = Path(directory)
        for name in folders:
            if _is_hidden(name):
                yield here / name, _HIDDEN
            elif (here / name).is_symlink():
                yield here / name, "link to a folder, not followed"
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in files:
            yield here / name, _reason(here / name, (here / name).relative_to(folder))
    yield from closed


def _reason(file: Path, place: Path) -> str:
    if _is_hidden(file.name):
        return _HIDDEN
    if not _is_text(str(place)):
        return "its name is not readable text"
    if not file.is_file():  # a pipe would never end
        return "broken link" if file.is_symlink() else "not a regular file"
    fault = check_format(file)
    if fault or _is_picture(file):
        return fault
    return f"picture without a picture's extension ({', '.join(EXTENSIONS[:2])} ...)"


def _look(folder: Path) -> tuple[int, list[Path]]:
    """How many pictures lie in a folder itself, and its subfolders."""
    try:
        entries = sorted(p for p in folder.iterdir() if not _is_hidden(p.name))
    except OSError:
        return 0, []
    folders = [entry for entry in entries if entry.is_dir()]
    return sum(map(_is_picture, set(entries) - set(folders))), folders


def _classes_below(folder: Path, depth: int = _DEPTH) -> Path | None:
    """The first folder, from `folder` downwards, with subfolders that hold pictures themselves."""
    _, folders = _look(folder)
    if len(folders) > 1 and any(_look(inner)[0] for inner in folders):
        return folder
    if depth == 0:
        return None
    below = (_classes_below(inner, depth - 1) for inner in sorted(folders, key=_by_part))
    return next((found for found in below if found), None)


def _by_part(folder: Path) -> tuple[bool, str]:
    return not folder.name.lower().startswith("train"), folder.name


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in EXTENSIONS


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in _CLUTTER


def _is_text(name: str) -> bool:
    # No control characters, and no bytes that are not UTF-8 (which Python holds as surrogates).
    return not any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name
    )


def _with_reasons(name: str, reasons: collections.Counter) -> str:
    counts = [f"{count} {reason}" for reason, count in reasons.most_common(2)]
    return printable(name) + (f" ({', '.join(counts)})" if counts else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"
