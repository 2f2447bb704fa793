"""The golden check: are a bundle's scores on this computer those of the exporter's computer?"""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_vit._errors import RefusedError, UsageError
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.bundle.description import read_golden
from keras_vit.deploy.bundle.folder import bundle_folder
from keras_vit.deploy.bundle.opened_bundle import OpenedBundle, open_bundle
from keras_vit.deploy.sample_images import to_pixels
from keras_vit.labels import answer_scores, answers_of
from keras_vit.tflite.compiled_model import predict_in_half_precision
from keras_vit.tflite.runner import Runner, changed_pixels, difference_of

# The runs that are timed after the first, which is left out: their most number and seconds.
_TIMED, _SECONDS = 20, 1.0
_COMPARED = {"features": "features", "feature_map": "features", "class_map": "classes"}


@dataclasses.dataclass(frozen=True)
class KernelCheck:
    """The golden image on one kind of kernels.

    Attributes:
        kernels: "XNNPACK", "LiteRT's own" or "half precision".
        tolerance: the largest difference that the scores may have, see `difference_of`.
        difference: their difference to the exporter's; None if the file does not run.
        pixels: of scores of masks, the fraction of the pixels with another class than the
            exporter's; None of others.
        most_pixels: the largest fraction that it may be.
        found: the index of the class with the highest score; None if the file does not run or
            does not score the classes of the whole image.
        milliseconds: the median time of a run; None if it was not measured.
        reason: why the file does not run, in LiteRT's words; "" if it runs.
    """

    kernels: str
    tolerance: float
    difference: float | None = None
    pixels: float | None = None
    most_pixels: float = 0.0
    found: int | None = None
    milliseconds: float | None = None
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Whether the scores are within the tolerances; NaN is not."""
        if self.difference is None or not self.difference <= self.tolerance:
            return False
        return self.pixels is None or self.pixels <= self.most_pixels


@dataclasses.dataclass(frozen=True)
class GoldenCheck:
    """The result of `check_golden`.

    Attributes:
        labels: the classes' names; of one score "not LABEL" and its label; none of features.
        compared: "scores", "features", or "classes" of a class map, whose difference is the
            fraction of the pixels with another class.
        expected: the index of the class with the exporter's highest score; None as for `found`.
        is_mask: whether scores or classes are those of pixels.
        tensor: the largest difference between the preprocessed golden image and the exporter's.
        tensor_tolerance: the largest difference that it may have.
        kernels: the scores on each kind of kernels.
    """

    labels: tuple[str, ...]
    compared: str
    expected: int | None
    is_mask: bool
    tensor: float
    tensor_tolerance: float
    kernels: tuple[KernelCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the tensor and the scores of all kernels are within their tolerances."""
        same = self.tensor <= self.tensor_tolerance
        return same and all(check.passed for check in self.kernels)


def check_golden(folder: str | os.PathLike, threads: int = 2, trusted: bool = True) -> GoldenCheck:
    """Preprocesses and classifies a bundle's golden image, and compares with its golden.json.

    The kernels are XNNPACK's, the default of phones; LiteRT's own; and, for float files that the
    exporter found good in half precision, XNNPACK in half precision.

    Args:
        folder: as for `open_bundle`.
        threads: number of threads of the interpreter.
        trusted: as for `open_bundle`.

    Raises:
        UsageError: the bundle is incomplete.
        RefusedError: LiteRT refuses the file on XNNPACK.
    """
    bundle = open_bundle(folder, trusted)
    folder = bundle_folder(folder)
    golden, tolerance = read_golden(folder)
    _check_shapes(golden, bundle.runner, folder)

    def found(scores: np.ndarray) -> int | None:
        if not bundle.scores_classes or scores.ndim > 1:
            return None
        return int(answer_scores(scores, bundle.from_logits).argmax())

    model = (folder / "model.tflite").read_bytes()
    kinds = [
        ("XNNPACK", tolerance.scores, lambda: Runner(model, threads)),
        ("LiteRT's own", tolerance.scores, lambda: Runner(model, threads, xnnpack=False)),
    ]
    if tolerance.scores_half_precision is not None:
        half = functools.partial(predict_in_half_precision, model, threads=threads)
        kinds.append(("half precision", tolerance.scores_half_precision, lambda: half))
    differences = np.abs(_tensor(golden["image"], bundle).astype(np.float64) - golden["tensor"])
    return GoldenCheck(
        answers_of(bundle.labels),
        _COMPARED.get(bundle.output_kind, "scores"),
        found(golden["scores"]),
        bundle.is_mask,
        float(differences.max()),
        tolerance.tensor,
        tuple(_checked(golden, found, tolerance.pixels, *kind) for kind in kinds),
    )


def _check_shapes(golden: dict[str, np.ndarray], runner: Runner, folder: Path) -> None:
    """Raises a `UsageError` if tensor and scores are not those of one image for this file."""
    for name, details in (("tensor", runner.input), ("scores", runner.output)):
        expected = tuple(int(side) for side in details["shape"])[1:]
        if golden[name].shape != expected:
            raise UsageError(
                f"{folder / 'golden.json'}: $.{name}.shape must be {expected}, that of "
                f"model.tflite. Received: {golden[name].shape}; export it again."
            )


def _tensor(image: np.ndarray, bundle: OpenedBundle) -> np.ndarray:
    tensor = preprocess_image(image, bundle.preprocessing)
    # Files that scale pixels themselves have mean 0 and scale 1.
    is_pixels = bundle.runner.input["dtype"] == np.uint8
    return to_pixels(tensor, bundle.preprocessing) if is_pixels else tensor


def _checked(
    golden: dict[str, np.ndarray],
    found: Callable,
    most_pixels: float | None,
    kernels: str,
    tolerance: float,
    load: Callable,
) -> KernelCheck:
    inputs = golden["tensor"][None]
    try:
        run = load()
        [scores] = run(inputs)
    except RefusedError as error:
        return KernelCheck(kernels, tolerance, reason=str(error))
    difference = difference_of(scores[None], golden["scores"][None])
    # Half precision runs in another process, which takes longer to start.
    milliseconds = _median(run, inputs) if isinstance(run, Runner) else None
    pixels = {}
    if most_pixels is not None:
        changed = changed_pixels(scores[None], golden["scores"][None])
        pixels = {"pixels": changed, "most_pixels": most_pixels}
    figures = {"found": found(scores), "milliseconds": milliseconds, **pixels}
    return KernelCheck(kernels, tolerance, difference, **figures)


def _median(runner: Runner, inputs: np.ndarray) -> float:
    """The median time of a run in milliseconds."""
    times: list[float] = []
    while len(times) < _TIMED and sum(times) < _SECONDS:
        begun = time.perf_counter()
        runner(inputs)
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)
