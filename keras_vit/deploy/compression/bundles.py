"""Compresses a trained run: each compression is trained, converted, compared and written."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.bundle import check_replaceable, write_bundle
from keras_vit.deploy.bundle.report import table_record, table_row, withdraw_report
from keras_vit.deploy.compression.exporting import made_file, resolved_model
from keras_vit.deploy.compression.fine_tuning import FineTuning
from keras_vit.deploy.compression.methods import (
    Compressed,
    Compression,
    check_compressible,
    compress,
)
from keras_vit.deploy.compression.stored import summary
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.export_options import ExportOptions
from keras_vit.deploy.judge.files import JudgedFile, check, compared, judge_file
from keras_vit.deploy.judge.parity import compare
from keras_vit.deploy.precisions import PRECISIONS, precision_of
from keras_vit.deploy.reference import ParityError, expected_scores, reference_of
from keras_vit.deploy.resolve import Resolved, resolve
from keras_vit.deploy.sampling import Samples
from keras_vit.deploy.trained_model import TrainedModel
from keras_vit.models.image_model import ImageModel
from keras_vit.tflite.flatbuffer import mapped
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
        The content of table.json (see `report.table_record`); its first rows are files without
        compression.

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
    check_compressible(model)
    names = tuple(dict.fromkeys(["none", *(each.quantize for each in compressions)]))
    options = ExportOptions(names, images, calibrate=calibrate)
    with _files.locked(out):
        bench = _bench(model, trained, options)
        say(f"without compression ({', '.join(names)}): converting, then comparing")
        files, refused = bench.uncompressed(), {}
        for each in compressions:
            say(f"{each.name}: {len(each.stages)} x {train.steps} steps")
            try:
                compressed = compress(model, each, train, train.steps)
                say(f"{each.name}: converting, then comparing")
                files[each.name] = bench.checked(compressed, max_drop)
            except RefusedError as error:
                refused[each.name] = str(error)
                continue
            withdraw_report(out)
            write_bundle(out / each.name, files[each.name], bench.samples.picture, max_drop)
        say(f"measuring latency: batch 1, {threads} threads")
        record = table_record(_rows(files, compressions, max_drop, threads), refused, threads)
        _files.write_json(out / "table.json", record)
    return record


def _bench(model: ImageModel, trained: TrainedModel, options: ExportOptions) -> _Bench:
    """Resolves the run's model and checks that a loss of its accuracy can be measured."""
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
    return _Bench(resolved, dataclasses.replace(samples, compared=reference), options.quantize)


@dataclasses.dataclass(frozen=True)
class _Bench:
    """The model and the images, with its scores, that all compressions are compared with."""

    resolved: Resolved
    samples: Samples
    quantize: tuple[str, ...]

    def uncompressed(self) -> dict[str, JudgedFile]:
        """The run's own files of all precisions."""
        converter = Converter(self.resolved, self.quantize, self.samples.calibration)
        return {
            f"none-{precision_of(name).name}": judge_file(
                converter.made(name), self.samples.compared
            )
            for name in self.quantize
        }

    def checked(self, compressed: Compressed, max_drop: float) -> JudgedFile:
        """The file of a compressed model.

        Raises:
            RefusedError: it does not compute what that model does, or it loses too much accuracy.
        """
        judged = self.judged(compressed)
        check(judged, max_drop)
        self.check_cost(judged, max_drop)
        return judged

    def judged(self, compressed: Compressed) -> JudgedFile:
        """The file of a compressed model, compared with that model."""
        about, images = self.resolved.about, self.samples.compared
        resolved = resolved_model(compressed, about.name, about.labels)
        expected = expected_scores(resolved, images.inputs)
        made = made_file(compressed, resolved, self.samples.calibration)
        return judge_file(made, dataclasses.replace(images, expected=expected))

    def check_cost(self, judged: JudgedFile, max_drop: float) -> None:
        """Refuses a file that loses too much accuracy compared with the run's own model."""
        try:
            compared(judged.made, self.samples.compared).check_drop(max_drop)
        except ParityError as error:
            raise RefusedError(
                f"compared with the run's own model, {error} Train longer or compress less."
            ) from None


def _check_folders(out: Path, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise UsageError(
            f"each compression needs a different name. Received: {', '.join(names)}; write "
            "compressions of the same name to different folders."
        )
    _files.check_replaceable(out, "export")
    for name in names:
        check_replaceable(out / name)


def _rows(
    files: dict[str, JudgedFile],
    compressions: Sequence[Compression],
    max_drop: float,
    threads: int,
) -> list[dict[str, Any]]:
    """The rows of table.json."""
    medians = latencies({name: file.content for name, file in files.items()}, threads)
    settings = {each.name: dataclasses.asdict(each) for each in compressions}
    return [
        _row(name, file, files[_PLAIN], medians, max_drop, settings.get(name))
        for name, file in files.items()
    ]


def _row(
    name: str,
    judged: JudgedFile,
    plain: JudgedFile,
    medians: dict[str, float],
    max_drop: float,
    settings: dict[str, Any] | None,
) -> dict[str, Any]:
    held, content = summary(judged.content), judged.content
    deflated = held.pop("deflated")
    return table_row(
        name,
        judged.verdict.precision,
        judged.verdict.to_dict(max_drop),
        len(content),
        hashlib.sha256(mapped(content)).hexdigest(),
        weights_sha256=judged.made.about.weights_sha256,
        partitions=judged.inspection.partitions,
        deflated=deflated,
        deflated_ratio=deflated / summary(plain.content)["deflated"],
        latency_ms=medians[name],
        compression={
            "settings": settings,
            "latency_ratio": medians[name] / medians[_PLAIN],
            **held,
        },
    )
