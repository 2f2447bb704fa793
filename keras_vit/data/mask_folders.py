"""Folders of pictures with masks as a source, for semantic segmentation.

Masks are outlines in JSON files (`coco_masks.py`) or text files (`yolo_masks.py`), or pictures of
whole numbers, the class of each pixel. Such a mask has the name of its picture, and is in another
folder or beside it:

    images/a.jpg    masks/a.png        any names of `_PICTURES` and `_MASKS`, as in ADE20K and VOC
    a.jpg           a.png              or a_mask.png
"""

from __future__ import annotations

import collections
import dataclasses
import os
import unicodedata
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_vit._errors import UsageError
from keras_vit._files import read_lines
from keras_vit.data import folders
from keras_vit.data.coco_masks import coco_files, coco_masks
from keras_vit.data.decoding import decode_values, printable
from keras_vit.data.folders import SPLITS, Skipped
from keras_vit.data.mask_index import KnownMask, examined
from keras_vit.data.mask_listing import (
    MaskListing,
    declared_splits,
    size_fault,
    skipped_file,
    splits_of_folders,
)
from keras_vit.data.masks import NO_CLASS, Masks, unnamed_classes
from keras_vit.data.picture_folders import encoded
from keras_vit.data.picture_index import Index
from keras_vit.data.source import ClassSets, Source, check_labels
from keras_vit.data.yolo_masks import yolo_file, yolo_masks

_PICTURES = ("images", "image", "imgs", "img", "photos", "pictures", "jpegimages")
_MASKS = (
    "masks", "mask", "annotations", "labels", "segmentationclass", "segmentations", "ground_truth",
)  # fmt: skip
_ENDINGS = ("_mask", "-mask", "_masks", "_label", "_labels", "_seg", "_segmentation", "_gt")
# The names of the classes, a line each, in the order of the values from 0 on.
_NAMES = ("labels.txt", "classes.txt", "names.txt", "codes.txt")
_ADE20K = "objectInfo150.txt"  # its table of names; 0 stands for no class, and classes begin at 1
_VOC_MASKS = "segmentationclass"
_VOC_CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair",
    "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa",
    "train", "tvmonitor",
)  # fmt: skip
_OTHER_NAMES = ("labelmap.txt", "class_names.txt")  # CVAT's and labelme's, in the layout of VOC
_VOC_SPLITS = Path("ImageSets", "Segmentation")


def mask_folder(path: str | os.PathLike, strict: bool = False) -> Source:
    """Opens a folder of pictures with masks.

    Masks are outlines in COCO's JSON files or in YOLO's text files, if the folder has such files,
    or pictures, whose classes are the values of pixels.

    The classes of pictures are the lines of labels.txt in the folder; without it "background" is
    0, and "class 7" is 7. Where all values are 0 and 255, these are "background" and "foreground";
    otherwise pixels of 255 have no class. Of ADE20K, whose names are in its objectInfo150.txt,
    pixels of 0 have none; Pascal VOC's have its 21 names. Folders or lists of splits (train, val,
    test) are respected.

    Args:
        path: the folder.
        strict: raise an error for a picture without a usable mask instead of skipping it.

    Raises:
        UsageError: there is no such folder, it has no picture with a mask, the masks have many
            values without names, or, if strict, a picture or a mask cannot be used.
        MissingPackageError: masks are outlines, and pycocotools is not installed.
    """
    path = Path(path).resolve()
    if not path.is_dir():
        raise UsageError(f"{path}: expected a folder of pictures and masks; there is none.")
    index = Index(path)
    files, others = folders.list_below(path, path, "", index.check_format)
    if (names := yolo_file(path)) is not None:
        found = yolo_masks(path, names, files, index)
    elif jsons := coco_files(path):
        found = coco_masks(path, jsons, files, index)
    else:
        found = _picture_masks(path, files, index)
    about = {printable(file.relative_to(path).as_posix()) for file in found.about}
    skipped = [*(each for each in others if each.path not in about), *found.skipped]
    unusable = [each for each in skipped if each.is_unreadable]
    if strict and unusable:
        raise UsageError(
            f"{path / unusable[0].path}: {unusable[0].reason} ({len(unusable)} in all)."
        )
    if not found.pictures:
        reasons = "; ".join(folders.summary(skipped, 0)[:3])
        raise UsageError(f"{path}: expected {found.expected}. Received: {reasons or 'none'}.")
    return _source(path, found, skipped, index)


def has_mask_folders(path: Path) -> bool:
    """Whether a folder has pictures with masks in two subfolders, at most one level down.

    A file is opened: two classes may have the names of such folders.
    """
    if any(json.parent != path for json in coco_files(path)):
        return True
    for folder in (path, *(each for each in path.iterdir() if each.is_dir())):
        below = [each for each in folder.iterdir() if each.is_dir()]
        used = [each for each in below if _role(Path(each.name, "file")) != "neither"]
        pairs, _ = _pairs(folder, [file for each in used for file in each.rglob("*.*")])
        if pairs and _is_mask(pairs[0][1]):
            return True
    return False


def has_masks_beside(path: Path) -> bool:
    """Whether files of a folder have the same name or the ending of a mask's, or are COCO's."""
    return bool(_pairs(path, [each for each in path.iterdir() if each.is_file()])[0]) or bool(
        coco_files(path)
    )


def _source(path: Path, found: MaskListing, skipped: list[Skipped], index: Index) -> Source:
    if not found.labels:
        raise UsageError(f"{path}: expected masks with classes. Received: none; {found.note}.")
    check_labels(found.labels, str(path))
    found, skipped = _in_splits(path, found, skipped)
    entries = [(i, number) for i, each in enumerate(found.classes) for number in each]
    entries = np.array(entries, np.int64).reshape(-1, 2)
    shape = (len(found.pictures), len(found.labels))
    sets = ClassSets(entries[:, 0], entries[:, 1], shape)
    image, states = encoded(found.pictures, found.known)
    return Source(
        name=path.name,
        labels=found.labels,
        ids=tuple(file.relative_to(path).as_posix() for file in found.pictures),
        targets=sets.rarest,
        image=image,
        skipped=tuple(skipped),
        skipped_before=index.are_skipped_again(skipped),
        locator=f"masks:{path}",
        splits=declared_splits(found.splits),
        states=states,
        annotations=Masks(found.mask, sets, found.note),
    )


def _in_splits(
    path: Path, found: MaskListing, skipped: list[Skipped]
) -> tuple[MaskListing, list[Skipped]]:
    """The pictures that are in a split, if splits are declared, and what is skipped."""
    if not declared_splits(found.splits) or all(found.splits):
        return found, skipped
    kept = [i for i, names in enumerate(found.splits) if names]
    outside = [
        skipped_file(path, picture, "in no split")
        for picture, names in zip(found.pictures, found.splits, strict=True)
        if not names
    ]
    some = {
        name: [getattr(found, name)[i] for i in kept] for name in ("pictures", "classes", "splits")
    }
    mask = found.mask
    return dataclasses.replace(found, **some, mask=lambda i: mask(kept[i])), [*skipped, *outside]


def _picture_masks(path: Path, files: Iterable[Path], index: Index) -> MaskListing:
    """The masks that are pictures."""
    pairs, skipped = _pairs(path, files)
    known = index.examine(picture for picture, _ in pairs)
    masks = examined(path, (mask for _, mask in pairs))
    faults = {picture: known[picture].fault for picture, _ in pairs if known[picture].fault}
    intact = [(p, m) for p, m in pairs if p not in faults]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda pair: _fault(pair[0], masks[pair[1]]), intact)
        faults |= {m: fault for (_, m), fault in zip(intact, found, strict=True) if fault}
    pairs = [(p, m) for p, m in pairs if not {p, m} & faults.keys()]
    labels, classes = _classes(path, {mask: masks[mask] for _, mask in pairs})
    for _, mask in pairs:
        unknown = [value for value in masks[mask].values if classes[value] < 0]
        if unknown:
            faults[mask] = f"value {unknown[0]}, which none of the {len(labels)} classes has"
    pairs = [(picture, mask) for picture, mask in pairs if mask not in faults]
    lookup, listed = classes.astype(np.uint8), _listed(path)
    splits = [_splits(path, picture, listed) for picture, _ in pairs]
    return MaskListing(
        labels=labels,
        pictures=[picture for picture, _ in pairs],
        known=known,
        classes=[{*classes[masks[mask].values]} - {NO_CLASS} for _, mask in pairs],
        mask=lambda i: lookup[decode_values(pairs[i][1])],
        splits=splits,
        note=_note([masks[mask] for _, mask in pairs], classes),
        skipped=[*skipped, *(skipped_file(path, *each) for each in faults.items())],
        about=[path / name for name in (*_NAMES, _ADE20K)],
        expected="pictures with masks of the same names, such as images/a.jpg and masks/a.png",
    )


def _pairs(path: Path, files: Iterable[Path]) -> tuple[list[tuple[Path, Path]], list[Skipped]]:
    """The pictures with their masks, and what has no counterpart."""
    files = list(files)
    roles = {file: _role(file.relative_to(path)) for file in files}
    if "pictures" in roles.values():
        beside = [file for file in files if roles[file] == "neither"]
        pictures = [file for file in files if roles[file] == "pictures"]
        masks = [file for file in files if roles[file] == "masks"]
    else:
        beside, (pictures, masks) = [], _beside_each_other(path, files, roles)
    by_key = _grouped(path, pictures)
    of_masks = collections.defaultdict(list)
    for mask in masks:
        keys = _keys(path, mask)
        of_masks[next((key for key in keys if key in by_key), keys[0])].append(mask)
    pairs, skipped = [], [skipped_file(path, f, "beside the pictures and masks") for f in beside]
    for key in sorted({*by_key, *of_masks}):
        found = by_key[key], of_masks[key]
        if len(found[0]) == len(found[1]) == 1:
            pairs.append((found[0][0], found[1][0]))
            continue
        several = "several pictures or masks of one name"
        reasons = (
            (several if found[1] else "no mask"),
            (several if found[0] else "mask without a picture"),
        )
        for some, reason in zip(found, reasons, strict=True):
            skipped += [skipped_file(path, file, reason) for file in some]
    return sorted(pairs), skipped


def _is_mask(file: Path) -> bool:
    try:
        return bool(decode_values(file).size)
    except (OSError, UsageError):
        return False


def _fault(picture: Path, mask: KnownMask) -> str:
    return mask.fault or size_fault(picture, mask.height, mask.width)


def _note(masks: Iterable[KnownMask], classes: np.ndarray) -> str:
    """How many pixels have no class, in words; "" if all have one."""
    masks = [mask for mask in masks if NO_CLASS in classes[mask.values]]
    if not masks:
        return ""
    least = min(value for value in range(256) if classes[value] == NO_CLASS)
    pixels = sum(mask.height * mask.width for mask in masks)
    without = sum(mask.zeros if least == 0 else mask.unlabelled for mask in masks)
    return (
        f"{without / pixels:.1%} of the pixels of {len(masks):,} masks have the value {least}, "
        "which is no class"
    )


def _role(file: Path) -> str:
    """What a file is by its folders: one of "pictures" and "masks", or "neither"."""
    names = [part.lower() for part in file.parts[:-1]]
    # The folder that is nearest to the file decides.
    for name in reversed(names):
        if name in _PICTURES or name in _MASKS:
            return "pictures" if name in _PICTURES else "masks"
    return "neither"


def _beside_each_other(
    path: Path, files: list[Path], roles: Mapping[Path, str]
) -> tuple[list[Path], list[Path]]:
    """The pictures and the masks, where no folder is for pictures: a_mask.png or a.png by a.jpg."""
    groups = _grouped(path, [file for file in files if roles[file] != "masks"])
    masks = [file for file in files if roles[file] == "masks"]
    for group in groups.values():
        stripped = [key for file in group for key in _keys(path, file)[1:]]
        pngs = [file for file in group if file.suffix.lower() == ".png"]
        if len(group) == 1 and any(key in groups for key in stripped):  # a_mask.png by a.jpg
            masks += group
        elif len(group) == 2 and len(pngs) == 1:
            masks += pngs
    return [file for file in files if file not in {*masks}], masks


def _grouped(path: Path, files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by the key that they have in common with their counterparts."""
    groups: dict[str, list[Path]] = collections.defaultdict(list)
    for file in files:
        groups[_keys(path, file)[0]].append(file)
    return groups


def _keys(path: Path, file: Path) -> list[str]:
    """What a file has in common with its counterpart: its place and name, then without an ending.

    Folders of pictures and of masks are left out, and letters with accents are composed: macOS
    takes them apart.
    """
    parts = file.relative_to(path).parts[:-1]
    rest = [part for part in parts if part.lower() not in (*_PICTURES, *_MASKS)]
    endings = [each for each in _ENDINGS if file.stem.lower().endswith(each)]
    stems = [file.stem, *(file.stem[: -len(each)] for each in endings)]
    return [unicodedata.normalize("NFC", "/".join([*rest, stem])) for stem in stems]


def _classes(path: Path, masks: Mapping[Path, KnownMask]) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the classes, and the class of each value, int16 (256,); -1 for none."""
    values = sorted({value for mask in masks.values() for value in mask.values})
    classes = np.full(256, -1, np.int16)
    classes[NO_CLASS] = NO_CLASS
    names = _names(path)
    if names is not None and (len(names) != 2 or values != [0, NO_CLASS]):
        first = int((path / _ADE20K).is_file())
        classes[:first] = NO_CLASS
        classes[first : first + len(names)] = np.arange(len(names))
        return tuple(names), classes
    last = max((value for value in values if value != NO_CLASS), default=0)
    if names is None and _is_vocs(path, masks) and 0 < last < len(_VOC_CLASSES):
        classes[: len(_VOC_CLASSES)] = np.arange(len(_VOC_CLASSES))
        return _VOC_CLASSES, classes
    fix = f"if they are classes, write a name for each value from 0 on in {_NAMES[0]}, a line each"
    found = unnamed_classes(values, str(path), fix)
    for value, (number, _) in found.items():
        classes[value] = number
    return tuple(names or (name for _, name in found.values())), classes


def _is_vocs(path: Path, masks: Iterable[Path]) -> bool:
    """Whether masks are where Pascal VOC has them, without another program's list of names."""
    folders_of = {part.lower() for mask in masks for part in mask.relative_to(path).parts[:-1]}
    return _VOC_MASKS in folders_of and not any((path / name).is_file() for name in _OTHER_NAMES)


def _names(path: Path) -> list[str] | None:
    """The names of the classes that the folder states; None for none."""
    if (path / _ADE20K).is_file():
        table = [line.split("\t")[-1].strip() for line in read_lines(path / _ADE20K)]
        names = table[1:]  # after the header
    else:
        file = next((path / name for name in _NAMES if (path / name).is_file()), None)
        if file is None:
            return None
        names = [line.strip() for line in read_lines(file)]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise UsageError(
            f"{path}: expected a name in each line, the first for value 0. Received: none in line "
            f"{names.index('') + 1} of {len(names)}."
        )
    [(name, count), *_] = collections.Counter(names or [""]).most_common(1)
    if count > 1:
        raise UsageError(f"{path}: expected other names in each line. Received: {name!r} twice.")
    if not 2 <= len(names) <= NO_CLASS:
        raise UsageError(
            f"{path}: expected the names of 2 to {NO_CLASS} classes. Received: {len(names)}."
        )
    return names


def _splits(path: Path, picture: Path, listed: Mapping[str, list[str]]) -> list[str]:
    """The splits of a picture by VOC's lists, or else by its folders."""
    return listed.get(picture.stem, []) if listed else splits_of_folders(path, picture)


def _listed(path: Path) -> dict[str, list[str]]:
    """The splits of each name in VOC's lists."""
    listed = collections.defaultdict(list)
    for split, (name, *_) in SPLITS.items():
        file = path / _VOC_SPLITS / f"{name}.txt"
        for line in read_lines(file) if file.is_file() else ():
            listed[line.strip()].append(split)
    return listed
