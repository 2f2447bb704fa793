"""Masks from the text files of YOLO, which Ultralytics reads and Roboflow writes.

    data.yaml            names: ['cat', 'dog'], or a line each
    train/images/a.jpg   train/labels/a.txt    or images/train/a.jpg and labels/train/a.txt

A line of a text file is an object: the number of its class, then x y x y ... of its outline in
fractions of the width and height. Of a line with four numbers, a box, there is no mask.

Sources: Ultralytics' pages "Instance Segmentation Datasets Overview" for the lines and the names,
and `img2label_paths` of its code for which text file belongs to a picture; Roboflow's layout is
that of its exports. data.yaml is read for the names only: its paths are often those of the machine
on which it was written.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._files import read_lines
from keras_vit.data import mask_shapes
from keras_vit.data.decoding import upright_size
from keras_vit.data.mask_listing import (
    MaskListing,
    after_background,
    skipped_file,
    splits_of_folders,
)
from keras_vit.data.mask_shapes import Shape
from keras_vit.data.picture_index import Index, Known

_NAMES = "names:"
_PICTURES, _LABELS = "images", "labels"  # the folders
_MOST_BYTES = 16 << 20
_MOST_LINES = 10_000  # of data.yaml
_LARGEST = 1.5  # outlines may leave the picture a little; larger numbers are pixels
_ENTRY = re.compile(r"\s*(?:-|(\d{1,9})\s*:)\s+(.*)")
# Texts in YAML: in quotes, without the backslash of double ones; or plain, which must not begin
# with a sign of YAML's, and have neither a colon before a space nor, in brackets, signs of lists.
_QUOTED = r"""'(?:[^']|'')*'|"[^"\\]*\""""
_PLAIN = r"""[^\s\-\[\]{}&*!|>%@`'",#?:](?:[^:]|:(?=\S))*"""
_PLAIN_IN_BRACKETS = r"""[^\s\-\[\]{}&*!|>%@`'",#?:](?:[^:,\[\]{}]|:(?=[^\s,]))*"""
_TEXT = re.compile(f"{_QUOTED}|{_PLAIN}")
_PART = re.compile(rf"\s*(?:(\d{{1,9}})\s*:\s+)?((?:{_QUOTED})\s*|{_PLAIN_IN_BRACKETS})(?:,|\Z)")


def yolo_file(path: Path) -> Path | None:
    """The file with the names of the classes, if a folder is laid out as YOLO's; else None."""
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in (".yaml", ".yml"))
    for file in files:
        if file.is_file() and any(line.startswith(_NAMES) for line in _lines(file)):
            return file if _texts(path) else None
    return None


def yolo_masks(path: Path, names: Path, files: Sequence[Path], index: Index) -> MaskListing:
    """The masks that YOLO's text files describe.

    Class 0 is "background", then follow those of `names` by their numbers. The smaller one of two
    objects is on top. A picture whose text file is empty or absent is all background; one with a
    line that cannot be used is skipped, and all for which there is no folder of texts.

    Args:
        path: the folder.
        names: see `yolo_file`.
        files: the pictures below the folder.
        index: what is known of them.

    Raises:
        UsageError: the names cannot be read.
        MissingPackageError: pycocotools is not installed.
    """
    mask_shapes.check_drawable()
    named = read_names(names)
    labels, class_of = after_background(named.values())
    classes = {number: class_of[name] for number, name in named.items()}
    texts = {file: text for file in files if (text := _text_of(path, file)) is not None}
    pictures_of = collections.Counter(texts.values())
    pictures = [file for file, text in texts.items() if pictures_of[text] == 1]
    all_texts = _texts(path)
    faults = {file: "several pictures of this name" for file in files if file in texts}
    faults |= {file: f"not in a folder {_PICTURES}" for file in files if file not in texts}
    faults |= {text: "text without a picture" for text in all_texts if text not in pictures_of}
    known = index.examine(pictures)

    def examined(file: Path) -> tuple[str, set[int]]:
        return _examined(file, texts[file], known[file], classes)

    with ThreadPoolExecutor() as pool:
        found = dict(zip(pictures, pool.map(examined, pictures), strict=True))
    faults |= {file: fault for file, (fault, _) in found.items()}
    usable = [file for file in pictures if not faults[file]]
    return MaskListing(
        labels=labels,
        pictures=usable,
        known=known,
        classes=[found[file][1] for file in usable],
        mask=lambda i: _mask(usable[i], texts[usable[i]], classes),
        splits=[splits_of_folders(path, file) for file in usable],
        skipped=[skipped_file(path, file, fault) for file, fault in faults.items() if fault],
        about=[names, *all_texts],
        expected="pictures in a folder images, and outlines of the same names in a folder labels",
    )


def read_names(file: Path) -> dict[int, str]:
    """The names of the classes in a YAML file, by their numbers.

    Only the two usual forms are read, a list and a mapping of numbers, on one line or several.

    Raises:
        UsageError: they have another form.
    """
    lines = iter(_lines(file))
    first = _without_comment(next(line for line in lines if line.startswith(_NAMES)))
    first = first.removeprefix(_NAMES).strip()
    rest = (_without_comment(line) for line in lines)
    if first[:1] in ("[", "{"):
        pairs = _in_brackets(first, rest)
    elif first:
        pairs = None
    else:
        pairs = _in_lines(rest)
    if not pairs or len({number for number, _ in pairs}) < len(pairs):
        raise UsageError(
            f"{file}: expected the names of the classes, as in names: ['cat', 'dog'], or in lines "
            "such as '  0: cat' or '- cat' below names. Received: another form; write it so."
        )
    return dict(sorted(pairs))


def _texts(path: Path) -> list[Path]:
    """The text files in folders for them."""
    texts = (each for each in path.rglob("*.txt") if _LABELS in each.relative_to(path).parts[:-1])
    return sorted(texts)


def _text_of(path: Path, picture: Path) -> Path | None:
    """The text file of a picture, which need not exist; None outside of a folder of pictures."""
    parts = [*picture.relative_to(path).parts[:-1]]
    places = [i for i, part in enumerate(parts) if part == _PICTURES]
    if not places:
        return None
    parts[places[-1]] = _LABELS
    return path.joinpath(*parts, f"{picture.stem}.txt")


def _examined(
    picture: Path, text: Path, known: Known, classes: Mapping[int, int]
) -> tuple[str, set[int]]:
    """Why a picture cannot be used, or ""; and the classes of its mask."""
    if known.fault:
        return known.fault, set()
    if not text.parent.is_dir():  # of a test set without labels, for example
        return f"without a folder {_LABELS}", set()
    try:
        size = upright_size(picture)
        objects = _objects(text, classes, *size)
        mask_shapes.check_work(mask_shapes.work(shape, *size) for _, shape in objects)
    except UsageError as error:
        return str(error), set()
    except OSError as error:
        return f"cannot be opened ({error.strerror})", set()
    return "", {0, *(number for number, _ in objects)}


def _mask(picture: Path, text: Path, classes: Mapping[int, int]) -> np.ndarray:
    size = upright_size(picture)
    return mask_shapes.drawn(_objects(text, classes, *size), *size)


def _objects(
    text: Path, classes: Mapping[int, int], height: int, width: int
) -> list[tuple[int, Shape]]:
    """The class and the outline of each object of a text file."""
    if not text.exists():
        return []
    if text.stat().st_size > _MOST_BYTES:
        raise UsageError(f"a text file of more than {_MOST_BYTES:,} bytes")
    lines = [line.split() for line in read_lines(text, errors="replace")]
    lines = [fields for fields in lines if fields]
    mask_shapes.check_count(len(lines))
    scale = np.array([width, height])
    return [_object(fields, classes, scale) for fields in lines]


def _object(
    fields: Sequence[str], classes: Mapping[int, int], scale: np.ndarray
) -> tuple[int, Shape]:
    try:
        number, fractions = int(fields[0]), np.array(fields[1:], np.float64)
    except ValueError:
        raise UsageError("a line that is not a class and numbers") from None
    if number not in classes:
        raise UsageError("an object of a class that has no name")
    if len(fractions) == 4:
        raise UsageError("a box, not an outline")
    if not ((fractions >= 1 - _LARGEST) & (fractions <= _LARGEST)).all():  # also of NaN
        raise UsageError("coordinates that are not fractions of the picture, such as pixels")
    if len(fractions) % 2 == 0:
        fractions = (fractions.reshape(-1, 2) * scale).ravel()
    return classes[number], [mask_shapes.polygon(fractions, *scale[::-1])]


def _lines(file: Path) -> tuple[str, ...]:
    if file.stat().st_size > _MOST_BYTES:
        return ()
    return read_lines(file, errors="replace", most=_MOST_LINES)


def _without_comment(line: str) -> str:
    """A line of YAML without a comment, which begins after a space outside of quotes."""
    end = re.match(r"""(?:[^'"#]|(?<=\S)#|'[^']*'|"[^"]*")*""", line).end()
    return line[:end].rstrip() if line[end : end + 1] == "#" else line.rstrip()


def _in_lines(lines: Iterable[str]) -> list[tuple[int, str]] | None:
    pairs: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            # The next key of the file ends the names; all else is not understood.
            return pairs if re.match(r"[^\s\-#]", line) else None
        number, text = entry.groups()
        if not _TEXT.fullmatch(text):
            return None
        pairs.append((len(pairs) if number is None else int(number), _unquoted(text)))
    return pairs


def _in_brackets(first: str, rest: Iterable[str]) -> list[tuple[int, str]] | None:
    """The entries of a list or mapping that may go on in the next lines."""
    closing = {"[": "]", "{": "}"}[first[0]]
    text = first
    for line in rest:
        if text.endswith(closing):
            break
        text += f" {line.strip()}"
    if not text.endswith(closing):
        return None
    text, place, pairs = text[1:-1].strip().removesuffix(","), 0, []
    while place < len(text):
        part = _PART.match(text, place)
        if part is None or (part[1] is None) != (closing == "]"):
            return None
        pairs.append((len(pairs) if part[1] is None else int(part[1]), _unquoted(part[2])))
        place = part.end()
    return pairs


def _unquoted(text: str) -> str:
    text = text.strip()
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    return text[1:-1] if text[0] == '"' else text
