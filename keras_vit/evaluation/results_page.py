"""A page of results, and the same results as JSON and CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_vit import _files
from keras_vit._pages import rendered


def write_results(
    folder: Path,
    name: str,
    content: Mapping[str, Any],
    template: str,
    csv_table: tuple[Sequence[str], Sequence[Mapping[str, Any]]] | None = None,
    **values: Any,
) -> Path:
    """Writes NAME.json, NAME.csv and index.html, and returns the path of the page.

    Args:
        folder: the folder; other files in it stay.
        name: the name of the files of results.
        content: the content of NAME.json; the page has its `title` and `facts`, if it has them.
        template: the page's template, "evaluation/TEMPLATE.html.j2".
        csv_table: the columns and the rows of NAME.csv; None for no such file.
        values: what else the template shows.
    """
    _files.write_json(folder / f"{name}.json", {"format": 1, **content})
    if csv_table is not None:
        columns, rows = csv_table
        stream = io.StringIO()
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        _files.write_text(folder / f"{name}.csv", stream.getvalue())
    values |= {name: content[name] for name in ("title", "facts") if name in content}
    _files.write_text(folder / "index.html", rendered(f"evaluation/{template}.html.j2", **values))
    return folder / "index.html"


def read_results(path: Path, schema: type) -> Any:
    """The content of a JSON file as `schema`; None if there is no such file."""
    return _files.read_record(path, schema, format=1) if path.is_file() else None


def mean_text(values: Sequence[float]) -> str:
    """The mean of fractions in percent; of several, with their standard deviation."""
    mean = f"{statistics.mean(values):.2%}"
    return mean if len(values) == 1 else f"{mean} \u00b1 {statistics.stdev(values):.2%}"
