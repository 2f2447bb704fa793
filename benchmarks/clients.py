"""Runs a run's files in clients that know a file only by its TFLite Metadata.

Each version of MediaPipe is installed from PyPI in its own environment; its ImageClassifier
receives held-out pictures, first resized as in training, which shows whether it normalises and runs
as LiteRT does, then as they are, which shows what its own resize costs: it does not smooth pictures
that it makes smaller. "accuracy" is that of LiteRT with our resize. The exit code is 3 if a client
refuses a file, or if the probabilities of equal pixels differ by more than golden.json allows.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from environments import FOLDER, Environment, check_python, installed

import keras_vit
from keras_vit import _files, deploy, runs
from keras_vit._errors import RefusedError
from keras_vit.cli._options import newest_run
from keras_vit.cli._printing import table
from keras_vit.cli._program import run

QUANTIZE = ("none", "float16", "dynamic", "int8")
CLIENTS = (
    Environment("MediaPipe 0.10.21", ("mediapipe==0.10.21", "numpy<2")),
    Environment("MediaPipe 1.2.2", ("mediapipe==1.2.2",)),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder to export; default: the newest under runs/."""
    images: int = 359
    """The largest number of held-out pictures."""
    environments: Path = FOLDER
    """The folder where clients are installed; installed clients are reused."""
    python: str = sys.executable
    """The Python to install them for, 3.9 to 3.11."""


def main(arguments: Arguments) -> None:
    check_python(arguments.python)
    pythons = {
        client.name: installed(client, arguments.environments, arguments.python)
        for client in CLIENTS
    }
    opened = runs.open_run(arguments.run or newest_run())
    with tempfile.TemporaryDirectory() as folder:
        pictures, classes = _pictures(opened, arguments.images, Path(folder))
        print("exporting", ", ".join(QUANTIZE), flush=True)
        deploy.export_bundles(
            opened, Path(folder) / "bundles", QUANTIZE, output="probabilities", threads=()
        )
        bundles = sorted((Path(folder) / "bundles").glob("*/golden.json"))
        rows, wrong = (
            [],
            [f"{name} could not be installed" for name in pythons if not pythons[name]],
        )
        for golden in bundles:
            for name, python in pythons.items():
                if python is not None:
                    rows.append(_row(golden.parent, name, python, pictures, classes, wrong))
    header = ["precision", "client", "tolerance", "difference", "accuracy", "with its resize"]
    print(f"\n{len(classes)} held-out pictures\n\n{table(header, rows)}")
    if wrong:
        raise RefusedError("\n".join(wrong))


def _pictures(opened: runs.Run, count: int, folder: Path) -> tuple[Path, np.ndarray]:
    """A file of held-out pictures, resized and as they are, and their classes."""
    source = opened.source()
    indices = opened.split(source).held_out
    indices = indices[np.linspace(0, len(indices) - 1, min(count, len(indices))).astype(int)]
    size = opened.model().preprocessing
    unscaled = dataclasses.replace(size, mean=0.0, scale=1.0)
    whole = [source.image(int(i)) for i in indices]
    sized = np.concatenate([keras_vit.preprocess(picture, unscaled) for picture in whole])
    path = folder / "pictures.npz"
    np.savez(path, sized=sized.astype(np.uint8), **{str(i): p for i, p in enumerate(whole)})
    return path, np.asarray(source.targets)[indices]


def _row(
    bundle: Path, name: str, python: str, pictures: Path, classes: np.ndarray, wrong: list[str]
) -> list[str]:
    """What a client says of a file; what is wrong is added to a list."""
    golden = _files.read_json(bundle / "golden.json", format=1, fields=("tolerance",))
    tolerance = golden["tolerance"]["scores"]
    with np.load(pictures) as file:
        opened = deploy.open_bundle(bundle)
        expected = opened.predict(keras_vit.preprocess(file["sized"], opened))
    cells = [bundle.name, name, f"{tolerance:.1e}"]
    accuracy = f"{(expected.argmax(1) == classes).mean():.1%}"
    program = Path(__file__).with_name("mediapipe_runner.py")
    done = subprocess.run(
        [python, program, bundle / "model.tflite", pictures], capture_output=True, text=True
    )
    answer = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"refused": done.stderr}
    if "refused" in answer:
        wrong.append(f"{bundle.name} in {name}: {answer['refused'][-300:]}")
        return [*cells, "refused", accuracy, "-"]
    sized, whole = (np.asarray(answer[kind]) for kind in ("sized", "whole"))
    difference = float(np.abs(sized - expected).max())
    if difference > tolerance:
        wrong.append(f"{bundle.name} in {name}: differs by {difference:.3g}, over {tolerance:.3g}")
    resized = f"{(whole.argmax(1) == classes).mean():.1%}"
    return [*cells, f"{difference:.1e}", accuracy, resized]


if __name__ == "__main__":
    run(main, Arguments)
