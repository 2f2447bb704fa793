"""The published weights: which files there are for each variant, and which one is its default.

Sources: the README, the changelog, `vit_jax/configs/models.py` and `vit_jax_augreg.ipynb` of
google-research/vision_transformer; the README and `bit_hyperrule.py` of google-research/
big_transfer (both Apache-2.0, as the files are). An accuracy is ImageNet-1k validation top-1 as
those publish it for that file; where they give none, there is none here.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator
from typing import Literal

from keras_vit._errors import UsageError, did_you_mean, squeeze
from keras_vit.specs import VARIANTS, Preprocessing, find_variant

_VIT = "https://storage.googleapis.com/vit_models/"
_BIT = "https://storage.googleapis.com/bit_models/"
_IMAGENET, _IMAGENET21K = 1000, 21843


@dataclasses.dataclass(frozen=True)
class PublishedWeights:
    """One published file.

    Attributes:
        name: "DIRECTORY/NAME", without ".npz".
        model: the variant's name in the table of variants.
        url: where it is.
        image_size: side of the images that its position table is for, in pixels.
        num_classes: classes of its head.
        top1: ImageNet-1k top-1 accuracy in percent as published; None where it is not, or where
            the head is of another data set.
        default: whether `weights="DIRECTORY"` means this file for this variant.
        licence: SPDX name.
        pooling: "token", or "gap" (no class token).
        crop, interpolation, mean, scale: as in `Preprocessing`.
    """

    name: str
    model: str
    url: str
    image_size: int
    num_classes: int
    top1: float | None = None
    default: bool = False
    licence: str = "Apache-2.0"
    pooling: Literal["token", "gap"] = "token"
    crop: float | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    mean: float = 127.5
    scale: float = 127.5

    @property
    def directory(self) -> str:
        """The published directory, which is also the short name in `weights="..."`."""
        return self.name.partition("/")[0]

    @property
    def preprocessing(self) -> Preprocessing:
        """What these weights expect of an image."""
        side = self.image_size
        return Preprocessing(side, side, self.crop, self.interpolation, self.mean, self.scale)


class WeightsTable(tuple):
    """Published weights that print as a table, in a terminal and in a notebook."""

    _HEAD = ("model", "weights", "resolution", "classes", "top-1", "licence", "default of")

    def __repr__(self) -> str:
        rows = [self._HEAD, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(
                cell.rjust(width)
                if heading in ("resolution", "classes", "top-1")
                else cell.ljust(width)
                for cell, width, heading in zip(row, widths, self._HEAD, strict=True)
            )
            for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "".join(row(cells, "td") for cells in self._cells())
        return f"<table><thead>{row(self._HEAD, 'th')}</thead><tbody>{body}</tbody></table>"

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for entry in self:
            yield (
                entry.model,
                entry.name,
                str(entry.image_size),
                str(entry.num_classes),
                "" if entry.top1 is None else f"{entry.top1:.2f}",
                entry.licence,
                entry.directory if entry.default else "",
            )


def list_weights(model: str | None = None) -> WeightsTable:
    """The published weights of a variant, or of all: a tuple that prints as a table.

    AugReg's directory has 52,268 files, of which the recommended ones are listed here; every other
    can be asked for by its full name (`keras_vit.weights.augreg` reads its index).

    Raises:
        UsageError: there is no such variant.
    """
    if model is None:
        return WeightsTable(PUBLISHED)
    model = find_variant(model)
    return WeightsTable(entry for entry in PUBLISHED if entry.model == model)


def find_weights(model: str, weights: str) -> PublishedWeights:
    """The published file that `weights` means for the variant `model`.

    Args:
        model: a variant's name, however it is spelled.
        weights: a directory ("imagenet21k", "imagenet21k+imagenet2012", "augreg", "sam", "gsam",
            "bit-s", "bit-m", "bit-m+imagenet2012"), which gives the variant's default file in it;
            or a file's name, with or without its directory and ".npz". A name that follows
            AugReg's pattern need not be listed.

    Raises:
        UsageError: there is no such variant, it has no such weights, or several directories have
            a file of that name; the message lists what there is.
    """
    model = find_variant(model)
    own = list_weights(model)
    asked = weights.removesuffix(".npz")
    by_directory = [e for e in own if e.default and squeeze(e.directory) == squeeze(asked)]
    by_name = [e for e in own if asked in (e.name, e.name.partition("/")[2])]
    found = by_directory or by_name
    if len(found) > 1:
        raise UsageError(
            f"{weights!r} is in several directories; "
            f"choose one of {', '.join(entry.name for entry in found)}."
        )
    entry = found[0] if found else augreg_weights(asked) or _listed(asked)
    if entry is None or entry.model != model:
        raise UsageError(_none_such(model, weights, own, entry))
    return entry


def augreg_weights(name: str) -> PublishedWeights | None:
    """The file of a name that follows AugReg's pattern, told from the name alone; else None.

    Steiner et al. 2021: `MODEL-DATA-EPOCHSep-lr_X-aug_X-wd_X-do_X-sd_X` is a pre-trained file,
    with `--DATA-steps_X-lr_X-res_X` after it a fine-tuned one.
    """
    name = name.removesuffix(".npz").removeprefix("augreg/")
    match = _AUGREG_NAME.fullmatch(name)
    if match is None:
        return None
    tuned = match["tuned"]
    return PublishedWeights(
        name=f"augreg/{name}",
        model=AUGREG_MODELS[match["model"]],
        url=f"{_VIT}augreg/{name}.npz",
        image_size=int(match["resolution"] or 224),
        num_classes=_AUGREG_CLASSES[tuned or match["data"]],
        top1=_AUGREG_TOP1.get(name),
        default=name in _AUGREG_TOP1,
        # Pre-training was evaluated on the centre 224 of 256 pixels (big_vision's vit_i21k.py).
        # The official fine-tuning code stretches (vit_jax/input_pipeline.py), as all else here.
        crop=None if tuned else 0.875,
    )


# The first part of an AugReg file's name: its model.
AUGREG_MODELS = {
    **{name: f"ViT-{name}" for name in ("Ti_16", "S_32", "S_16", "B_32", "B_16", "B_8", "L_16")},
    "R_Ti_16": "R+ViT-Ti_16",
    "R26_S_32": "R26+ViT-S_32",
    "R50_L_32": "R50+ViT-L_32",
}
# Classes of its data sets; kitti is the distance of the closest vehicle, in four steps (VTAB).
_AUGREG_CLASSES = {
    "i1k": _IMAGENET,
    "i21k": _IMAGENET21K,
    "i21k_30": _IMAGENET21K,
    "imagenet2012": _IMAGENET,
    "cifar100": 100,
    "oxford_iiit_pet": 37,
    "resisc45": 45,
    "kitti": 4,
}
_AUGREG_NAME = re.compile(
    rf"(?P<model>{'|'.join(AUGREG_MODELS)})-(?P<data>i1k|i21k_30|i21k)-\d{{2,3}}ep-lr_\d\.\d+"
    r"-aug_(?:none|light[012]|medium[12]|strong[12])-wd_\d\.\d+-do_\d\.\d+-sd_\d\.\d+"
    r"(?:--(?P<tuned>imagenet2012|cifar100|oxford_iiit_pet|resisc45|kitti)"
    r"-steps_\d{1,2}k-lr_\d\.\d+-res_(?P<resolution>224|384))?"
)

# The recommended files: pre-trained on ImageNet-21k for 300 epochs, then fine-tuned. Accuracies
# from the README's table; B/8's from the output of vit_jax_augreg.ipynb.
_RECOMMENDED = (
    # model, augmentation and regularisation, fine-tuning, top-1
    ("L_16", "aug_strong1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 85.59),
    ("B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0", "lr_0.03-res_384", 85.49),
    ("S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 83.73),
    ("R50_L_32", "aug_medium1-wd_0.1-do_0.1-sd_0.1", "lr_0.01-res_384", 85.99),
    ("R26_S_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 83.85),
    ("Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 78.22),
    ("B_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 83.59),
    ("S_32", "aug_none-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 79.58),
    ("R_Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 75.40),
    ("B_8", "aug_medium2-wd_0.1-do_0.0-sd_0.0", "lr_0.03-res_224", 85.58),
)
_AUGREG_TOP1 = {
    f"{model}-i21k-300ep-lr_0.001-{settings}--imagenet2012-steps_20k-{tuning}": top1
    for model, settings, tuning, top1 in _RECOMMENDED
}

# Where a file is called as its model: directory, resolution, classes, the variant's suffix, files.
_PLAIN = (
    (
        "imagenet21k",
        (224, _IMAGENET21K, ""),
        (
            *("ViT-B_16", "ViT-B_32", "ViT-B_8", "ViT-L_16", "ViT-L_32", "ViT-H_14"),
            *("R50+ViT-B_16", "R26+ViT-B_32", "R50+ViT-L_32"),
        ),
    ),
    (
        "imagenet21k+imagenet2012",
        (384, _IMAGENET, ""),
        ("ViT-B_16", "ViT-B_32", "ViT-B_8", "ViT-L_16", "ViT-L_32", "R50+ViT-B_16"),
    ),
    ("sam", (224, _IMAGENET, ""), ("ViT-B_16", "ViT-B_32", "ViT-L_16", "ViT-L_32", "ViT-S_16")),
    ("gsam", (224, _IMAGENET, "-gap"), ("ViT-S_16", "ViT-S_32", "ViT-B_16", "ViT-B_32")),
)
# Fine-tuned once more, at 224 px: the README's changelog of 2020-10-29.
_AT_224 = (("ViT-B_16", 81.2), ("ViT-L_16", 82.7))

# BiT fine-tuned on images of 480 px, as `bit_hyperrule.py` has it; the accuracies at that size are
# what pytorch-image-models measured with these files (docs/models/big-transfer).
_BIT_TOP1 = {"R50x1": 80.19, "R50x3": 83.75, "R101x1": 82.21, "R101x3": 84.38, "R152x4": 84.95}
_BIT_FILES = (
    # directory, file, resolution, classes
    ("bit-s", "BiT-S-{}", 224, _IMAGENET),
    ("bit-m", "BiT-M-{}", 224, _IMAGENET21K),
    ("bit-m+imagenet2012", "BiT-M-{}-ILSVRC2012", 480, _IMAGENET),
)


def _plain() -> Iterator[PublishedWeights]:
    for directory, (image_size, classes, suffix), files in _PLAIN:
        for name in files:
            yield PublishedWeights(
                f"{directory}/{name}",
                name + suffix,
                f"{_VIT}{directory}/{name}.npz",
                image_size,
                classes,
                default=True,
                pooling="gap" if suffix else "token",
            )
    directory = "imagenet21k+imagenet2012"
    for model, top1 in _AT_224:
        name = f"{directory}/{model}-224"
        yield PublishedWeights(name, model, f"{_VIT}{name}.npz", 224, _IMAGENET, top1)


def _augreg() -> Iterator[PublishedWeights]:
    """The recommended files, and the pre-trained ones that they come from."""
    for name in _AUGREG_TOP1:
        yield augreg_weights(name)
        yield augreg_weights(name.partition("--")[0])


def _bit() -> Iterator[PublishedWeights]:
    for directory, pattern, image_size, classes in _BIT_FILES:
        for size, top1 in _BIT_TOP1.items():
            name = pattern.format(size)
            yield PublishedWeights(
                f"{directory}/{name}",
                f"BiT-{size}",
                f"{_BIT}{name}.npz",
                image_size,
                classes,
                top1 if directory == "bit-m+imagenet2012" else None,
                default=True,
                pooling="gap",
            )


PUBLISHED: tuple[PublishedWeights, ...] = tuple(
    sorted((*_plain(), *_augreg(), *_bit()), key=lambda entry: list(VARIANTS).index(entry.model))
)


def _listed(name: str) -> PublishedWeights | None:
    """A listed file of any variant."""
    by_name = {e.name: e for e in PUBLISHED} | {e.name.partition("/")[2]: e for e in PUBLISHED}
    return by_name.get(name)


def _none_such(model: str, weights: str, own: WeightsTable, other: PublishedWeights | None) -> str:
    """Why `weights` means nothing for `model`, and what would."""
    if other is not None:
        return f"{weights!r} is of {other.model}. Received: model={model!r}."
    if not own:
        return f"there are no published weights for {model}. Received: weights={weights!r}."
    message = f"there are no weights {weights!r} for {model}"
    others = [e.model for e in PUBLISHED if e.default and squeeze(e.directory) == squeeze(weights)]
    if others:
        has = ", ".join(dict.fromkeys(entry.directory for entry in own))
        return f"{message}, only for {', '.join(others)}; {model} has {has}."
    known = dict.fromkeys([e.directory for e in own] + [e.name for e in own])
    return f"{message}; {did_you_mean(weights, known)}"
