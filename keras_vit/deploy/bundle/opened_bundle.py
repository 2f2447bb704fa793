"""Runs a bundle as an app does: model.json describes the input and the output of model.tflite.

A stranger's file is run in a process of its own, before it is loaded into this one. LiteRT trusts a
file: one that is damaged, or made to do harm, can end the process that runs it.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from pathlib import Path

import numpy as np

from keras_vit._errors import RefusedError, UsageError, shown
from keras_vit.data.input_range import check_inputs
from keras_vit.deploy.bundle.description import CHANNELS, read_bundle
from keras_vit.deploy.bundle.folder import bundle_folder, check_bundle
from keras_vit.encoder.ops import HeadActivation
from keras_vit.labels import read_labels
from keras_vit.specs import Preprocessing
from keras_vit.tflite.processes import last_line, run_program
from keras_vit.tflite.runner import Runner, refusal

_PROGRAM = Path(__file__).with_name("untrusted_program.py")
_SECONDS = 120  # ViT-H/14 takes a few


@dataclasses.dataclass(frozen=True)
class OpenedBundle:
    """A bundle loaded into LiteRT.

    >>> bundle = keras_vit.deploy.open_bundle("runs/flowers/export/float32")
    >>> scores = bundle.predict(keras_vit.preprocess(images, bundle))
    >>> best = keras_vit.decode_predictions(scores, bundle, top=1, from_logits=bundle.from_logits)

    Attributes:
        name: the model's name.
        precision: "float32", "int8" ...
        labels: the classes' names, in the order of the scores.
        preprocessing: how images become the file's input.
        from_logits: whether the scores are logits; otherwise they are probabilities.
        runner: the loaded file.
        head_activation: what makes probabilities of logits.
    """

    name: str
    precision: str
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    from_logits: bool
    runner: Runner
    head_activation: HeadActivation = "softmax"

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Scores float32 (n, classes) of preprocessed images (n, height, width, 3).

        Raises:
            UsageError: the values are not those of preprocessed images.
        """
        check_inputs(inputs, self.preprocessing)
        return self.runner.predict(inputs)


def open_bundle(folder: str | os.PathLike, trusted: bool = True) -> OpenedBundle:
    """Opens a bundle, given its folder or the model.tflite in it.

    Args:
        folder: the folder, or the file.
        trusted: whether the file is loaded at once. LiteRT does not defend itself against a damaged
            one, which can end the process; False runs it in another process first. The commands do
            so, and it takes a second or two.

    Raises:
        UsageError: the bundle is incomplete, or its file returns features instead of classes.
        RefusedError: LiteRT refuses the file, or the file ended the process that ran it first.
    """
    check_bundle(folder)
    folder = bundle_folder(folder)
    description, _ = read_bundle(folder)
    kind = description["output"]["kind"]
    if kind not in ("logits", "probabilities"):
        raise UsageError(
            f"{folder} gives {kind} and no classes; export it with output logits or probabilities."
        )
    labels = read_labels(folder / "labels.txt")
    fields = {field.name for field in dataclasses.fields(Preprocessing)}
    known = {name: value for name, value in description["input"].items() if name in fields}
    grey = known.get("channels") == CHANNELS[1]
    preprocessing = Preprocessing.from_dict(known | {"channels": 1 if grey else 3})
    # Its bytes, because a mapped file that is truncated ends the process.
    model = folder / "model.tflite"
    if not trusted:
        try_file(model)
    runner = Runner(model.read_bytes(), name=str(model))
    _check_tensors(folder, runner, preprocessing, labels)
    return OpenedBundle(
        description["model"],
        description["precision"],
        labels,
        preprocessing,
        kind == "logits",
        runner,
        description["output"].get("activation") or "softmax",
    )


def _check_tensors(
    folder: Path, runner: Runner, preprocessing: Preprocessing, labels: tuple[str, ...]
) -> None:
    """Raises a `UsageError` if model.json or labels.txt describe another file than model.tflite."""
    shape, scores = (tuple(map(int, each["shape"])) for each in (runner.input, runner.output))
    if shape != (1, *preprocessing.shape):
        raise UsageError(
            f"{folder / 'model.json'}: $.input must be of {shape[1:]}, the input of model.tflite. "
            f"Received: {preprocessing.shape}; export it again."
        )
    if scores[-1:] != (len(labels),):
        raise UsageError(
            f"{folder / 'labels.txt'}: expected {scores[-1]} names, the classes of model.tflite. "
            f"Received: {len(labels)}; export it again."
        )


def try_file(model: Path) -> None:
    """Runs a `.tflite` file in another process, on zeros.

    Raises:
        UsageError: it is no TFLite model.
        RefusedError: LiteRT refuses the file; or the file ended the process, or did not finish
            within two minutes.
    """
    try:
        done = run_program(_PROGRAM, model.resolve(), limit_s=_SECONDS)
    except subprocess.TimeoutExpired:
        raise _refused(model, f"does not finish within {_SECONDS} seconds") from None
    if done.returncode < 0:
        raise _refused(model, f"is ended by {signal.Signals(-done.returncode).name}")
    if done.returncode in (2, 3):
        # It is not loaded into this process: after an error, LiteRT may end that, too.
        raise refusal(str(model), done.stdout, done.returncode == 2)
    if done.returncode:
        raise _refused(model, f"ends with {shown(last_line(done))}")


def _refused(model: Path, what: str) -> RefusedError:
    return RefusedError(f"{model} is damaged: a process that runs it {what}; export it again.")
