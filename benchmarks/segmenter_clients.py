"""Runs the files of segmenters in MediaPipe's ImageSegmenter, and compares the class of each pixel.

Each version of MediaPipe in `clients.py` receives held-out pictures of the runs as they are, and
made larger or smaller to drawn sizes, and resizes them itself. Its classes are compared with those
that `keras_vit.data.mediapipe` predicts from the file's scores. Equal scores are rounded otherwise
by each program, so a class may differ where two scores do by less than golden.json allows; the
table has the number of such pixels, and the largest amount by which the score of MediaPipe's class
is below the highest one.

The exit code is 3 if MediaPipe refuses a file, or a score is below by more.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from clients import MEDIAPIPE, QUANTIZE
from environments import FOLDER, check_python, installed
from PIL import Image

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.data import mediapipe
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.clients import CLIENTS
from keras_vit.deploy.judge.client_verdict import as_resized_by, mask_difference, run_in_client
from keras_vit.deploy.sample_images import to_pixels
from keras_vit.deploy.trained_model import TrainedModel, of_run
from keras_vit.runs import newest_run
from keras_vit.tflite.runner import Runner

CLIENT = CLIENTS["mediapipe"]
TITLE = CLIENT.tasks["segmentation"].title
_SHORTEST, _LONGEST = 2, 800  # sides of pictures that are drawn


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: tuple[Path, ...] = ()
    """The run folders to export; default: the newest under runs/."""
    images: int = 40
    """The largest number of held-out pictures of each run; as many have drawn sizes."""
    environments: Path = FOLDER
    """The folder where clients are installed; installed clients are reused."""
    python: str = sys.executable
    """The Python to install them for, 3.9 to 3.11."""


def main(arguments: Arguments) -> None:
    check_python(arguments.python)
    pythons, wrong, rows = {}, [], []
    for client in MEDIAPIPE:
        python = installed(client.environment, arguments.environments, arguments.python)
        if python is None:
            wrong.append(f"{client.name} could not be installed")
        else:
            pythons[client.name] = python
    for folder in arguments.run or [newest_run()]:
        trained = of_run(folder)
        pictures = list(trained.pictures(arguments.images))
        pictures += list(_of_drawn_sizes(pictures))
        for bundle in _bundles(trained, wrong):
            found = _compared(bundle, trained, pictures, pythons, wrong)
            rows += [[trained.folder.name, bundle.name, *row] for row in found]
    header = ["run", "file", "client", "pictures", "pixels", "other class", "below", "allowed"]
    print(table(header, rows))
    if wrong:
        raise RefusedError("\n".join(wrong))


def _of_drawn_sizes(pictures: list[np.ndarray]) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for picture in pictures:
        size = rng.integers(_SHORTEST, _LONGEST, 2, endpoint=True)
        yield np.asarray(Image.fromarray(picture).resize((int(size[0]), int(size[1]))))


def _bundles(trained: TrainedModel, wrong: list[str]) -> Iterator[Path]:
    """The bundles of a run, one after the other; what is refused is added to a list."""
    with tempfile.TemporaryDirectory() as exported:
        print("exporting", trained.folder, ", ".join(QUANTIZE), flush=True)
        bundles = deploy.export_bundles(trained, exported, QUANTIZE, client=CLIENT.name, threads=())
        wrong += [f"{trained.folder}, {name}: {why}" for name, why in bundles.refused.items()]
        yield from (Path(exported) / name for name in bundles.written)


def _compared(
    bundle: Path,
    trained: TrainedModel,
    pictures: list[np.ndarray],
    pythons: dict[str, str],
    wrong: list[str],
) -> Iterator[list[str]]:
    """A row of the table for each version; what is wrong is added to a list."""
    file, tolerance = bundle / "model.tflite", read_golden(bundle)[1]
    runner, changed = Runner(file), as_resized_by(CLIENT, trained.preprocessing)
    inputs = keras_vit.preprocess(pictures, changed)
    takes_pixels = runner.input["dtype"] == np.uint8
    scores = runner.predict(to_pixels(inputs, changed) if takes_pixels else inputs)
    pixels = sum(picture.shape[0] * picture.shape[1] for picture in pictures)
    for name, python in pythons.items():
        print(f"{trained.folder.name}, {bundle.name} in {name}", flush=True)
        try:
            answer = run_in_client(CLIENT, file, pictures, python, "segmentation")
            masks = answer["masks"]
            difference, changed = mask_difference(TITLE, scores, masks)
        except RefusedError as error:
            wrong.append(f"{trained.folder}, {bundle.name}: {error}")
            continue
        for found, allowed in ((difference, tolerance.scores), (changed, tolerance.pixels)):
            if not found <= allowed:
                wrong.append(f"{trained.folder}, {bundle.name}: {found:.3g} > {allowed:.3g}")
        others = sum(
            int((mediapipe.resized_scores(each, mask.shape).argmax(-1) != mask).sum())
            for each, mask in zip(scores, masks, strict=True)
        )
        figures = f"{len(pictures)}", f"{pixels:,}", f"{others:,}"
        yield [name, *figures, f"{difference:.1e}", f"{tolerance.scores:.1e}"]


if __name__ == "__main__":
    run(main, Arguments)
