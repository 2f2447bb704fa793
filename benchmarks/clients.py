"""Runs the files of runs in clients that know a file only by itself, and compares their scores.

A classifier from a list of words, with its ten photographs, is among them.
Each client is a row of `CLIENTS`. Those of PyPI are installed in their own environments; those in
browsers need Node.js, Chromium and `npm ci --prefix web_demo`. A client receives held-out images
with equal pixels, which shows whether it normalises and runs as LiteRT does here: the first table
has the largest difference of a probability, below the tolerance of golden.json. Slow clients
receive fewer images. The second table has accuracies. A client that resizes pictures itself also
receives them as they are: "own" is the accuracy with its resize, and "predicted" is what an export
with `--client` says of it, computed by `keras_vit.data.mediapipe`.

The exit code is 3 if a client refuses a file that it should run, if probabilities of equal pixels
differ by more than golden.json allows, or if an accuracy was not predicted. A client that is not
installed is no failure.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from environments import FOLDER, Environment, check_python, installed

import keras_vit
from keras_vit import _files, deploy, runs
from keras_vit._errors import RefusedError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.data.images import read_picture
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.clients import CLIENTS as KNOWN
from keras_vit.runs import newest_run
from keras_vit.tflite.client_process import run_runner
from keras_vit.tflite.runtimes import runs as supports

HERE = Path(__file__).parent
_WORDS = HERE.parent / "android_demo/testing/words/cifar10-words"
QUANTIZE = ("none", "float16", "dynamic", "int8")
# An accuracy is predicted if it differs by less than this many images.
_IMAGES = 2
_LITERT = version("ai-edge-litert")
_PACKAGE = json.loads((HERE.parent / "web_demo" / "package.json").read_text())
_LITERT_JS = f"LiteRT.js {_PACKAGE['dependencies']['@litertjs/core']}"
_TASKS_VISION = _PACKAGE["devDependencies"]["@mediapipe/tasks-vision"]


@dataclasses.dataclass(frozen=True)
class Client:
    """A row of the table.

    Attributes:
        name: its name in the table.
        command: starts its runner, see `tflite/client_process.py`; "{python}" is the Python of its
            environment.
        environment: what pip installs for it; None for the environment of this program.
        runtime: the newest `runtime_floor` of files that it must run; None if it must run all.
        resizes: whether its cases are pictures, which it resizes and normalises; otherwise they are
            inputs of the file.
        most: the largest number of images that it receives; None if it receives all.
    """

    name: str
    command: tuple[str | Path, ...]
    environment: Environment | None = None
    runtime: str | None = None
    resizes: bool = False
    most: int | None = None


def _mediapipe(release: str, *packages: str, runtime: str | None = None) -> Client:
    name = f"MediaPipe {release}"
    return Client(
        name,
        ("{python}", KNOWN["mediapipe"].tasks["classification"].program),
        Environment(name, (f"mediapipe=={release}", *packages)),
        runtime,
        resizes=True,
    )


MEDIAPIPE = (_mediapipe("0.10.21", "numpy<2", runtime="2.17.0"), _mediapipe("1.2.2"))
CLIENTS = (
    *MEDIAPIPE,
    Client(
        "tflite-runtime 2.14",
        ("{python}", HERE / "litert_runner.py"),
        Environment("2.14.0", ("tflite-runtime==2.14.0", "numpy<2")),
        "2.14.0",
    ),
    Client(f"LiteRT {_LITERT}", ("{python}", HERE / "litert_runner.py")),
    Client(f"LiteRT {_LITERT} GPU", ("{python}", HERE / "gpu_runner.py"), most=20),
    Client(f"{_LITERT_JS} WASM", ("node", HERE / "litert_js_runner.mjs", "wasm")),
    Client(f"{_LITERT_JS} WebGPU", ("node", HERE / "litert_js_runner.mjs", "webgpu"), most=20),
    Client(
        f"MediaPipe {_TASKS_VISION} in browsers",
        ("node", HERE / "tasks_vision_runner.mjs"),
        resizes=True,
    ),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a client makes of a file.

    Attributes:
        run, precision, client: names.
        images: the number of images that it received.
        tolerance: the largest difference of golden.json.
        difference: the largest difference of a probability, or why there is none.
        accuracies: by what the pixels were: "equal", "own" resize, and "predicted" for that.
    """

    run: str
    precision: str
    client: str
    images: int
    tolerance: float
    difference: float | str
    accuracies: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: tuple[Path, ...] = ()
    """The run folders to export; default: the newest under runs/."""
    images: int = 359
    """The largest number of held-out pictures of each run."""
    environments: Path = FOLDER
    """The folder where clients are installed; installed clients are reused."""
    python: str = sys.executable
    """The Python to install them for, 3.9 to 3.11."""


def main(arguments: Arguments) -> None:
    check_python(arguments.python)
    commands, wrong = _commands(arguments.environments, arguments.python)
    results, missing = [], {}
    for bundle in _bundles(arguments, wrong):
        for client, command in commands.items():
            print(f"{bundle.name} in {client.name}", flush=True)
            results.append(bundle.result(client, command, wrong, missing))
    print(f"\nThe largest difference of a probability\n{_differences(results)}")
    print(f"\nAccuracies\n{_accuracies(results)}")
    for name, why in missing.items():
        print(f"{name} is not installed: {why}")
    if wrong:
        raise RefusedError("\n".join(wrong))


def _bundles(arguments: Arguments, wrong: list[str]) -> Iterator[_Bundle]:
    """The files of each run, and those of words; what is refused is added to a list."""
    for folder in arguments.run or [newest_run()]:
        opened = runs.open_run(folder)
        pictures, classes = _pictures(opened, arguments.images)
        with tempfile.TemporaryDirectory() as exported:
            print("exporting", opened.path, ", ".join(QUANTIZE), flush=True)
            bundles = deploy.export_bundles(
                opened, exported, QUANTIZE, output="probabilities", threads=(), calibrate=128
            )
            wrong += [f"{folder}: {why}" for why in bundles.refused.values()]
            for golden in sorted(Path(exported).glob("*/golden.json")):
                yield _Bundle(opened.path.name, golden.parent, pictures, classes)
    samples = sorted(_WORDS.glob("samples/*"))
    yield _Bundle(_WORDS.name, _WORDS, [read_picture(sample) for sample in samples])


def _commands(folder: Path, python: str) -> tuple[dict[Client, list[Any]], list[str]]:
    """How the runner of each client is started; and which clients could not be installed."""
    commands, wrong = {}, []
    for client in CLIENTS:
        own = client.environment and installed(client.environment, folder, python)
        if client.environment and own is None:
            wrong.append(f"{client.name} could not be installed")
            continue
        names = {"{python}": own or sys.executable}
        commands[client] = [names.get(part, part) for part in client.command]
    return commands, wrong


def _pictures(opened: runs.Run, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Held-out pictures as they are stored, and their classes."""
    source = opened.source()
    indices = opened.split(source).held_out
    indices = indices[np.linspace(0, len(indices) - 1, min(count, len(indices))).astype(int)]
    return [source.image(int(i)) for i in indices], np.asarray(source.targets)[indices]


def _differences(results: list[Result]) -> str:
    """A table with a row for each client and a column for each precision."""
    precisions, rows = list(dict.fromkeys(each.precision for each in results)), []
    for run_name in dict.fromkeys(each.run for each in results):
        own = [each for each in results if each.run == run_name]
        limits = {each.precision: f"{each.tolerance:.1e}" for each in own}
        rows.append([run_name, "tolerance", "", *(limits.get(name, "-") for name in precisions)])
        for client in dict.fromkeys(each.client for each in own):
            found = {each.precision: each for each in own if each.client == client}
            values = [found[name].difference if name in found else "-" for name in precisions]
            cells = [f"{v:.1e}" if isinstance(v, float) else v for v in values]
            rows.append(
                [run_name, client, str(max(each.images for each in found.values())), *cells]
            )
    return table(["run", "client", "images", *precisions], rows)


def _accuracies(results: list[Result]) -> str:
    """A table with a row for each client and kind of pixels, and a column for each precision."""
    precisions, rows = list(dict.fromkeys(each.precision for each in results)), []
    cells = {
        (each.run, each.client, pixels, each.precision): f"{accuracy:.1%}"
        for each in results
        for pixels, accuracy in each.accuracies.items()
    }
    for key in dict.fromkeys(key[:3] for key in cells):
        rows.append([*key, *(cells.get((*key, name), "-") for name in precisions)])
    return table(["run", "client", "pixels", *precisions], rows)


class _Bundle:
    """A bundle, and what LiteRT gives here for its cases; without classes there is no accuracy."""

    def __init__(
        self,
        run: str,
        folder: Path,
        pictures: list[np.ndarray],
        classes: np.ndarray | None = None,
    ):
        floor = _files.read_json(folder / "model.json", format=1)["runtime_floor"]
        opened = deploy.open_bundle(folder)
        own = opened.preprocessing
        self.name, self.precision, self.run = f"{run}, {opened.precision}", opened.precision, run
        self.floor, self.tolerance = floor, read_golden(folder)[1].scores
        self.content = (folder / "model.tflite").read_bytes()
        self.pictures, self.classes = pictures, classes
        # Pixels of the right size, which a client that resizes leaves as they are.
        whole = dataclasses.replace(own, mean=0.0, scale=1.0)
        self.sized = list(keras_vit.preprocess(pictures, whole).astype(np.uint8))
        self.inputs = list(keras_vit.preprocess(self.sized, own))
        self.expected = opened.predict(np.stack(self.inputs))
        client = dataclasses.replace(own, interpolation="mediapipe", crop=None)
        self.predicted = opened.predict(keras_vit.preprocess(pictures, client))

    def result(
        self, client: Client, command: list[Any], wrong: list[str], missing: dict[str, str]
    ) -> Result:
        """What a client says of the file.

        What is wrong is added to a list, and why a client is not installed by its name.
        """
        cases = (self.sized if client.resizes else self.inputs)[: client.most]
        count = len(cases)
        made = functools.partial(
            Result, self.run, self.precision, client.name, count, self.tolerance
        )
        must = client.runtime is None or supports(self.floor, client.runtime)
        try:
            answer = _answer(command, self.content, cases, client.name)
        except RefusedError as error:
            if must:
                wrong.append(f"{self.name}: {error}")
            return made("refused" if must else f"needs {self.floor}")
        if "missing" in answer:
            missing[client.name] = answer["missing"]
            return made("not installed")
        scores = np.asarray(answer["scores"])
        difference = float(np.abs(scores - self.expected[:count]).max())
        if must and not difference <= self.tolerance:
            wrong.append(f"{self.name} in {client.name}: {difference:.3g} > {self.tolerance:.3g}")
        if self.classes is None:
            return made(difference)
        accuracies = {"equal": self._accuracy(scores)}
        if client.resizes:
            found = _answer(command, self.content, self.pictures[:count], client.name)["scores"]
            accuracies["own"] = own = self._accuracy(np.asarray(found))
            accuracies["predicted"] = predicted = self._accuracy(self.predicted[:count])
            if abs(own - predicted) * count >= _IMAGES:
                wrong.append(
                    f"{self.name} in {client.name}: accuracy {own:.1%} with its resize, "
                    f"{predicted:.1%} was predicted"
                )
        return made(difference, accuracies)

    def _accuracy(self, scores: np.ndarray) -> float:
        return float((scores.argmax(-1) == self.classes[: len(scores)]).mean())


def _answer(command: list[Any], content: bytes, cases: list[np.ndarray], name: str) -> dict:
    """What a runner answers; the client is missing without the program that starts its runner."""
    if shutil.which(command[0]) is None:
        return {"missing": f"there is no program {command[0]}"}
    return run_runner(command, content, cases, name)


if __name__ == "__main__":
    run(main, Arguments)
