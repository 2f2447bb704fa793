"""Masks from the JSON files of COCO, which many programs for annotation write.

A file has "images", "annotations" (the outline of an object, or its pixels as runs) and
"categories". The layouts that are read:

    annotations/instances_train2017.json   train2017/a.jpg    COCO, and CVAT with images/
    train/_annotations.coco.json           train/a.jpg        Roboflow, beside the pictures
    result.json                            images/a.jpg       Label Studio, labelme2coco, FiftyOne

Sources: COCO's "data format" page (cocodataset.org) for the fields; the layouts of the programs
are those of their exports as their users know them, none of which is specified.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from keras_vit import _json
from keras_vit._errors import UsageError, one_line, shortened
from keras_vit._files import read_bounded
from keras_vit._json import Text
from keras_vit.data import mask_shapes
from keras_vit.data.folders import Skipped, is_hidden
from keras_vit.data.mask_listing import (
    MaskListing,
    after_background,
    named_splits,
    size_fault,
    skipped_file,
    splits_of_folders,
)
from keras_vit.data.mask_shapes import Shape
from keras_vit.data.picture_index import Index

_MOST_BYTES = 1 << 30  # instances_train2017.json has 450 MB
_MOST_SHAPE_BYTES = 16 << 20
_LONGEST_NAME = 200  # of a picture that is not there
_HEAD_BYTES = 1 << 14  # before them COCO's files have their licences
_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
_INSTANCES = "instances"  # COCO's files of objects are named so, beside others of the same pictures
# COCO's other files: sentences, points of bodies, pictures without annotations, and PNG masks.
_OTHERS = ("captions", "person_keypoints", "image_info", "panoptic")


def coco_files(path: Path) -> list[Path]:
    """The files in a folder and in its subfolders that begin as COCO's do, in order."""
    folders = [path, *sorted(f for f in path.iterdir() if f.is_dir() and not is_hidden(f.name))]
    files = (file for folder in folders for file in sorted(folder.glob("*.[jJ][sS][oO][nN]")))
    return [file for file in files if not is_hidden(file.name) and _begins_as_coco(file)]


def coco_masks(
    path: Path, jsons: Sequence[Path], files: Sequence[Path], index: Index
) -> MaskListing:
    """The masks that COCO's files describe.

    Class 0 is "background", then follow the categories by their ids. The smaller one of two
    objects is on top. A picture is skipped as a whole if one of its annotations cannot be used,
    because its mask would be wrong. The classes of a mask are those of its annotations, even where
    smaller objects cover one, because drawing all masks takes minutes.

    Args:
        path: the folder.
        jsons: see `coco_files`.
        files: the pictures below the folder.
        index: what is known of them.

    Raises:
        MissingPackageError: pycocotools is not installed.
    """
    mask_shapes.check_drawable()
    chosen, skipped = _chosen(path, jsons)
    contents = {}
    for json in chosen:
        try:
            contents[json] = _content(json)
        except UsageError as error:
            reason = str(error).removeprefix(f"{json}: ").removesuffix(".")
            skipped.append(skipped_file(path, json, reason))
    labels, classes = _classes(contents.values())
    entries = []
    for json, content in contents.items():
        found, others = _entries(path, json, content, files, classes)
        entries += found
        skipped += others
    entries, twice = _once(entries)
    listed = {entry.picture for entry in entries} | {*twice}
    skipped += [skipped_file(path, file, "not in the JSON") for file in files if file not in listed]
    skipped += [skipped_file(path, file, "twice in the JSON") for file in sorted(twice)]
    known = index.examine(entry.picture for entry in entries)
    with ThreadPoolExecutor() as pool:
        faults = pool.map(lambda each: known[each.picture].fault or _fault(each), entries)
    usable = []
    for entry, fault in zip(entries, faults, strict=True):
        if fault:
            skipped.append(skipped_file(path, entry.picture, fault))
        else:
            usable.append(entry)
    return MaskListing(
        labels=labels,
        pictures=[entry.picture for entry in usable],
        known=known,
        classes=[{0, *(number for number, _ in entry.objects)} for entry in usable],
        mask=lambda i: mask_shapes.drawn(_shapes(usable[i]), *usable[i].size),
        splits=[_splits(path, entry) for entry in usable],
        skipped=skipped,
        about=jsons,
        expected="pictures that a JSON file in the format of COCO annotates with outlines or RLE",
    )


class _Image(Struct):
    id: int | str
    file_name: Text
    width: int
    height: int


class _Annotation(Struct):
    image_id: int | str
    category_id: int
    segmentation: msgspec.Raw = msgspec.Raw()  # read when it is needed, as it may be long


class _Category(Struct):
    id: int
    name: str
    supercategory: str | None = None


class _Content(Struct):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]


class _Runs(Struct):
    size: list[int]
    counts: str | list[int]


_SEGMENTATION = msgspec.json.Decoder(list[list[float]] | _Runs | None)


@dataclasses.dataclass
class _Entry:
    """A picture as a JSON file describes it.

    Attributes:
        picture, json: both files.
        size: height and width.
        objects: the class of each annotation and its segmentation.
        fault: why it cannot be used, as far as it is known; or "".
    """

    picture: Path
    json: Path
    size: tuple[int, int]
    objects: list[tuple[int, msgspec.Raw]]
    fault: str = ""


def _begins_as_coco(file: Path) -> bool:
    try:
        if not file.is_file():  # opening a pipe would wait for a writer
            return False
        with file.open("rb") as stream:
            return bool(_HEAD.search(stream.read(_HEAD_BYTES)))
    except OSError:
        return False


def _chosen(path: Path, jsons: Sequence[Path]) -> tuple[list[Path], list[Skipped]]:
    """The files of objects; COCO has others of the same pictures beside them."""
    chosen, skipped = [], []
    for file in jsons:
        name = file.name.lower()
        beside = [each.name.lower() for each in jsons if each.parent == file.parent]
        has_instances = any(each.startswith(_INSTANCES) for each in beside)
        if name.startswith(_OTHERS):
            skipped.append(skipped_file(path, file, "JSON without objects"))
        elif has_instances and not name.startswith(_INSTANCES):
            reason = f"JSON beside {_INSTANCES}, which are read instead"
            skipped.append(skipped_file(path, file, reason))
        else:
            chosen.append(file)
    return chosen, skipped


def _content(json: Path) -> _Content:
    content = read_bounded(json, _MOST_BYTES).removeprefix(b"\xef\xbb\xbf")
    try:
        # At once into records: as lists and numbers of Python it would take ten times its size.
        found = msgspec.json.decode(content, type=_json.bounded_type(_Content))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise UsageError(f"JSON of another kind than COCO's ({error})") from None
    for what, each in (("images", found.images), ("categories", found.categories)):
        if len({one.id for one in each}) < len(each):
            raise UsageError(f"{what} with the same id")
    return found


def _classes(contents: Iterable[_Content]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the classes, and the class of each name of a category."""
    found = sorted((each.id, each.name) for content in contents for each in _without_group(content))
    return after_background(name for _, name in found)


def _without_group(content: _Content) -> list[_Category]:
    """The categories without the one that Roboflow adds as the first, named after the project."""
    above = {each.supercategory for each in content.categories}
    used = {each.category_id for each in content.annotations}
    return [
        each
        for each in content.categories
        if each.id or each.supercategory != "none" or each.name not in above or each.id in used
    ]


def _entries(
    path: Path, json: Path, content: _Content, files: Sequence[Path], classes: dict[str, int]
) -> tuple[list[_Entry], list[Skipped]]:
    """The pictures of a JSON file that are in the folder, and what it has beside them."""
    scopes = (_Finder([json.parent, path], scope) for scope in _scopes(path, json, files))
    stated = [image.file_name for image in content.images]
    each_found = ([find(name) for name in stated] for find in scopes)
    found = next((each for each in each_found if any(picture for picture, _ in each)), None)
    if found is None:
        reason = "JSON of pictures that are not in the folder"
        return [], [skipped_file(path, json, reason)]
    entries, skipped = {}, []
    for image, (picture, fault) in zip(content.images, found, strict=True):
        if picture is None:
            name = shortened(one_line(image.file_name), _LONGEST_NAME)
            skipped.append(Skipped(name, "", fault, is_unreadable=True))
        entries[image.id] = _Entry(picture, json, (image.height, image.width), [])
    numbers, strays = {each.id: classes.get(each.name) for each in content.categories}, 0
    for each in content.annotations:
        entry = entries.get(each.image_id)
        if entry is None:
            strays += 1
        elif (number := numbers.get(each.category_id)) is None:
            entry.fault = "an annotation of a category that the JSON does not list"
        else:
            entry.objects.append((number, each.segmentation))
    if strays:
        reason = f"{strays:,} annotations of pictures that the JSON does not list"
        skipped.append(skipped_file(path, json, reason))
    return [each for each in entries.values() if each.picture is not None], skipped


def _scopes(path: Path, json: Path, files: Sequence[Path]) -> list[Sequence[Path]]:
    """Where the pictures of a JSON file may be, the most likely place first.

    It is below its own folder, in a folder that is named in its name, or anywhere.
    """
    below = [] if json.parent == path else [file for file in files if json.parent in file.parents]
    words = {json.stem, json.stem.partition("_")[2]}
    named = [file for file in files if words & {*file.relative_to(path).parts[:-1]}]
    return [scope for scope in (below, named, files) if scope]


class _Finder:
    """Finds the pictures that a JSON file names, by their paths below some folders or by name."""

    def __init__(self, bases: Sequence[Path], files: Sequence[Path]):
        self._bases = [*bases, Path(os.path.commonpath([file.parent for file in files]))]
        self._files = {*files}
        self._by_name = collections.defaultdict(list)
        for file in files:
            self._by_name[file.name].append(file)

    def __call__(self, name: str) -> tuple[Path | None, str]:
        """The picture of a name, or None and why there is none."""
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        for base in self._bases:
            if (file := base.joinpath(*parts)) in self._files:
                return file, ""
        found = self._by_name.get(parts[-1] if parts else "", [])
        # Of several the one that has most folders in common with the name.
        common = [_common(file.parts, parts) for file in found]
        best = [file for file, n in zip(found, common, strict=True) if n == max(common)]
        if len(best) == 1:
            return best[0], ""
        return None, "several pictures of this name" if best else "in the JSON, not in the folder"


def _common(parts: Sequence[str], others: Sequence[str]) -> int:
    """How many of the last parts of two paths are the same."""
    pairs = zip(reversed(parts), reversed(others), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(parts), len(others)))


def _once(entries: Sequence[_Entry]) -> tuple[list[_Entry], set[Path]]:
    """The entries of pictures that have one, and the other pictures."""
    counts = collections.Counter(entry.picture for entry in entries)
    kept = sorted((e for e in entries if counts[e.picture] == 1), key=lambda entry: entry.picture)
    return kept, {picture for picture, n in counts.items() if n > 1}


def _fault(entry: _Entry) -> str:
    """Why the annotations of a picture that can be read cannot be used, or ""."""
    if fault := entry.fault or size_fault(entry.picture, *entry.size):
        return fault
    try:
        mask_shapes.check_count(len(entry.objects))
        mask_shapes.check_work(mask_shapes.work(s, *entry.size) for _, s in _shapes(entry))
    except UsageError as error:
        return str(error)
    return ""


def _shapes(entry: _Entry) -> Iterable[tuple[int, Shape]]:
    """The class and the shape of each object of a picture."""
    return ((number, _shape(raw, *entry.size)) for number, raw in entry.objects)


def _shape(raw: msgspec.Raw, height: int, width: int) -> Shape:
    if len(raw) > _MOST_SHAPE_BYTES:
        raise UsageError("an annotation of too many points or runs")
    try:
        found = _SEGMENTATION.decode(raw) if len(raw) else None
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise UsageError("an annotation that is neither polygons nor RLE") from None
    if isinstance(found, _Runs):
        return mask_shapes.runs(found.size, found.counts, height, width)
    if not found:
        raise UsageError("an annotation without an outline, such as a box")
    return [mask_shapes.polygon(numbers, height, width) for numbers in found]


def _splits(path: Path, entry: _Entry) -> list[str]:
    words = re.split("[^a-z]+", entry.json.stem.lower())
    return splits_of_folders(path, entry.picture) or named_splits(words)
