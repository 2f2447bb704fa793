"""The tasks of VTAB-1k as sources: `vtab:clevr-count`."""

from __future__ import annotations

import dataclasses

from keras_vit._errors import UsageError, did_you_mean
from keras_vit.data.records import Keys, record_source
from keras_vit.data.source import Source
from keras_vit.data.tfds import check_prepared, pieces_of, prepared
from keras_vit.data.vtab_tasks import DERIVED, VTAB, VtabTask

_TRAIN, _VALIDATION = 800, 200  # images


def vtab(name: str) -> Source:
    """Opens a task of VTAB-1k: 800 images for training, 200 for validation, and the test images.

    Args:
        name: a name in `VTAB`.

    Raises:
        UsageError: there is no such task, or its data set is not in TFDS' folder, see `tfds`.
        MissingPackageError: tensorflow-datasets is not installed.
    """
    task = _task(name)
    builder = prepared(task.data)
    sizes = {split: info.num_examples for split, info in builder.info.splits.items()}
    parts = pieces_of(builder, task.data, _splits(task, sizes))
    if task.label:
        keys, labels = Keys("image", task.label), builder.info.features[task.label].names
    else:
        keys, labels = Keys("image", "", derived=name), DERIVED[name].names
    source = record_source(name, f"vtab:{name}", parts, keys, labels)
    if task.levels == 1:
        return source
    return dataclasses.replace(source, image=lambda i: source.image(i) * task.levels)


def check_vtab(name: str) -> None:
    """Raises a `UsageError` if there is no such task, or its data set is not prepared."""
    check_prepared(_task(name).data)


def _task(name: str) -> VtabTask:
    if name not in VTAB:
        raise UsageError(f"VTAB has no task {name!r}; {did_you_mean(name, VTAB)}")
    return VTAB[name]


def _splits(task: VtabTask, sizes: dict[str, int]) -> dict[str, str]:
    """The splits in TFDS' notation, from the numbers of examples of TFDS' splits."""

    def start(split: str, percent: int) -> int:
        # VTAB rounds down, where TFDS' own percentages round to the nearest.
        return sizes.get(split, 0) * percent // 100

    first = start(*task.validation)
    return {
        "train": f"train[:{_TRAIN}]",
        "validation": f"{task.validation[0]}[{first}:{first + _VALIDATION}]",
        "test": f"{task.test[0]}[{start(*task.test)}:]",
    }
