"""Compresses a trained run: each compression is trained, converted, compared and written.

Files have exactly the kernels that were trained.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.export_report import table_record, table_row, withdraw_report
from keras_vit.deploy.bundle.writing import write_bundle
from keras_vit.deploy.compression import methods
from keras_vit.deploy.compression.file_kernels import summary
from keras_vit.deploy.compression.fine_tuning import FineTuning
from keras_vit.deploy.compression.methods import Compressed, Compression
from keras_vit.deploy.convert.converter import Converter, MadeFile
from keras_vit.deploy.convert.quantize import measured_ranges, quantized
from keras_vit.deploy.export_options import ExportOptions
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.judge.judged_file import JudgedFile, check, compared, judge_file
from keras_vit.deploy.judge.parity import compare
from keras_vit.deploy.precisions import PRECISIONS, Precision, precision_of
from keras_vit.deploy.reference_scores import ParityError, expected_scores, reference_of
from keras_vit.deploy.resolve import About, Resolved, resolve
from keras_vit.deploy.sample_images import Samples
from keras_vit.deploy.trained_model import TrainedModel
from keras_vit.models.image_model import ImageModel
from keras_vit.tflite.flatbuffer import MappedFile, mapped, read_graph
from keras_vit.tflite.measure import latencies

_PLAIN = "none-float32"


def compress_bundles(
    trained: TrainedModel,
    compressions: Sequence[Compression],
    train: FineTuning,
    out: str | os.PathLike,
    *,
    max_drop: float = 1.0,
    images: int = 500,
    calibrate: int = 32,
    threads: int = 2,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Writes a bundle for each compression, in a folder of its name ("prune+qat-int4").

    Mistakes in the arguments are refused before anything is trained. table.json is written last.

    Args:
        trained: the run's model and images.
        compressions: the compressions to make.
        train: how to fine-tune.
        out: the folder of the bundles.
        max_drop: points of accuracy that a file may lose compared with the run's own model.
        images: the largest number of held-out images to compare.
        calibrate: the largest number of training images to measure ranges on.
        threads: number of threads of the interpreter for measuring latency.
        say: called with each line of progress.

    Returns:
        The content of table.json (see `export_report.table_record`); its first rows are files
        without compression.

    Raises:
        UsageError: `compress` does not support the model, its accuracy is unknown, a folder holds
            something other than a bundle, two compressions have the same name, or another process
            is writing `out`.
        ImportError: as for `compress`.
        ParityError: a comparison with Keras' scores would prove nothing, or Keras is no better than
            always predicting the most frequent class.
    """
    out = Path(out)
    _check_folders(out, [each.name for each in compressions])
    model = trained.load()
    methods.check_compressible(model)
    names = tuple(dict.fromkeys(["none", *(each.quantize for each in compressions)]))
    options = ExportOptions(names, images, calibrate=calibrate)
    with _files.locked(out):
        resolved, samples = _measurable(model, trained, options)
        say(f"without compression ({', '.join(names)}): converting, then comparing")
        converter, refused = Converter(resolved, names, samples.calibration), {}
        files = {
            f"none-{precision_of(name).name}": judge_file(converter.made(name), samples.compared)
            for name in names
        }
        for each in compressions:
            say(f"{each.name}: {len(each.stages)} x {train.steps} steps")
            try:
                compressed = methods.compress(model, each, train, train.steps)
                say(f"{each.name}: converting, then comparing")
                files[each.name] = _judged(compressed, resolved.about, samples, max_drop)
            except RefusedError as error:
                refused[each.name] = str(error)
                continue
            withdraw_report(out)
            write_bundle(out / each.name, files[each.name], samples.picture, max_drop)
        say(f"measuring latency: batch 1, {threads} threads")
        record = table_record(_rows(files, compressions, max_drop, threads), refused, threads)
        _files.write_json(out / "table.json", record)
    return record


def compressed_file(made: Compressed, calibration: np.ndarray | None = None) -> MappedFile:
    """The `.tflite` file of a compressed model.

    Args:
        made: the result of `compress`.
        calibration: preprocessed images (n, height, width, 3), for precisions that need ranges.

    Raises:
        UsageError: the precision needs images and there are none, or they were not preprocessed.
    """
    return _made(made, _resolved(made), calibration).content


def _check_folders(out: Path, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise UsageError(
            f"each compression needs a different name. Received: {', '.join(names)}; write "
            "compressions of the same name to different folders."
        )
    _files.check_replaceable(out, "export")
    for name in names:
        _files.check_replaceable(out / name, "bundle")


def _measurable(
    model: ImageModel, trained: TrainedModel, options: ExportOptions
) -> tuple[Resolved, Samples]:
    """The run's model, and its images with scores on which a loss of accuracy can be measured."""
    resolved = resolve(model, name=trained.name, labels=trained.labels)
    samples = trained.samples(options)
    reference = reference_of(resolved, samples.compared)
    expected, targets = reference.expected, reference.targets
    if targets is None or expected.ndim != 2:
        raise UsageError(
            "compression is judged by its loss of accuracy: expected images with known classes and "
            f"one score for each class. Received: scores {expected.shape}, "
            f"{'no ' if targets is None else ''}classes of {len(expected)} images."
        )
    baseline = compare(PRECISIONS["none"].name, expected, expected, targets)
    if not baseline.informed:
        raise ParityError(
            "compression is judged by its loss of accuracy. Received: a run that is right on "
            f"{baseline.keras_accuracy:.2%} of {len(expected)} images, no better than always "
            f"predicting the most frequent class ({baseline.majority:.2%}); train it first."
        )
    return resolved, dataclasses.replace(samples, compared=reference)


def _judged(compressed: Compressed, about: About, samples: Samples, max_drop: float) -> JudgedFile:
    """The file of a compressed model, compared with that model.

    Args:
        compressed: the compressed model.
        about, samples: the run's own model, and its images with the scores of that.
        max_drop: points of accuracy that the file may lose compared with either.

    Raises:
        RefusedError: it does not compute what the compressed model does, or it loses too much.
    """
    images = samples.compared
    resolved = _resolved(compressed, about.name, about.labels)
    expected = expected_scores(resolved, images.inputs)
    made = _made(compressed, resolved, samples.calibration)
    judged = judge_file(made, dataclasses.replace(images, expected=expected))
    check(judged, max_drop)
    try:
        compared(made, images).check_drop(max_drop)
    except ParityError as error:
        raise RefusedError(
            f"compared with the run's own model, {error} Train longer or compress less."
        ) from None
    return judged


def _resolved(
    compressed: Compressed, name: str | None = None, labels: tuple[str, ...] | None = None
) -> Resolved:
    """The compressed model, with the rewrites that keep the kernels that were trained."""
    options = GraphOptions(rewrites=compressed.wanted.rewrites)
    return resolve(compressed.model, options, labels=labels, name=name)


def _made(compressed: Compressed, resolved: Resolved, calibration: np.ndarray | None) -> MadeFile:
    """The file with a record of how it was made; `resolved` is its `_resolved` model."""
    precision = precision_of(compressed.wanted.quantize)
    resolved.about.check_images(calibration)
    # Without images the converter balances no outlier channels, which would scale kernels.
    converter = Converter(resolved, ["none"])
    content, about = converter.float_file(), converter.about
    measured = calibration if precision.calibrated else None
    ranges = _ranges(content, precision, compressed, measured) if precision.calibrated else None
    content = quantized(content, precision, ranges, about=about)
    return MadeFile(precision, content, about, calibration=measured)


def _ranges(
    content: MappedFile, precision: Precision, made: Compressed, calibration: np.ndarray | None
) -> dict[str, Any]:
    """The measured ranges, but for Dense layers those that training found."""
    ranges = measured_ranges(content, precision, calibration)
    graph = read_graph(content)
    for operator in graph.operators:
        if operator.name == "FULLY_CONNECTED":
            tensors = [graph.read(operator)[0]]
            if len(graph.read(operator)) > 2:  # otherwise its bias was folded into the positions
                tensors += graph.written(operator)
            trained = made.ranges.get(graph.layer(operator), ())
            for tensor, (low, high) in zip(tensors, trained, strict=False):
                old = ranges[tensor.name]
                old |= {"min": np.full_like(old["min"], low), "max": np.full_like(old["max"], high)}
    return ranges


def _rows(
    files: dict[str, JudgedFile],
    compressions: Sequence[Compression],
    max_drop: float,
    threads: int,
) -> list[dict[str, Any]]:
    """The rows of table.json."""
    medians = latencies({name: file.content for name, file in files.items()}, threads)
    settings = {each.name: dataclasses.asdict(each) for each in compressions}
    held = {name: summary(file.content) for name, file in files.items()}
    deflated = {name: kept.pop("deflated") for name, kept in held.items()}
    return [
        table_row(
            file.verdict.to_dict(max_drop),
            name=name,
            bytes=len(file.content),
            sha256=hashlib.sha256(mapped(file.content)).hexdigest(),
            weights_sha256=file.made.about.weights_sha256,
            partitions=file.inspection.partitions,
            deflated=deflated[name],
            deflated_ratio=deflated[name] / deflated[_PLAIN],
            latency_ms=medians[name],
            compression={
                "settings": settings.get(name),
                "latency_ratio": medians[name] / medians[_PLAIN],
                **held[name],
            },
        )
        for name, file in files.items()
    ]
