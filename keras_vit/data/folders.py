"""Lists the pictures in folders with one subfolder for each class, and explains skipped files.

Nothing is decoded here; the format is detected from the first bytes.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from keras_vit._checks import is_label
from keras_vit._errors import UsageError, shown
from keras_vit.data.decoding import printable
from keras_vit.data.picture_formats import EXTENSIONS, UNREAD

# The names of the folders of each split. A folder with two of them has no class folders.
SPLITS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev", "eval"),
    "test": ("test", "testing"),
}
_PARTS = {name for names in SPLITS.values() for name in names}
_HIDDEN = "hidden"
_CLUTTER = {"thumbs.db", "desktop.ini"}
_DEPTH = 4  # how many levels are searched for class folders, to suggest them in an error
_SHOWN, _LONGEST = 3, 40  # number of names in a list, and characters in a name


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A file that was skipped.

    Attributes:
        path: its path relative to the folder.
        label: the class whose folder it is in; "" outside the class folders.
        reason: "HEIC in a .jpg", "truncated PNG", "hidden" ... There are few different reasons.
        is_unreadable: whether it is in a class folder, and its name or content is a picture's.
    """

    path: str
    label: str
    reason: str
    is_unreadable: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Listing:
    """The files of a folder with class folders: a whole source, or a split of it.

    Attributes:
        folder, classes: the folder, and its class folders.
        files: the pictures, each with the index of its class.
        skipped: all other files.
    """

    folder: Path
    classes: list[Path]
    files: list[tuple[int, Path]]
    skipped: list[Skipped]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(folder.name for folder in self.classes)


def class_folders(path: Path) -> list[Path]:
    """The subfolders of `path` that are classes, in alphabetical order.

    Raises:
        UsageError: `path` is not a folder, or the class folders are a level higher or lower.
    """
    if not path.is_dir():
        kind = "it is a file" if path.exists() else "there is no such folder"
        raise UsageError(f"{path}: expected a folder with one subfolder for each class; {kind}.")
    pictures, folders = _contents(path)
    _check_not_too_high(path, folders)
    _check_not_too_low(path, pictures, folders)
    if len(folders) < 2:
        names = f" ({printable(folders[0].name)})" if folders else ""
        raise UsageError(
            f"{path}: expected two subfolders or more, one for each class. "
            f"Received: {len(folders)}{names}."
        )
    return folders


def declared_splits(path: Path) -> dict[str, Path]:
    """The folders of the splits that `path` declares: "train", and "validation", "test" or both.

    Empty if there are none: without training pictures or pictures to hold out, with two folders for
    one split, or beside other folders with classes. A folder of pictures without class folders,
    such as the test pictures of a competition, is no split.
    """
    return _splits(folder for folder in _contents(path)[1] if _has_classes(folder))


def check_has_classes(path: Path) -> None:
    """Raises a `UsageError` if there are no class folders; no picture is read for this."""
    path = path.resolve()
    for folder in declared_splits(path).values() or [path]:
        class_folders(folder)


def check_same_classes(path: Path, splits: Mapping[str, Listing]) -> None:
    """Raises a `UsageError` if the splits have different classes."""
    expected, differences = set(splits["train"].labels), []
    for split, listing in splits.items():
        lacking, added = expected - set(listing.labels), set(listing.labels) - expected
        if lacking:
            differences.append(f"{split} lacks {listed(sorted(map(repr, lacking)))}")
        if added:
            differences.append(f"{split} adds {listed(sorted(map(repr, added)))}")
    if differences:
        raise UsageError(
            f"{path}: expected the classes of train in each split. "
            f"Received: {'; '.join(differences)}; add these folders, or remove them everywhere."
        )


def list_pictures(path: Path, check: Callable[[Path], str]) -> Listing:
    """Files whose first bytes are a picture's, each with the index of its class, and all others.

    Args:
        path: the folder.
        check: the reason to skip a file, or "".

    Raises:
        UsageError: there are no class folders, or classes have invalid names or no pictures; one
            message lists all problems.
    """
    classes = class_folders(path)
    files, subfolders = [], [each for each in path.iterdir() if each.is_dir()]
    skipped = beside(path, subfolders, "outside the class folders")
    for target, folder in enumerate(classes):
        found, others = list_below(path, folder, folder.name, check)
        files += [(target, file) for file in found]
        skipped += others
    listing = Listing(path, classes, files, skipped)
    check_classes(listing)
    return listing


def beside(path: Path, used: Iterable[Path], reason: str) -> list[Skipped]:
    """What is directly in a folder and neither used nor hidden."""
    return [
        Skipped(printable(other.name), "", reason, is_unreadable=False)
        for other in sorted({*path.iterdir()} - {*used})
        if not is_hidden(other.name)
    ]


def list_below(
    path: Path, folder: Path, label: str, check: Callable[[Path], str]
) -> tuple[list[Path], list[Skipped]]:
    """The pictures in a folder and below it, and all other files, named from `path` on."""
    files, skipped = [], []
    for file, reason in sorted(_walk(folder, check)):
        if not reason:
            files.append(file)
            continue
        unreadable = reason != _HIDDEN and (_is_picture(file) or reason.startswith(UNREAD))
        place = printable(file.relative_to(path).as_posix())
        skipped.append(Skipped(place, label, reason, unreadable))
    return files, skipped


def check_classes(listing: Listing) -> None:
    """Raises one `UsageError` that lists all problems of the class folders.

    The skipped files may explain why a class is empty.
    """
    faults = []
    invalid = [shown(label) for label in listing.labels if not is_label(label)]
    if invalid:
        faults.append(
            f"control characters or bytes that are not UTF-8 in the name of {listed(invalid)}"
        )
    filled = {target for target, _ in listing.files}
    empty = [label for target, label in enumerate(listing.labels) if target not in filled]
    if empty:
        reasons = collections.defaultdict(collections.Counter)
        for file in listing.skipped:
            reasons[file.label][file.reason] += 1
        names = [_with_reasons(label, reasons[label]) for label in empty]
        faults.append(f"no readable picture in {listed(names)} (add pictures or remove the folder)")
        others = [str(file) for file in listing.skipped if file.label not in empty]
        if others:
            faults.append(f"skipped too: {listed(others)}")
    if faults:
        raise UsageError(f"{listing.folder}: {'; '.join(faults)}.")


def summary(skipped: Iterable[Skipped], kept: int) -> list[str]:
    """A few lines that list skipped files by reason and class.

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
    """The first names, and the number of the others.

    >>> listed("abcde")
    'a, b, c and 2 more'
    """
    names = list(names)
    more = len(names) - _SHOWN
    return separator.join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _splits(folders: Iterable[Path]) -> dict[str, Path]:
    """The folders by split; empty if one is none, or nothing could be trained on and held out."""
    folders = list(folders)
    splits = {
        split: folder
        for split, names in SPLITS.items()
        for folder in folders
        if folder.name.lower() in names
    }
    is_complete = "train" in splits and 1 < len(splits) == len(folders)
    return splits if is_complete else {}


def _check_not_too_low(path: Path, pictures: int, folders: list[Path]) -> None:
    below = sum(_contents(folder)[0] for folder in folders)
    # A few pictures next to the class folders are no error; `list_pictures` reports them.
    if pictures <= below or (len(folders) > 1 and not below):
        return
    siblings = _contents(path.parent)[1]
    advice = (
        f"pass {path.parent} if its {len(siblings)} subfolders are the classes"
        if len(siblings) > 1
        else "put the pictures of each class in a subfolder of its own"
    )
    raise UsageError(
        f"{path}: one level too low, it directly contains {pictures} pictures; {advice}. Training "
        f"without classes takes it as unlabelled:{path}."
    )


def _check_not_too_high(path: Path, folders: list[Path]) -> None:
    parts = [folder.name for folder in folders if folder.name.lower() in _PARTS]
    nested = [below for f in sorted(folders, key=_by_part) if (below := _classes_below(f))]
    if len(parts) > 1:
        _check_only_splits(path, folders)
        advice = f"pass {nested[0]}" if nested else "put the pictures of each class in a subfolder"
        raise UsageError(
            f"{path}: one level too high, {listed(parts)} are parts of a data set, not classes; "
            f"{advice}."
        )
    are_classes = len(folders) > 1 and any(_contents(folder)[0] for folder in folders)
    # One class may have subfolders of its own; if most folders do, they are data sets.
    if not are_classes and nested and 2 * len(nested) >= len(folders):
        other = ", or another folder like it" if len(nested) > 1 else ""
        raise UsageError(
            f"{path}: one level too high, none of its subfolders directly contains a picture; "
            f"pass {nested[0]}{other}."
        )


def _check_only_splits(path: Path, folders: list[Path]) -> None:
    """Raises a `UsageError` if `path` would declare splits without other folders with classes."""
    with_classes = [folder for folder in folders if _has_classes(folder)]
    splits = _splits(folder for folder in with_classes if folder.name.lower() in _PARTS)
    others = [printable(each.name) for each in with_classes if each not in splits.values()]
    if splits and others:
        names = " and ".join(folder.name for folder in splits.values())
        are, them = ("is", "it") if len(others) == 1 else ("are", "them")
        raise UsageError(
            f"{path}: {names} are parts of a data set, {listed(others)} {are} not: move {them} "
            f"away, or pass {splits['train']} to hold out some of its pictures."
        )


def _importance(group: tuple[str, list[Skipped]]) -> tuple[bool, bool, int, str]:
    # Unreadable pictures first, hidden files last.
    reason, files = group
    is_unreadable = any(file.is_unreadable for file in files)
    return reason == _HIDDEN, not is_unreadable, -len(files), reason


def _walk(folder: Path, check: Callable[[Path], str]) -> Iterator[tuple[Path, str]]:
    """All files under `folder`, each with the reason to skip it, or ""."""
    unopened: list[tuple[Path, str]] = []

    def fail(error: OSError) -> None:
        unopened.append((Path(error.filename), f"cannot be opened ({error.strerror})"))

    for directory, folders, files in os.walk(folder, onerror=fail):
        here = Path(directory)
        for name in folders:
            if is_hidden(name):
                yield here / name, _HIDDEN
            elif (here / name).is_symlink():
                yield here / name, "link to a folder, not followed"
        folders[:] = [name for name in folders if not is_hidden(name)]
        for name in files:
            yield here / name, _reason(here / name, (here / name).relative_to(folder), check)
    yield from unopened


def _reason(file: Path, place: Path, check: Callable[[Path], str]) -> str:
    if is_hidden(file.name):
        return _HIDDEN
    if not _is_text(str(place)):
        return "its name is not readable text"
    if not file.is_file():  # reading a pipe might never end
        return "broken link" if file.is_symlink() else "not a regular file"
    fault = check(file)
    if fault or _is_picture(file):
        return fault
    return f"picture without a picture's extension ({', '.join(EXTENSIONS[:2])} ...)"


def _contents(folder: Path) -> tuple[int, list[Path]]:
    """The number of pictures directly in a folder, and its subfolders."""
    try:
        entries = sorted(p for p in folder.iterdir() if not is_hidden(p.name))
    except OSError:
        return 0, []
    folders = [entry for entry in entries if entry.is_dir()]
    return sum(map(_is_picture, set(entries) - set(folders))), folders


def _has_classes(folder: Path) -> bool:
    """Whether two or more subfolders contain pictures, directly or one level deeper."""
    folders = _contents(folder)[1]
    return sum(any(_contents(each)[0] for each in (f, *_contents(f)[1])) for f in folders) > 1


def _classes_below(folder: Path, depth: int = _DEPTH) -> Path | None:
    """The first folder, in `folder` or below, whose subfolders directly contain pictures."""
    _, folders = _contents(folder)
    if len(folders) > 1 and any(_contents(subfolder)[0] for subfolder in folders):
        return folder
    if depth == 0:
        return None
    below = (_classes_below(subfolder, depth - 1) for subfolder in sorted(folders, key=_by_part))
    return next(filter(None, below), None)


def _by_part(folder: Path) -> tuple[bool, str]:
    return not folder.name.lower().startswith("train"), folder.name


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in EXTENSIONS


def is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file, or of one that a file manager makes."""
    return name.startswith(".") or name.lower() in _CLUTTER


def _is_text(name: str) -> bool:
    # No control characters, and no bytes that are not UTF-8 (in Python they are surrogates).
    return not any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in name)


def _with_reasons(name: str, reasons: collections.Counter) -> str:
    counts = [f"{count} {reason}" for reason, count in reasons.most_common(2)]
    return printable(name) + (f" ({', '.join(counts)})" if counts else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 2 :]}"
