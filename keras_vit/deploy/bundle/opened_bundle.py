"""Runs a bundle as an app does: model.json describes the input and the output of model.tflite.

A stranger's file is run in a process of its own, before it is loaded into this one. LiteRT trusts a
file: one that is damaged, or made to do harm, can end the process that runs it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np

from keras_vit._errors import RefusedError, UsageError, shown
from keras_vit.data.input_range import check_inputs
from keras_vit.deploy.bundle.description import CHANNELS, read_bundle
from keras_vit.deploy.bundle.folder import bundle_folder, check_bundle
from keras_vit.deploy.bundle.gallery import Gallery, gallery_files, read_gallery
from keras_vit.deploy.graph.graph_options import Output, is_mask, scores_classes
from keras_vit.encoder.ops import HeadActivation
from keras_vit.labels import read_labels
from keras_vit.specs import Preprocessing
from keras_vit.tflite.processes import last_line, run_program
from keras_vit.tflite.runner import Runner, refusal

_PROGRAM = Path(__file__).with_name("untrusted_program.py")
_SECONDS = 120  # ViT-H/14 takes a few
# Of a bundle; only classes have a labels.txt. There may be others, such as recipe.json.
FILES = ("model.tflite", "model.json", "labels.txt", "golden.json")


@dataclasses.dataclass(frozen=True)
class OpenedBundle:
    """A bundle loaded into LiteRT.

    >>> bundle = keras_vit.deploy.open_bundle("runs/flowers/export/float32")
    >>> scores = bundle.predict(keras_vit.preprocess(images, bundle))
    >>> best = keras_vit.decode_predictions(scores, bundle, top=1, from_logits=bundle.from_logits)

    Attributes:
        folder: its folder.
        description: its model.json.
        labels: the classes' names, in the order of the scores; none of a file that gives features
            or a feature map.
        preprocessing: how images become the file's input.
        runner: the loaded file.
    """

    folder: Path
    description: dict[str, Any]
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    runner: Runner

    @property
    def name(self) -> str:
        """The model's name."""
        return self.description["model"]

    @property
    def precision(self) -> str:
        """For example "float32" or "int8"."""
        return self.description["precision"]

    @property
    def sha256(self) -> str:
        """The hash of model.tflite."""
        return self.description["sha256"]

    @property
    def output_kind(self) -> Output:
        """What the file gives."""
        return self.description["output"]["kind"]

    @property
    def scores_classes(self) -> bool:
        """Whether the file has scores of classes, or classes."""
        return scores_classes(self.output_kind)

    @property
    def is_mask(self) -> bool:
        """Whether the file has scores or a class for each part of the image."""
        return is_mask(self.output_kind)

    @property
    def gives_features(self) -> bool:
        """Whether the file gives the features of an image."""
        return self.output_kind == "features"

    @property
    def from_logits(self) -> bool:
        """Whether scores are logits; otherwise they are probabilities."""
        return self.output_kind == "logits"

    @property
    def head_activation(self) -> HeadActivation:
        """What makes probabilities of logits."""
        return self.description["output"].get("activation") or "softmax"

    @functools.cached_property
    def gallery(self) -> Gallery | None:
        """The pictures that features are compared with; None without any.

        Raises:
            UsageError: the gallery is incomplete, or of another file.
        """
        return read_gallery(self.folder, self.description) if self.gives_features else None

    @property
    def files(self) -> list[str]:
        """The files that an app or a page needs, relative to the folder.

        Raises:
            UsageError: scores or features are not those of the whole image, or the gallery is
                incomplete or of another file.
        """
        names = [name for name in FILES if self.scores_classes or name != "labels.txt"]
        if self.is_mask or self.output_kind == "feature_map":
            return names
        self.check_one_row()
        return names + (gallery_files(self.folder, self.gallery) if self.gives_features else [])

    def check_features(self) -> None:
        """Raises a `UsageError` unless the file gives a vector of features for an image."""
        what = self.output_kind if self.scores_classes else "a feature map"
        if not self.gives_features:
            raise UsageError(f"{self.folder} gives {what}; export it with output='features'.")
        self.check_one_row()

    def check_one_row(self) -> None:
        """Raises a `UsageError` unless the scores or features are those of the whole image."""
        kind, shape = self.output_kind, tuple(self.description["output"]["shape"])
        if len(shape) != 2:
            raise UsageError(
                f"{self.folder} gives {kind} {shape} of parts of a picture, which only programs of "
                "your own can use; expected (1, n), of the whole picture: choose another model."
            )

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Scores (n, classes), features (n, features) or feature maps (n, rows, columns, features).

        They are float32, of preprocessed images. Of a segmenter scores (n, rows, columns, classes),
        or classes, uint8 (n, rows, columns).

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
        UsageError: the bundle is incomplete.
        RefusedError: LiteRT refuses the file, or the file ended the process that ran it first.
    """
    check_bundle(folder)
    folder = bundle_folder(folder)
    description, _ = read_bundle(folder)
    kind = description["output"]["kind"]
    if kind not in get_args(Output):
        raise UsageError(
            f"{folder / 'model.json'}: $.output.kind must be one of "
            f"{', '.join(get_args(Output))}. Received: {shown(kind)}; export it again."
        )
    labels = read_labels(folder / "labels.txt") if scores_classes(kind) else ()
    fields = {field.name for field in dataclasses.fields(Preprocessing)}
    known = {name: value for name, value in description["input"].items() if name in fields}
    grey = known.get("channels") == CHANNELS[1]
    preprocessing = Preprocessing.from_dict(known | {"channels": 1 if grey else 3})
    # Its bytes, because a mapped file that is truncated ends the process.
    model = folder / "model.tflite"
    if not trusted:
        try_file(model)
    runner = Runner(model.read_bytes(), name=str(model))
    bundle = OpenedBundle(folder, description, labels, preprocessing, runner)
    _check_tensors(bundle)
    return bundle


def _check_tensors(bundle: OpenedBundle) -> None:
    """Raises a `UsageError` if model.json or labels.txt describe another file than model.tflite."""
    runner, expected = bundle.runner, bundle.preprocessing.shape
    shape, scores = (tuple(map(int, each["shape"])) for each in (runner.input, runner.output))
    if shape != (1, *expected):
        raise UsageError(
            f"{bundle.folder / 'model.json'}: $.input must be of {shape[1:]}, the input of "
            f"model.tflite. Received: {expected}; export it again."
        )
    stated = tuple(bundle.description["output"]["shape"])
    if (bundle.is_mask or not bundle.scores_classes) and scores != stated:
        raise UsageError(
            f"{bundle.folder / 'model.json'}: $.output.shape must be {scores}, that of "
            f"model.tflite. Received: {stated}; export it again."
        )
    is_class_map = len(scores) == 3 and runner.output["dtype"] == np.uint8
    if is_class_map != (bundle.output_kind == "class_map") or (
        bundle.output_kind in ("scores", "feature_map") and len(scores) != 4
    ):
        raise UsageError(
            f"{bundle.folder / 'model.json'}: model.tflite gives {runner.output['dtype'].__name__} "
            f"{scores}, which cannot be $.output.kind {bundle.output_kind}; export it again."
        )
    # The shape of a class map does not say how many classes there are.
    classes = bundle.description["output"].get("classes") if is_class_map else scores[-1]
    if bundle.scores_classes and classes != len(bundle.labels):
        raise UsageError(
            f"{bundle.folder / 'labels.txt'}: expected {classes} names, the classes of "
            f"model.tflite. Received: {len(bundle.labels)}; export it again."
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
