"""A live model to one `.tflite` file that has been run and compared before it gets its name."""

from __future__ import annotations

import dataclasses
import itertools
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import _checks, _files
from keras_vit._errors import UsageError
from keras_vit.deploy.convert.converter import (
    Converter,
    check_convertible,
    preprocessing_of,
)
from keras_vit.deploy.convert.saved_model import input_shape
from keras_vit.deploy.inspect.flatbuffer import check_static
from keras_vit.deploy.inspect.inspection import Inspection, inspect_file
from keras_vit.deploy.inspect.runtimes import check_runtime
from keras_vit.deploy.judge.choosing import coarse_noise, divided, spread
from keras_vit.deploy.judge.half_precision import (
    HalfPrecision,
    judge_half_precision,
)
from keras_vit.deploy.judge.kernels import runtime_tolerance
from keras_vit.deploy.judge.parity import Verdict, check_reference, compare
from keras_vit.deploy.judge.reference import expected_scores
from keras_vit.deploy.precisions import precision_named, precision_of
from keras_vit.deploy.runner import Runner
from keras_vit.specs import Preprocessing

# Images that measure ranges. The error of int8 digits with 8, 16, 32, 64 and 128 of them: 0.026,
# 0.019, 0.018, 0.017, 0.017 (mean of three draws).
CALIBRATED = 32
# Of an iterable, which may have no end, at most so many images are read: a minute of decoding.
_MOST_READ = 10_000


def export_tflite(
    model: Any,
    path: str | os.PathLike,
    quantize: str | None = None,
    representative_data: Any = None,
    max_images: int = 100,
    *,
    input: str = "float32",
    output: str = "logits",
    float_layers: Iterable[str] = (),
    max_drop: float | None = None,
    min_runtime: str | None = None,
) -> Verdict:
    """Converts a model, runs the result with LiteRT against Keras, and only then names it `path`.

    Args:
        model: a `keras_vit` model, or one of ours without a head and other Keras layers after it:
            its graph is rewritten for speed, exactly. Any other Keras model of one float32 image
            input is converted as it is, and the verdict says so.
        path: the `.tflite` file, replaced whole.
        quantize: a name in `deploy.PRECISIONS`; None is "none", float32.
        representative_data: inputs as the model takes them, preprocessed: an array
            (n, height, width, 3), with its integer labels a tuple (images, labels), or an iterable
            or tf.data.Dataset of such batches. Half of them, at most 32, measure ranges of
            activations, and others are compared, both chosen from all over the data. Of an
            iterable the first 10,000 images are read, so it may go on for ever. Without any seeded
            noise is compared, a weaker check than real images, and precisions that need ranges are
            refused.
        max_images: how many of them are compared at most.
        input: "float32", as Keras takes it, or "uint8": RGB pixels, scaled inside the file.
        output: "logits", "probabilities" or "features"; with layers of others after ours, what
            these give is what the file gives.
        float_layers: names of `deploy.quantizable_layers` that stay float.
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run the file: "2.16.1" of TFLite, "LiteRT 2.1";
            None for any.

    Returns:
        The comparison: agreement, largest difference and so on; its `notes()` say what the images
        prove and what they leave open.

    Raises:
        ParityError: the file differs by more than its precision explains; none is written.
        RefusedError: the file has sizes known at run time only, or `min_runtime` does not run it.
        UsageError: an unknown precision; data is missing or of another shape; `path` is a folder;
            a model of another backend than TensorFlow that isn't ours.
    """
    from keras_vit.deploy.graph.inference import GraphOptions

    precision, options = precision_of(quantize), GraphOptions(input, output)
    check_convertible(model, options)
    _checks.positive_integer("max_images", max_images)
    if max_drop is not None:
        _checks.not_negative("max_drop", max_drop)
    if float_layers and not precision.rules:
        raise UsageError("float_layers are for quantised files. Received: quantize='none'.")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder; name the .tflite file.")
    integers = not precision.is_float
    given, targets, calibration = _parts(model, representative_data, max_images, integers)
    if input == "uint8":
        how = preprocessing_of(model)
        given = to_pixels(given, how)
        calibration = None if calibration is None else to_pixels(calibration, how)
    expected = expected_scores(model, given, output)
    check_reference(expected)
    converter = Converter(model, [quantize], options, calibration, min_runtime)
    content = converter(quantize, float_layers)
    exported = judge_file(precision.name, content, options, given, expected, targets, float_layers)
    check(exported, max_drop, min_runtime)
    with _files.replacing(path) as temporary:
        temporary.write_bytes(content)
    return dataclasses.replace(exported.verdict, rewritten=converter.rewritten)


@dataclasses.dataclass(frozen=True)
class Exported:
    """A file of one precision that has been run, compared and looked into.

    Attributes:
        content: of model.tflite.
        verdict: its comparison with Keras.
        inspection: what it needs and what the runtime does with it.
        options: what it takes and gives.
        float_layers: layers that were left float in a quantised file.
        differences: of each block from the float file, see `layer_differences`.
        half: what a float file gives in half precision; None for other files.
        tolerance: how far the scores of quantised files may be apart on different runtimes, see
            `runtime_tolerance`.
    """

    content: bytes
    verdict: Verdict
    inspection: Inspection
    options: Any
    float_layers: tuple[str, ...] = ()
    differences: dict[str, float] = dataclasses.field(default_factory=dict)
    half: HalfPrecision | None = None
    tolerance: float = 0.0


def judge_file(
    precision: str,
    content: bytes,
    options: Any,
    given: np.ndarray,
    expected: np.ndarray,
    targets: np.ndarray | None,
    float_layers: Iterable[str] = (),
) -> Exported:
    """Runs a file over images and looks into it; what comes out has not been refused yet.

    Args:
        precision: its name, which decides the budget.
        content: the file.
        options: what it takes and gives.
        given: images as it takes them (n, height, width, 3).
        expected: Keras' scores for them.
        targets: the true classes (n,), where they are known; features have none.
        float_layers: for the record.
    """
    runner = Runner(content)
    verdict = compared(precision, runner, options, given, expected, targets)
    inspection = inspect_file(content, runner=runner)
    half, tolerance = None, 0.0
    if precision_named(precision).is_float:
        features = options.output == "features"
        half = judge_half_precision(content, precision, given, expected, targets, features)
    else:
        tolerance = runtime_tolerance(content, given, runner)
    return Exported(content, verdict, inspection, options, tuple(float_layers), {}, half, tolerance)


def compared(
    precision: str,
    runner: Runner,
    options: Any,
    given: np.ndarray,
    expected: np.ndarray,
    targets: np.ndarray | None,
) -> Verdict:
    """The comparison alone, of a file that is loaded: see `judge_file`."""
    features = options.output == "features"
    return compare(precision, expected, runner.predict(given), targets, features)


def check(
    exported: Exported,
    max_drop: float | None = None,
    min_runtime: str | None = None,
) -> None:
    """Refuses a file that must not get its name.

    Args:
        exported: the file.
        max_drop: points of accuracy that a quantised file may lose, where labels are known; None:
            0.5, of int4 1.5.
        min_runtime: the oldest runtime that must run it: "2.16.1", "LiteRT 2.1".

    Raises:
        RefusedError: a budget is exceeded, or the runtime will not run it.
    """
    check_static(exported.content)
    if min_runtime is not None:
        check_runtime(exported.content, min_runtime)
    exported.verdict.check(max_drop)


def to_pixels(inputs: np.ndarray, how: Preprocessing) -> np.ndarray:
    """The uint8 pixels that preprocessed inputs came from."""
    pixels = inputs * np.asarray(how.scale, np.float32) + np.asarray(how.mean, np.float32)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _parts(
    model: Any, data: Any, max_images: int, calibrate: bool
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The images to compare, their labels if known, and other images that measure ranges."""
    shape = input_shape(model)[1:]
    if data is None:
        noise = 2 * coarse_noise(min(max_images, 16), shape) - 1
        return noise.astype(np.float32), None, None
    images, targets = _inputs(data, shape, max(max_images, CALIBRATED) + CALIBRATED)
    if not calibrate:
        judged = spread(max_images, len(images), targets)
        return images[judged], None if targets is None else targets[judged], None
    calibrating, others = divided(min(CALIBRATED, max(len(images) // 2, 1)), len(images), targets)
    if not len(others):
        others = calibrating
        warnings.warn(
            "representative_data holds one image, which measures ranges and is compared too: the "
            "comparison proves little. Pass more images.",
            stacklevel=3,
        )
    left = None if targets is None else targets[others]
    judged = others[spread(max_images, len(others), left, seed=1)]
    return images[judged], None if targets is None else targets[judged], images[calibrating]


def _inputs(data: Any, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """At least `count` images (n, *shape) from all over the data, if it has them, and labels."""
    # An array, and images with their labels as `fit` takes them, are one batch.
    if isinstance(data, np.ndarray) or (isinstance(data, tuple) and len(data) == 2):
        return _batch(data, shape)
    # Each image has the same chance to be among those that are kept (reservoir sampling).
    kept: list[tuple[int, np.ndarray, Any]] = []
    generator = np.random.default_rng(0)
    for position, (image, target) in enumerate(_examples(data, shape)):
        place = len(kept) if len(kept) < count else generator.integers(position + 1)
        if place < count:
            # A copy: else its whole batch would stay in memory.
            kept[place : place + 1] = [(position, image.copy(), target)]
    if not kept:
        raise UsageError("representative_data holds no image.")
    kept.sort(key=lambda entry: entry[0])
    _, images, targets = zip(*kept, strict=True)
    known = all(target is not None for target in targets)
    return np.stack(images), np.array(targets) if known else None


def _examples(data: Any, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, Any]]:
    """The first images of an iterable one by one, each with its label or None."""
    read = 0
    for item in itertools.islice(data, _MOST_READ):
        images, targets = _batch(item, shape)
        labels = itertools.repeat(None) if targets is None else targets
        yield from zip(images, labels, strict=False)
        read += len(images)
        if read >= _MOST_READ:
            return


def _batch(item: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    """The images (n, *shape) and the labels (n,) of an item of a data set."""
    labelled = isinstance(item, (tuple, list))
    images = np.asarray(item[0] if labelled else item)
    images = images[None] if images.shape == shape else images
    if images.dtype.kind != "f" or images.shape[1:] != shape:
        raise UsageError(
            f"representative_data must be preprocessed floats (n, *{shape}). "
            f"Received: {images.dtype} {images.shape}; keras_vit.preprocess makes them."
        )
    if not np.isfinite(images).all():
        raise UsageError("representative_data must be finite. Received: NaN or infinity in it.")
    if not labelled or len(item) < 2:
        return images.astype(np.float32), None
    targets = np.atleast_1d(np.asarray(item[1]))
    if targets.dtype.kind not in "iu" or targets.shape != (len(images),):
        raise UsageError(
            f"labels must be integers ({len(images)},), the classes of the images. "
            f"Received: {targets.dtype} {targets.shape}; leave them out if there are none."
        )
    return images.astype(np.float32), targets
