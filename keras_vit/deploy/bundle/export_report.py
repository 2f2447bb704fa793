"""The report on exported files: table.json, a model card and a plot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.deploy.bundle.accuracy_plot import plot
from keras_vit.deploy.bundle.card import card
from keras_vit.deploy.bundle.description import Described
from keras_vit.deploy.judge.verdict import Verdict, grade_of
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.tflite.measure import Measured, machine

FORMAT = 1


def write_report(
    folder: str | os.PathLike,
    descriptions: dict[str, dict[str, Any]],
    measured: dict[str, Measured],
    refused: Mapping[str, str] | None = None,
    earlier_figures: Mapping[str, Measured] | None = None,
) -> None:
    """Writes table.json, card.md and plot.png into the folder of the bundles.

    They also include bundles that an earlier call wrote to this folder, with their measurements, if
    their weights are the same (by hash). Bundles of other weights or without a hash are left out.

    Args:
        folder: the folder of the bundles.
        descriptions: the model.json of each bundle, by the name of its folder.
        measured: the measurements of each file, by the same names; some may be missing.
        refused: why some requested files were not written, by their names.
        earlier_figures: the result of `withdraw_report`; None if it was not called.

    Raises:
        ImportError: matplotlib is not installed; nothing is written.
        OSError: the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    earlier = _earlier_bundles(folder, descriptions)
    known = _measurements(folder) if earlier_figures is None else earlier_figures
    figures = {n: known[d["sha256"]] for n, d in earlier.items() if d["sha256"] in known} | measured
    files = dict(sorted({**earlier, **descriptions}.items(), key=_order))
    picture = plot(files, figures)
    labels = _labels(folder, files)
    text = card(files, table(files, figures), figures, labels, machine(), tuple(earlier), refused)
    with _files.replacing(folder / "plot.png") as temporary:
        temporary.write_bytes(picture)
    _files.write_text(folder / "card.md", text)
    threads = max((entry.threads for m in measured.values() for entry in m.latency), default=0)
    rows = [_row(name, about, figures, name in earlier) for name, about in files.items()]
    _files.write_json(folder / "table.json", table_record(rows, refused or {}, threads))


def withdraw_report(folder: str | os.PathLike) -> dict[str, Measured]:
    """Removes the report of a folder, before a bundle that it describes is replaced.

    A process that is killed afterwards thus leaves no report rather than one of other files.

    Returns:
        The measurements that it had, by the hash of the file, for the next `write_report`.
    """
    figures = _measurements(Path(folder))
    for name in ("table.json", "card.md", "plot.png"):
        Path(folder, name).unlink(missing_ok=True)
    return figures


def table_record(
    rows: list[dict[str, Any]], refused: Mapping[str, str], threads: int
) -> dict[str, Any]:
    """The content of table.json, for exports and compressions: CONTRIBUTING.md lists its fields."""
    return {
        "format": FORMAT,
        "machine": f"{machine()}, {threads} threads",
        "images": max((row["images"] for row in rows), default=0),
        "rows": rows,
        "refused": dict(refused),
    }


def table_row(parity: dict[str, Any], **known: Any) -> dict[str, Any]:
    """A row of table.json; unknown values are None.

    Args:
        parity: the result of `Verdict.to_dict`, which has the precision and the figures.
        known: values of other fields.
    """
    known = {"earlier": False} | known | {field: parity.get(field) for field in _FIGURES}
    return {field: known.get(field) for field in _ROW}


_FIGURES = (
    *("precision", "images", "accuracy", "keras_accuracy", "mean_iou", "keras_mean_iou"),
    *("informed", "drop", "largest_drop", "agreement", "overlap", "recall"),
    *("max_difference", "error", "cosine"),
)
_ROW = (
    *("name", *_FIGURES, "bytes", "sha256", "weights_sha256", "partitions"),
    *("deflated", "deflated_ratio", "latency_ms", "measured", "compression", "earlier"),
)


def table(
    descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table, as text; a column without any value is left out.

    A drop of accuracy or mean IoU is in percentage points; "drop, 95%" is the largest drop that the
    images do not exclude. "worst" is the largest difference of a score, as a fraction of the
    scores' scale. "ms" are medians, and "p90" belongs to the column before it; "zipped" is in MiB.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        measured: the measurements of each file, by the same names; some may be missing.
    """
    threads = dict.fromkeys(entry.threads for m in measured.values() for entry in m.latency)
    rows = [_cells(d, measured.get(name), threads) for name, d in descriptions.items()]
    columns = [column for column in zip(*rows, strict=True) if any(text for _, text in column)]
    header = ["file", *(column[0][0] for column in columns)]
    texts = zip(*([text or "-" for _, text in column] for column in columns), strict=True)
    return header, [[name, *row] for name, row in zip(descriptions, texts, strict=True)]


def _cells(
    description: dict[str, Any], measured: Measured | None, threads: Iterable[int]
) -> list[tuple[str, str]]:
    """The header and the text of each column for a file; "" where the value is unknown."""
    parity, costs = description["parity"], vars(measured) if measured else {}
    latency = {entry.threads: vars(entry) for entry in costs.get("latency", ())}
    grade = grade_of(parity)
    worst = parity["max_difference"] / parity["scale"] if parity["scale"] else None
    columns = [
        (grade.metric if grade else "accuracy", grade and grade.file, "{:.2%}".format),
        # No -0.00.
        ("drop", grade and round(grade.drop, 2) + 0.0, "{:.2f}".format),
        ("drop, 95%", parity.get("largest_drop"), "{:.2f}".format),
        ("agreement", parity.get("agreement"), "{:.2%}".format),
        ("overlap", parity.get("overlap"), "{:.2%}".format),
        ("recall", parity.get("recall"), "{:.2%}".format),
        ("worst", worst, "{:.1%}".format),
        ("cosine", parity.get("cosine"), "{:.5f}".format),
        ("MiB", description["bytes"], _mib),
        ("zipped", costs.get("compressed_bytes"), _mib),
    ]
    for count in threads:
        times, title = latency.get(count, {}), f"ms, {count} thread{'' if count == 1 else 's'}"
        columns.append((title, times.get("median_ms"), _three_digits))
        columns.append(("p90", times.get("p90_ms"), _three_digits))
    columns += [
        ("peak MiB", costs.get("peak_bytes"), lambda size: f"{size / 2**20:,.0f}"),
        ("load s", costs.get("load_s"), _three_digits),
        ("parts", _partitions(description), str),
    ]
    return [(title, "" if value is None else text(value)) for title, value, text in columns]


def _row(
    name: str, description: dict[str, Any], figures: dict[str, Measured], earlier: bool
) -> dict[str, Any]:
    measured = figures.get(name)
    latency = max(measured.latency if measured else (), key=lambda e: e.threads, default=None)
    deflated, float_size = (
        each and each.compressed_bytes for each in (measured, figures.get("float32"))
    )
    return table_row(
        description["parity"],
        name=name,
        earlier=earlier,
        **{key: description.get(key) for key in ("bytes", "sha256", "weights_sha256")},
        partitions=_partitions(description),
        deflated=deflated,
        deflated_ratio=deflated / float_size if deflated and float_size else None,
        latency_ms=latency and latency.median_ms,
        measured=measured and measured.to_dict(),
    )


def _earlier_bundles(folder: Path, descriptions: dict[str, dict[str, Any]]) -> dict[str, dict]:
    """The model.json of each bundle of the same weights that is already in the folder."""
    found = {}
    for file in folder.glob("*/model.json"):
        name = file.parent.name
        is_whole = not name.startswith(".") and file.with_suffix(".tflite").is_file()
        if name in descriptions or not is_whole:
            continue
        try:
            description = _files.read_json(file, format=FORMAT, schema=Described)
            Verdict.from_dict(description["parity"])
        except UsageError:
            continue  # another kind of folder, or another version
        if all(_same_model(description, other) for other in descriptions.values()):
            found[name] = description
    return found


def _same_model(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two bundles were made from the same weights of the same model."""
    hashes = [description.get("weights_sha256") for description in (one, other)]
    return None not in hashes and hashes[0] == hashes[1] and one["model"] == other["model"]


def _measurements(folder: Path) -> dict[str, Measured]:
    """The measurements in the table of an earlier call, by the hash of the file."""
    try:
        table = _files.read_json(folder / "table.json", format=FORMAT, schema=_Measurements)
    except UsageError:
        return {}  # no table, or a table of another version
    rows = (row for row in table["rows"] if row.get("measured"))
    return {row["sha256"]: Measured.from_dict(row["measured"]) for row in rows}


class _Measurement(Struct):
    sha256: str
    measured: Measured | None = None


class _Measurements(Struct):
    """What is read of table.json."""

    rows: list[_Measurement]


def _labels(folder: Path, names: dict[str, Any]) -> tuple[str, ...]:
    files = (folder / name / "labels.txt" for name in names)
    return next((_files.read_lines(file, errors="replace") for file in files if file.is_file()), ())


def _order(item: tuple[str, dict[str, Any]]) -> tuple[int, str]:
    name, description = item
    known = [precision.name for precision in PRECISIONS.values()]
    precision = description["precision"]
    return (known.index(precision) if precision in known else len(known), name)


def _partitions(description: dict[str, Any]) -> int | None:
    return (description.get("delegation") or {}).get("partitions")


def _mib(size: int) -> str:
    return _three_digits(size / 2**20)


def _three_digits(value: float) -> str:
    """0.0123, 1.23, 12.3, 123, 1,234."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}" if value >= 1e-4 else f"{value:.1e}"
