"""Folders of runs, and checkpoints: an `.npz` of all variables and of the step."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.kind import Files, Kind, one_file
from fuzzing.kinds._reading import LABELS, each_of, known_model, small_model
from fuzzing.mutations import arrays, text
from keras_vit import runs
from keras_vit._json import Table
from keras_vit._keras import keras
from keras_vit.cli.fit import _begun_with
from keras_vit.data import Source, Split
from keras_vit.deploy.bundle.export_report import table_record, table_row
from keras_vit.evaluation.results_page import read_results
from keras_vit.training import RECIPES, trials
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.resuming import check_resumable, stopped_run
from keras_vit.training.settings import plain

_RECIPE = RECIPES["digits"]
_SOURCE = Source(
    name="pictures",
    labels=LABELS,
    ids=tuple(f"{i}.png" for i in range(12)),
    targets=np.arange(12) % 3,
    image=lambda i: np.zeros((8, 8, 3), np.uint8),
)


def _run(home: Path) -> list[Files]:
    settings = {
        "model": "ViT-Ti_16", "weights": None, "teacher": None, "preset": "digits",
        "recipe": plain(dataclasses.asdict(_RECIPE)), "versions": {"keras_vit": "0.1.0"},
    }  # fmt: skip
    split = Split(np.arange(9), np.arange(9, 12), "the last three")
    runs.create_run(home / "run", small_model(), _SOURCE, split, settings, "fresh", overwrite=True)
    files = {path.name: path.read_bytes() for path in (home / "run").iterdir()}
    record = {"epoch": 1, "step": 3, "seconds": 1.5, "loss": 0.5, "accuracy": 0.75, "lr": 0.001}
    result = {"format": 1, "settings": {"model": "ViT"}, "result": {"curve": [record]}}
    row = table_row({"precision": "int8", "images": 3}, name="int8", bytes=9, sha256="0" * 64)
    files["metrics.jsonl"] = "".join(f"{json.dumps(record)}\n" for _ in range(3)).encode()
    files["result.json"] = json.dumps(result).encode()
    files["checkpoints/step-000000003.npz"] = b""  # only its name is looked at
    files["export/table.json"] = json.dumps(table_record([row], {}, 1)).encode()
    return [files]


def _read_run(folder: Path, home: Path) -> None:
    def whole() -> None:
        run = runs.open_run(folder)
        each_of(
            lambda: str(run), run.model, lambda: run.split(_SOURCE), lambda: run.images(_SOURCE),
            lambda: run.check_targets(_SOURCE), run.metrics, lambda: run.training_images,
            lambda: run.may_weight_classes, lambda: run.setting("ema"),
        )  # fmt: skip

    each_of(
        whole,
        lambda: check_resumable(folder, _RECIPE, None, None),
        lambda: stopped_run(folder, _SOURCE, _RECIPE, known_model(), None),
        lambda: _begun_with({"resume": True, "out": folder}),
        lambda: read_results(folder / "export" / "table.json", Table),
        lambda: trials._stored(folder),
        lambda: runs.list_runs(folder.parent),
        lambda: runs.rewind(runs.open_run(folder), 2, {}),  # the last: it writes
    )


RUN = Kind(
    512 << 20,  # as of a .npz: its weights are one
    _run,
    one_file(
        {".json": text.json_value, ".jsonl": text.lines, ".txt": text.lines, ".npz": arrays.npz}
    ),
    _read_run,
)


@functools.cache
def _learner() -> Any:
    learner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    learner.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    learner.optimizer.build(learner.trainable_variables)
    return learner


def _checkpoint(home: Path) -> list[Files]:
    checkpoints = Checkpoints(home, _learner())
    checkpoints.save(3)
    checkpoints.save(6)
    return [{path.name: path.read_bytes() for path in checkpoints.saved()}]


def _read_checkpoint(folder: Path, home: Path) -> None:
    checkpoints = Checkpoints(folder, _learner())
    checkpoints.newest_step()
    checkpoints.restore()


CHECKPOINT = Kind(64 << 20, _checkpoint, one_file({".npz": arrays.npz}), _read_checkpoint)
