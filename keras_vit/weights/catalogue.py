"""The published weights of each variant, and the default file in each directory.

Sources: the README, the changelog, `vit_jax/configs/models.py` and `vit_jax_augreg.ipynb` of
google-research/vision_transformer; the README and `bit_hyperrule.py` of google-research/
big_transfer (both Apache-2.0, like the files). Accuracies are ImageNet-1k validation top-1 as
published there for the same file; files without a published accuracy have None.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from keras_vit._errors import UsageError, did_you_mean, squeeze
from keras_vit.specs import Preprocessing
from keras_vit.variant_specs import VARIANTS, find_variant

_VIT = "https://storage.googleapis.com/vit_models/"
_BIT = "https://storage.googleapis.com/bit_models/"


@dataclasses.dataclass(frozen=True)
class PublishedWeights:
    """One published file.

    Attributes:
        name: "DIRECTORY/NAME", without ".npz".
        model: the variant's name in the table of variants.
        url: its address.
        image_size: side of the images in pixels for which its position table was trained.
        num_classes: number of classes of its head.
        top1: published ImageNet-1k top-1 accuracy in percent; None if none is published or the
            head is for another data set.
        default: whether `weights="DIRECTORY"` means this file for this variant.
        licence: SPDX name.
        crop, interpolation, mean, scale: as in `Preprocessing`.
        sha256: the file's hash in hexadecimal, checked after the download; None if unknown.
    """

    name: str
    model: str
    url: str
    image_size: int
    num_classes: int
    top1: float | None = None
    default: bool = False
    licence: str = "Apache-2.0"
    crop: float | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    mean: float = 127.5
    scale: float = 127.5
    sha256: str | None = None

    @property
    def directory(self) -> str:
        """The published directory, which is also a short name for `weights="..."`."""
        return self.name.partition("/")[0]

    @property
    def pooling(self) -> Literal["token", "gap"]:
        """ "gap" where the variant has no class token."""
        return getattr(VARIANTS[self.model], "pooling", "gap")

    @property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing that these weights expect."""
        side = self.image_size
        return Preprocessing(side, side, self.crop, self.interpolation, self.mean, self.scale)


# The columns of the table: the side to which cells are aligned, and the cell of a file.
_COLUMNS: dict[str, tuple[str, Callable[[PublishedWeights], object]]] = {
    "model": ("<", lambda entry: entry.model),
    "weights": ("<", lambda entry: entry.name),
    "resolution": (">", lambda entry: entry.image_size),
    "classes": (">", lambda entry: entry.num_classes),
    "top-1": (">", lambda entry: "" if entry.top1 is None else f"{entry.top1:.2f}"),
    "licence": ("<", lambda entry: entry.licence),
    "default of": ("<", lambda entry: entry.directory if entry.default else ""),
}


class WeightsTable(tuple):
    """Published weights that print as a table, in a terminal and in a notebook."""

    def __repr__(self) -> str:
        rows = [tuple(_COLUMNS), *self._cells()]
        widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        columns = zip(_COLUMNS.values(), widths, strict=True)
        line = "  ".join(f"{{:{side}{width}}}" for (side, _), width in columns)
        return "\n".join(line.format(*row).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "".join(row(cells, "td") for cells in self._cells())
        return f"<table><thead>{row(tuple(_COLUMNS), 'th')}</thead><tbody>{body}</tbody></table>"

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(str(cell(entry)) for _, cell in _COLUMNS.values()) for entry in self]


def list_weights(model: str | None = None) -> WeightsTable:
    """The published weights of one variant or of all, as a tuple that prints as a table.

    >>> [entry.name for entry in keras_vit.list_weights("ViT-L_32")][:2]
    ['imagenet21k/ViT-L_32', 'imagenet21k+imagenet2012/ViT-L_32']

    Of the 52,268 files in AugReg's directory, only the recommended ones are listed. All others can
    be loaded by their full names (`keras_vit.weights.augreg` reads AugReg's index).

    Raises:
        UsageError: there is no such variant.
    """
    if model is None:
        return WeightsTable(PUBLISHED)
    model = find_variant(model)
    return WeightsTable(entry for entry in PUBLISHED if entry.model == model)


def find_weights(model: str, weights: str) -> PublishedWeights:
    """Finds the published file of a variant by name.

    Args:
        model: a variant's name in any spelling.
        weights: a directory ("imagenet21k", "imagenet21k+imagenet2012", "augreg", "sam", "gsam",
            "bit-s", "bit-m", "bit-m+imagenet2012"), for the variant's default file in it; or the
            name of a file, with or without its directory and ".npz". Names that follow AugReg's
            pattern need not be listed.

    Raises:
        UsageError: there is no such variant, it has no such weights, or several directories have
            a file with this name; the message lists the choices.
    """
    model = find_variant(model)
    available = list_weights(model)
    name = weights.removesuffix(".npz")
    by_directory = [e for e in available if e.default and squeeze(e.directory) == squeeze(name)]
    matches = by_directory or _called(name, available)
    if len(matches) > 1:
        raise UsageError(
            f"{weights!r} is in several directories; "
            f"choose one of {', '.join(entry.name for entry in matches)}."
        )
    candidates = [*matches, augreg_weights(name), *reversed(_called(name, PUBLISHED))]
    entry = next(filter(None, candidates), None)
    if entry is None or entry.model != model:
        raise UsageError(_reason(model, weights, available, entry))
    return entry


def augreg_weights(name: str) -> PublishedWeights | None:
    """The file with a name in AugReg's pattern; None for other names.

    The pattern is `MODEL-DATA-EPOCHSep-lr_X-aug_X-wd_X-do_X-sd_X` for a pre-trained file, followed
    by `--DATA-steps_X-lr_X-res_X` for a fine-tuned one (Steiner et al. 2021).
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
        num_classes=_TUNED[tuned] if tuned else _CLASSES[match["data"]],
        top1=_AUGREG_TOP1.get(name),
        default=name in _AUGREG_TOP1,
        # Pre-trained files were evaluated on the centre 224 of 256 pixels (big_vision's
        # vit_i21k.py). The official fine-tuning code stretches images, as for all other files here
        # (vit_jax/input_pipeline.py).
        crop=None if tuned else 0.875,
    )


# The models in the names of AugReg's files, and their variants.
AUGREG_MODELS = {
    **{name: f"ViT-{name}" for name in ("Ti_16", "S_32", "S_16", "B_32", "B_16", "B_8", "L_16")},
    "R_Ti_16": "R+ViT-Ti_16",
    "R26_S_32": "R26+ViT-S_32",
    "R50_L_32": "R50+ViT-L_32",
}
# Numbers of classes: of the data for pre-training, and of those for fine-tuning. kitti has four
# classes for the distance of the closest vehicle (VTAB).
_CLASSES = {"i1k": 1000, "i21k": 21843, "i21k_30": 21843}
_TUNED = {"imagenet2012": 1000, "cifar100": 100, "oxford_iiit_pet": 37, "resisc45": 45, "kitti": 4}
_AUGREG_NAME = re.compile(
    rf"(?P<model>{'|'.join(AUGREG_MODELS)})-(?P<data>{'|'.join(_CLASSES)})-\d{{2,3}}ep-lr_\d\.\d+"
    r"-aug_(?:none|light[012]|medium[12]|strong[12])-wd_\d\.\d+-do_\d\.\d+-sd_\d\.\d+"
    rf"(?:--(?P<tuned>{'|'.join(_TUNED)})-steps_\d{{1,2}}k-lr_\d\.\d+-res_(?P<resolution>224|384))?"
)

# The recommended files: pre-trained on ImageNet-21k for 300 epochs, then fine-tuned. Accuracies
# are from the README's table, and for B/8 from the output of vit_jax_augreg.ipynb.
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


_BIT_MODELS = "R50x1 R50x3 R101x1 R101x3 R152x4"
# The names of files and of their variants, resolution, classes, and what {} stands for.
_FILES = (
    ("imagenet21k/{}", "{}", 224, 21843, "ViT-B_8 ViT-B_16 ViT-B_32 ViT-L_16 ViT-L_32 ViT-H_14"),
    ("imagenet21k/{}", "{}", 224, 21843, "R26+ViT-B_32 R50+ViT-B_16 R50+ViT-L_32"),
    ("imagenet21k+imagenet2012/{}", "{}", 384, 1000, "ViT-B_8 ViT-B_16 ViT-B_32 ViT-L_16"),
    ("imagenet21k+imagenet2012/{}", "{}", 384, 1000, "ViT-L_32 R50+ViT-B_16"),
    ("sam/{}", "{}", 224, 1000, "ViT-S_16 ViT-B_16 ViT-B_32 ViT-L_16 ViT-L_32"),
    ("gsam/{}", "{}-gap", 224, 1000, "ViT-S_16 ViT-S_32 ViT-B_16 ViT-B_32"),
    # Fine-tuned again at 224 px; see the README's changelog of 2020-10-29.
    ("imagenet21k+imagenet2012/{}-224", "{}", 224, 1000, "ViT-B_16 ViT-L_16"),
    ("bit-s/BiT-S-{}", "BiT-{}", 224, 1000, _BIT_MODELS),
    ("bit-m/BiT-M-{}", "BiT-{}", 224, 21843, _BIT_MODELS),
    # Fine-tuned on images of 480 px (`bit_hyperrule.py`).
    ("bit-m+imagenet2012/BiT-M-{}-ILSVRC2012", "BiT-{}", 480, 1000, _BIT_MODELS),
)
_TOP1 = {
    "imagenet21k+imagenet2012/ViT-B_16-224": 81.2,
    "imagenet21k+imagenet2012/ViT-L_16-224": 82.7,
    # Measured at 480 px by pytorch-image-models with these files (docs/models/big-transfer).
    "bit-m+imagenet2012/BiT-M-R50x1-ILSVRC2012": 80.19,
    "bit-m+imagenet2012/BiT-M-R50x3-ILSVRC2012": 83.75,
    "bit-m+imagenet2012/BiT-M-R101x1-ILSVRC2012": 82.21,
    "bit-m+imagenet2012/BiT-M-R101x3-ILSVRC2012": 84.38,
    "bit-m+imagenet2012/BiT-M-R152x4-ILSVRC2012": 84.95,
}
# Google publishes no hashes. A sha256 is given here if independent public copies of a file have the
# same hash. R50+ViT-B_16 (461,217,452 bytes): huggingface.co/ccf92/ViT_Classification_Model and
# copies of TransUNet's users. ViT-B_16 at 384 px (347,502,902 bytes): the same
# sources and github.com/KevinG273/ViT.
_SHA256 = {
    "imagenet21k/R50+ViT-B_16": "ff009bf39bb4f9198b834cfe46aba2bfdaf730e933ab3e3c4b1edf4226eaafbe",
    "imagenet21k+imagenet2012/ViT-B_16": (
        "19d3f569702e80c3a19101c8a3bde16b34f0c475ce565e999cb96068a580fdbf"
    ),
}


def _files() -> Iterator[PublishedWeights]:
    for name_template, model_template, image_size, num_classes, stems in _FILES:
        for stem in stems.split():
            name, model = name_template.format(stem), model_template.format(stem)
            # BiT's files are at the top of their bucket, without a directory.
            url = _BIT + name.partition("/")[2] if model.startswith("BiT") else _VIT + name
            yield PublishedWeights(
                name,
                model,
                f"{url}.npz",
                image_size,
                num_classes,
                top1=_TOP1.get(name),
                default=not name.endswith("-224"),
                sha256=_SHA256.get(name),
            )


# AugReg's recommended files, each followed by the pre-trained file that it was made from.
_AUGREG = tuple(
    entry for name in _AUGREG_TOP1 for entry in map(augreg_weights, (name, name.partition("--")[0]))
)
PUBLISHED: tuple[PublishedWeights, ...] = tuple(
    sorted((*_files(), *_AUGREG), key=lambda entry: list(VARIANTS).index(entry.model))
)


def _called(name: str, entries: Iterable[PublishedWeights]) -> list[PublishedWeights]:
    """The files with this name, with or without its directory."""
    return [entry for entry in entries if name in (entry.name, entry.name.partition("/")[2])]


def _reason(
    model: str, weights: str, available: WeightsTable, other: PublishedWeights | None
) -> str:
    """The reason why `weights` is not a file for `model`, and the names to choose from."""
    if other is not None:
        return f"{weights!r} is for {other.model}. Received: model={model!r}."
    if not available:
        return f"there are no published weights for {model}. Received: weights={weights!r}."
    message = f"there are no weights {weights!r} for {model}"
    others = [e.model for e in PUBLISHED if e.default and squeeze(e.directory) == squeeze(weights)]
    if others:
        directories = ", ".join(dict.fromkeys(entry.directory for entry in available))
        return f"{message}, only for {', '.join(others)}; {model} has {directories}."
    known = dict.fromkeys([e.directory for e in available] + [e.name for e in available])
    return f"{message}; {did_you_mean(weights, known)}"
