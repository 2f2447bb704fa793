"""The report on exported files: table.json, a model card and a plot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.deploy.bundle.accuracy_plot import plot
from keras_vit.deploy.bundle.card import card
from keras_vit.deploy.bundle.description import Described
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.tflite.measure import Measured, machine

FORMAT = 1


def write_report(
    folder: str | os.PathLike,
    descriptions: dict[str, dict[str, Any]],
    measured: dict[str, Measured],
    refused: Mapping[str, str] = MappingProxyType({}),
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
    hashes = {name: description["sha256"] for name, description in earlier.items()}
    figures = {name: known[sha256] for name, sha256 in hashes.items() if sha256 in known} | measured
    files = dict(sorted({**earlier, **descriptions}.items(), key=_order))
    picture = plot(files, figures)
    labels = _labels(folder, files)
    text = card(files, table(files, figures), figures, labels, machine(), tuple(earlier), refused)
    with _files.replacing(folder / "plot.png") as temporary:
        temporary.write_bytes(picture)
    _files.write_text(folder / "card.md", text)
    threads = max((entry.threads for m in measured.values() for entry in m.latency), default=0)
    sizes = {name: values.compressed_bytes for name, values in figures.items()}
    rows = [
        _row(name, description, figures.get(name), sizes) | {"earlier": name in earlier}
        for name, description in files.items()
    ]
    _files.write_json(folder / "table.json", table_record(rows, refused, threads))


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


def table_row(
    name: str, precision: str, parity: dict[str, Any], bytes: int, sha256: str, **more: Any
) -> dict[str, Any]:
    """A row of table.json; unknown values are None.

    Args:
        name: name of the bundle's folder.
        precision: precision of the file.
        parity: the result of `Verdict.to_dict`.
        bytes: size of the file.
        sha256: hash of the file.
        more: values of other fields.
    """
    return {
        "name": name,
        "precision": precision,
        **{figure: parity.get(figure) for figure in _FIGURES},
        "bytes": bytes,
        "sha256": sha256,
        **dict.fromkeys(_MORE),
        **more,
        "earlier": False,
    }


_FIGURES = (
    *("images", "accuracy", "keras_accuracy", "informed", "drop", "largest_drop"),
    *("agreement", "max_difference", "error", "cosine"),
)
_MORE = (
    *("weights_sha256", "partitions", "deflated", "deflated_ratio"),
    *("latency_ms", "measured", "compression"),
)


def table(
    descriptions: dict[str, dict[str, Any]], measured: dict[str, Measured]
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table, as text; a column without any value is left out.

    A drop of accuracy is in percentage points; "drop, 95%" is the largest drop that the images do
    not exclude. "ms" are medians, and "p90" belongs to the column before it; "zipped" is in MiB.

    Args:
        descriptions: the model.json of each bundle, by the name of its folder.
        measured: the measurements of each file, by the same names; some may be missing.
    """
    columns = [
        (column.header, [column.cell(d, measured.get(name)) for name, d in descriptions.items()])
        for column in _columns(measured)
    ]
    filled = [(header, cells) for header, cells in columns if any(cells)]
    rows = zip(descriptions, *(cells for _, cells in filled), strict=True)
    return ["file", *(header for header, _ in filled)], [
        [cell or "-" for cell in row] for row in rows
    ]


class _Column(NamedTuple):
    header: str
    value: Callable[[dict[str, Any], Measured | None], float | None]
    text: Callable[[float], str]

    def cell(self, description: dict[str, Any], measured: Measured | None) -> str:
        value = self.value(description, measured)
        return "" if value is None else self.text(value)


def _columns(measured: dict[str, Measured]) -> list[_Column]:
    threads = {entry.threads: None for m in measured.values() for entry in m.latency}
    return [
        _Column("accuracy", lambda d, m: d["parity"].get("accuracy"), "{:.2%}".format),
        _Column("drop", lambda d, m: _drop(d["parity"]), "{:.2f}".format),
        _Column("drop, 95%", lambda d, m: d["parity"].get("largest_drop"), "{:.2f}".format),
        _Column("agreement", lambda d, m: d["parity"].get("agreement"), "{:.2%}".format),
        _Column("worst", lambda d, m: _worst(d["parity"]), "{:.1%}".format),
        _Column("cosine", lambda d, m: d["parity"].get("cosine"), "{:.5f}".format),
        _Column("MiB", lambda d, m: _mib(d["bytes"]), _three_digits),
        _Column("zipped", lambda d, m: _mib(m and m.compressed_bytes), _three_digits),
        *(column for count in threads for column in _latency_columns(count)),
        _Column("peak MiB", lambda d, m: _mib(m and m.peak_bytes), "{:,.0f}".format),
        _Column("load s", lambda d, m: m and m.load_s, _three_digits),
        _Column("parts", lambda d, m: d.get("delegation", {}).get("partitions"), str),
    ]


def _latency_columns(threads: int) -> list[_Column]:
    def value(field: str) -> Callable[[dict[str, Any], Measured | None], float | None]:
        return lambda d, m: next(
            (getattr(e, field) for e in (m.latency if m else ()) if e.threads == threads), None
        )

    header = f"ms, {threads} thread{'' if threads == 1 else 's'}"
    return [
        _Column(header, value("median_ms"), _three_digits),
        _Column("p90", value("p90_ms"), _three_digits),
    ]


def _row(
    name: str, description: dict[str, Any], measured: Measured | None, sizes: dict[str, int]
) -> dict[str, Any]:
    entries = measured.latency if measured else ()
    latency = max(entries, key=lambda entry: entry.threads, default=None)
    deflated, float_size = sizes.get(name), sizes.get("float32")
    return table_row(
        name,
        description["precision"],
        description["parity"],
        description["bytes"],
        description["sha256"],
        weights_sha256=description.get("weights_sha256"),
        partitions=description.get("delegation", {}).get("partitions"),
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
    measured = {row["sha256"]: row["measured"] for row in table["rows"] if row.get("measured")}
    return {sha256: Measured.from_dict(values) for sha256, values in measured.items()}


class _Measurement(Struct):
    sha256: str
    measured: Measured | None = None


class _Measurements(Struct):
    """What is read of table.json."""

    rows: list[_Measurement]


def _labels(folder: Path, names: dict[str, Any]) -> tuple[str, ...]:
    files = (folder / name / "labels.txt" for name in names)
    first = next((file for file in files if file.is_file()), None)
    return () if first is None else _files.read_lines(first, errors="replace")


def _order(item: tuple[str, dict[str, Any]]) -> tuple[int, str]:
    name, description = item
    known = [precision.name for precision in PRECISIONS.values()]
    precision = description["precision"]
    return (known.index(precision) if precision in known else len(known), name)


def _drop(parity: dict[str, Any]) -> float | None:
    if parity.get("accuracy") is None or parity.get("keras_accuracy") is None:
        return None
    return round(100 * (parity["keras_accuracy"] - parity["accuracy"]), 2) + 0.0  # no -0.00


def _worst(parity: dict[str, Any]) -> float | None:
    """The largest difference of a score, as a fraction of the scores' scale."""
    known = parity.get("max_difference") is not None and parity.get("scale")
    return parity["max_difference"] / parity["scale"] if known else None


def _mib(size: int | None) -> float | None:
    return None if size is None else size / 2**20


def _three_digits(value: float) -> str:
    """0.0123, 1.23, 12.3, 123, 1,234."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}" if value >= 1e-4 else f"{value:.1e}"
