"""AugReg's index of 52,268 files: finds the best file for a variant, a data set and a resolution.

Source: Steiner et al. 2021 ("How to train your ViT?"). `get_augreg_df` in `vit_jax/checkpoint.py`
of google-research/vision_transformer has the same columns.

>>> from keras_vit.weights import augreg, fetch
>>> rows = augreg.read_index(fetch(augreg.INDEX_URL))
>>> best = augreg.best(rows, "S/16", "imagenet2012", image_size=224)
>>> best.model, best.image_size
('ViT-S_16', 224)
"""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from keras_vit._errors import UsageError
from keras_vit.variant_specs import find_variant
from keras_vit.weights.google_files import AUGREG_MODELS, augreg_weights
from keras_vit.weights.published_weights import PublishedWeights

INDEX_URL = "https://storage.googleapis.com/vit_models/augreg/index.csv"


@dataclasses.dataclass(frozen=True)
class IndexRow:
    """A fine-tuned file and the pre-trained file that it was made from; empty cells are None.

    Accuracies are fractions. If a data set has no official test set (ImageNet), "val" is a part of
    the training set, and "test" is the official validation set.

    Attributes:
        name: the model, as the paper writes it: "B/16", "R50+L/32".
        ds, epochs, lr: pre-training: data set ("i1k", "i21k" or "i21k_30"), length, learning rate.
        aug, wd, do, sd: augmentation, weight decay, dropout and stochastic depth.
        best_val, final_val, final_test: accuracies in pre-training.
        adapt_ds, adapt_lr, adapt_steps, adapt_resolution: fine-tuning: data set, learning rate,
            steps, image size in pixels.
        adapt_final_val, adapt_final_test: accuracies after fine-tuning.
        params: the number of parameters.
        infer_samples_per_sec: images per second on a V100.
        filename, adapt_filename: the pre-trained and the fine-tuned file, without ".npz".
    """

    name: str
    ds: str
    epochs: int | None
    lr: float | None
    aug: str
    wd: float | None
    do: float | None
    sd: float | None
    best_val: float | None
    final_val: float | None
    final_test: float | None
    adapt_ds: str
    adapt_lr: float | None
    adapt_steps: int | None
    adapt_resolution: int | None
    adapt_final_val: float | None
    adapt_final_test: float | None
    params: int | None
    infer_samples_per_sec: float | None
    filename: str
    adapt_filename: str


def read_index(path: str | os.PathLike) -> list[IndexRow]:
    """The rows of AugReg's index.csv; unknown columns are ignored.

    Raises:
        UsageError: the file is absent or not CSV, a column is missing, or a cell is not a number.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            lines.fieldnames = [cell.strip() for cell in lines.fieldnames or ()]
            names = [field.name for field in dataclasses.fields(IndexRow)]
            missing = [name for name in names if name not in lines.fieldnames]
            if missing:
                raise UsageError(f"{path} is not an AugReg index: it lacks {', '.join(missing)}.")
            return [_row(path, lines.line_num, cells) for cells in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not a CSV file"
        raise UsageError(f"{path} cannot be read: {problem}.") from None


def best(
    rows: Iterable[IndexRow],
    model: str,
    dataset: str = "imagenet2012",
    image_size: int | None = None,
    by: Literal["adapt_final_val", "final_val"] = "adapt_final_val",
) -> PublishedWeights:
    """The best fine-tuned file by validation accuracy, never by test accuracy.

    Args:
        rows: the rows of `read_index`.
        model: a variant's name, "ViT-S_16" or, as in the paper, "S/16".
        dataset: "imagenet2012", "cifar100", "oxford_iiit_pet", "resisc45" or "kitti".
        image_size: 224, 384 or None for either.
        by: "adapt_final_val" returns the file with the highest accuracy after fine-tuning.
            "final_val" uses the paper's cheaper rule (section 4.5), by which the recommended files
            were chosen: the file that is best in pre-training on ImageNet-21k for 300 epochs, then
            its best fine-tuned file.

    Raises:
        UsageError: there is no such variant, or no row for these arguments.
    """
    model = find_variant(model)
    candidates = [r for r in rows if _NAMES.get(r.name) == model and r.adapt_final_val is not None]
    if by == "final_val":
        candidates = [r for r in candidates if r.ds == "i21k" and r.final_val is not None]
        pretrained = max(candidates, key=lambda r: r.final_val, default=None)
        candidates = [r for r in candidates if r.filename == pretrained.filename]
    elif by != "adapt_final_val":
        raise UsageError(f"by must be adapt_final_val or final_val. Received: by={by!r}.")
    matches = [
        r for r in candidates if r.adapt_ds == dataset and image_size in (None, r.adapt_resolution)
    ]
    if not matches:
        available = sorted({f"{r.adapt_ds} at {r.adapt_resolution}" for r in candidates})
        raise UsageError(
            f"the index has no {model} for {dataset}{f' at {image_size}' if image_size else ''}; "
            f"it has {', '.join(available) or 'no row for this model'}."
        )
    row = max(matches, key=lambda r: r.adapt_final_val)
    entry = augreg_weights(row.adapt_filename)
    if entry is None or entry.model != model:
        raise UsageError(f"the index names a file that is not for {model}: {row.adapt_filename!r}.")
    measured = dataset == "imagenet2012" and row.adapt_final_test is not None
    return dataclasses.replace(entry, top1=100 * row.adapt_final_test if measured else None)


# "R50_L_32" in file names is "R50+L/32" in the index and "R50+ViT-L_32" in the table of variants.
_NAMES = {model.replace("ViT-", "").replace("_", "/"): model for model in AUGREG_MODELS.values()}


def _row(path: Path, line: int, cells: dict[str, str | None]) -> IndexRow:
    values = {}
    for field in dataclasses.fields(IndexRow):
        name, cell = field.name, cells[field.name]
        if cell is None:
            raise UsageError(f"{path}, line {line}: the row ends before {name}.")
        try:
            values[name] = _value(cell.strip(), field.type)
        except (ValueError, OverflowError):
            raise UsageError(
                f"{path}, line {line}: {name} must be a number. Received: {cell!r}."
            ) from None
    return IndexRow(**values)


def _value(cell: str, kind: str) -> str | float | None:
    if kind == "str":
        return cell
    if cell.lower() in ("", "nan"):
        return None
    value = float(cell)  # pandas writes integers as 300.0 if the column has empty cells
    whole = int(value)  # raises errors for infinity and other spellings of NaN
    if kind == "float | None":
        return value
    if whole != value:
        raise ValueError
    return whole
