"""A trained run to bundles of several compressions: train, convert, run, compare, then write."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_vit._errors import RefusedError, UsageError
from keras_vit.deploy.bundle.bundle import About, check_replaceable, write_bundle
from keras_vit.deploy.bundle.report import table_record, table_row
from keras_vit.deploy.compression.exporting import made_file
from keras_vit.deploy.compression.fine_tuning import FineTuning
from keras_vit.deploy.compression.methods import (
    Compressed,
    Compression,
    check_compressible,
    compress,
)
from keras_vit.deploy.compression.stored import summary
from keras_vit.deploy.convert.converter import Converter
from keras_vit.deploy.graph.inference import GraphOptions
from keras_vit.deploy.images import Samples
from keras_vit.deploy.judge.files import JudgedFile, check, compared, judge_file
from keras_vit.deploy.judge.measure import latencies
from keras_vit.deploy.judge.parity import ParityError, compare
from keras_vit.deploy.judge.reference import Reference, expected_scores, reference_of
from keras_vit.deploy.precisions import PRECISIONS, precision_of
from keras_vit.deploy.resolve import Resolved, hash_of, resolve
from keras_vit.deploy.subject import Subject

_PLAIN = "none-float32"


def compress_bundles(
    subject: Subject,
    wanted: Sequence[Compression],
    train: FineTuning,
    out: str | os.PathLike,
    max_drop: float = 1.0,
    images: int = 500,
    calibrate: int = 32,
    threads: int = 2,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Writes a bundle for each compression, in a folder of its name ("prune+qat-int4").

    What cannot be done is refused before anything is trained.

    Args:
        subject: the run's model and images.
        wanted: the compressions to make.
        train: how to fine-tune.
        out: the folder of the bundles.
        max_drop: points of accuracy that a file may lose from the run's own model.
        images: at most this many held-out ones are compared.
        calibrate: at most this many training ones measure ranges.
        threads: of the interpreter, when latency is measured.
        say: is called with each line of progress.

    Returns:
        What table.json says (see `report.table_record`); its first rows are files without
        compression.

    Raises:
        UsageError: the model is not one that `compress` takes or has no accuracy, a folder holds
            something that is no bundle, or two compressions have one name.
        ImportError: as `compress`.
        ParityError: Keras' own scores prove nothing, or it is no better than always naming the most
            frequent class.
    """
    check_compressible(subject.model)
    _check_folders(Path(out), [each.name for each in wanted])
    bench = _bench(subject, images, calibrate)
    precisions = dict.fromkeys(["none", *(each.quantize for each in wanted)])
    say(f"without compression ({', '.join(precisions)}): converting, then comparing")
    files = bench.uncompressed(precisions)
    weights = dict.fromkeys(files, hash_of(bench.resolved.weights))
    refused = {}
    for each in wanted:
        say(f"{each.name}: {len(each.stages)} x {train.steps} steps")
        try:
            compressed = compress(subject.model, each, train, train.steps)
            say(f"{each.name}: converting, then comparing")
            resolved = resolve(compressed.model)
            judged = bench.judged(compressed, resolved)
            check(judged, max_drop)
            bench.check_cost(judged, max_drop)
        except RefusedError as error:
            refused[each.name] = str(error)
            continue
        files[each.name], weights[each.name] = judged, hash_of(resolved.weights)
        about = About(
            subject.name,
            subject.labels,
            subject.preprocessing,
            weights_sha256=weights[each.name],
        )
        write_bundle(Path(out) / each.name, judged, about, bench.samples.picture, max_drop)
    say(f"latency: batch 1, {threads} threads, in turn")
    medians = latencies({name: file.content for name, file in files.items()}, threads)
    settings = {each.name: dataclasses.asdict(each) for each in wanted}
    rows = [
        _row(name, file, files[_PLAIN], medians, weights[name], max_drop, settings.get(name))
        for name, file in files.items()
    ]
    return table_record(rows, refused, threads)


def _bench(subject: Subject, images: int, calibrate: int) -> _Bench:
    """Resolves the run's model and checks that its accuracy can tell what compression costs."""
    resolved = resolve(subject.model, name=subject.name)
    samples = subject.samples(images, calibrate, choose=False)
    part = samples.compared
    reference = reference_of(resolved, GraphOptions(), part.images, part.targets, part.images_from)
    expected, targets = reference.expected, reference.targets
    if targets is None or expected.ndim != 2:
        raise UsageError(
            "the cost of compression is a loss of accuracy: expected a score for each class of an "
            f"image, and images with classes. Received: scores {expected.shape}, "
            f"{'no ' if targets is None else ''}classes of {len(expected)} images."
        )
    itself = compare(PRECISIONS["none"].name, expected, expected, targets)
    if not itself.informed:
        raise ParityError(
            "the cost of compression is a loss of accuracy. Received: a run that is right on "
            f"{itself.keras_accuracy:.2%} of {len(expected)} images, no better than always "
            f"naming the most frequent class ({itself.majority:.2%}); train it first."
        )
    return _Bench(resolved, samples, reference)


@dataclasses.dataclass(frozen=True)
class _Bench:
    """What all compressions of a run are measured on."""

    resolved: Resolved
    samples: Samples
    reference: Reference

    def uncompressed(self, names: Iterable[str]) -> dict[str, JudgedFile]:
        """The run's own files of these precisions."""
        names = tuple(names)
        converter = Converter(self.resolved, names, None, self.samples.calibration)
        return {
            f"none-{precision_of(name).name}": judge_file(converter.made(name), self.reference)
            for name in names
        }

    def judged(self, compressed: Compressed, resolved: Resolved) -> JudgedFile:
        """The file of a compressed model, compared with that model."""
        expected = expected_scores(resolved, self.reference.inputs)
        made = made_file(compressed, resolved, self.samples.calibration)
        return judge_file(made, dataclasses.replace(self.reference, expected=expected))

    def check_cost(self, judged: JudgedFile, max_drop: float) -> None:
        """Refuses a file that is too much worse than the run's own model."""
        try:
            compared(judged.made, self.reference).check_drop(max_drop)
        except ParityError as error:
            raise RefusedError(
                f"compared with the run's own model, {error} Train longer or compress less."
            ) from None


def _check_folders(out: Path, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise UsageError(
            f"each compression needs a name of its own. Received: {', '.join(names)}; write those "
            "of one name to several folders."
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; choose another folder.")
    for name in names:
        check_replaceable(out / name)


def _row(
    name: str,
    judged: JudgedFile,
    plain: JudgedFile,
    medians: dict[str, float],
    weights: str,
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
        hashlib.sha256(content).hexdigest(),
        weights_sha256=weights,
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
