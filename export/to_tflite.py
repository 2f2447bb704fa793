"""Exports a trained run to TFLite bundles, each checked against Keras before it gets its name.

Without --run the newest run under runs/ is exported. A bundle holds model.tflite, model.json,
labels.txt and golden.json.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import Literal

from keras_vit import _checks, _command, _files
from keras_vit._errors import UsageError


@dataclasses.dataclass(frozen=True)
class Arguments:
    run: Path | None = None
    """The run folder; default: the newest under runs/."""
    quantize: tuple[Literal["none", "float16", "int8"], ...] = ("none",)
    """One precision or several: none is float32, int8 is dynamic range."""
    out: Path | None = None
    """Where the bundles go, a folder for each precision; default: export/ in the run folder."""
    images: int = 500
    """At most this many held-out images are compared, evenly chosen."""
    threads: int = 2
    """Of the interpreter, when latency is measured."""
    data: Path | None = None
    """Where the run's pictures are, if not where they were."""

    def __post_init__(self):
        _checks.positive_integer("images", self.images)
        _checks.positive_integer("threads", self.threads)
        if not self.quantize:
            raise UsageError("quantize needs at least one of none, float16, int8.")


def main(arguments: Arguments) -> None:
    from keras_vit import data, deploy, runs

    run = runs.open_run(arguments.run or runs.newest_run())
    out = arguments.out or run.path / "export"
    print(f"exporting {run.path} ({run.spec['model']}, {len(run.labels)} classes)", flush=True)
    model, source = run.model(), run.source(arguments.data)
    held_out = run.split(source).held_out
    chosen = held_out[:: -(-len(held_out) // arguments.images)]
    inputs, targets = data.load(source, chosen, model.preprocessing)
    keras_scores = deploy.predict(model, inputs)
    contents, descriptions = {}, {}
    for quantize in dict.fromkeys(arguments.quantize):
        precision = deploy.precision_of(quantize)
        print(f"  {precision}: converting, then comparing on {len(inputs)} images", flush=True)
        content = deploy.to_tflite(model, quantize)
        scores = deploy.Runner(content, arguments.threads).predict(inputs)
        descriptions[precision] = deploy.write_bundle(
            out / precision,
            content,
            deploy.compare(precision, keras_scores, scores, targets),
            run.labels,
            model.preprocessing,
            source.image(int(chosen[0])),
            run.spec["model"],
            parity_images=f"held-out images of {source.name}",
        )
        contents[precision] = content
    print(f"  latency: batch 1, {arguments.threads} threads, in turn", flush=True)
    medians = deploy.latencies(contents, arguments.threads)
    rows = [_row(d["parity"], d["bytes"], medians[name]) for name, d in descriptions.items()]
    kept = _rows_of_others(out, descriptions)
    record = {
        "format": 1,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {arguments.threads} threads",
        "images": len(inputs),
        "rows": kept + rows,
    }
    _files.write_json(out / "table.json", record)
    print(f"\n{_table(rows)}\n\nbundles: {', '.join(str(out / name) for name in descriptions)}")


def _rows_of_others(out: Path, descriptions: dict) -> list[dict]:
    # Bundles of an earlier call that still stand stay in the table of the report.
    if not (out / "table.json").is_file():
        return []
    rows = _files.read_json(out / "table.json", format=1, fields=("rows",))["rows"]
    return [
        r for r in rows if r["precision"] not in descriptions and (out / r["precision"]).is_dir()
    ]


def _row(parity: dict, size: int, latency: float) -> dict:
    figures = ("precision", "accuracy", "keras_accuracy", "agreement", "max_difference")
    return {name: parity[name] for name in figures} | {"bytes": size, "latency_ms": latency}


def _table(rows: list[dict]) -> str:
    header = ["file", "accuracy", "Keras", "agreement", "max diff", "KiB", "ms/image"]
    return _command.table(
        header,
        [
            [
                row["precision"],
                f"{row['accuracy']:.2%}",
                f"{row['keras_accuracy']:.2%}",
                f"{row['agreement']:.2%}",
                f"{row['max_difference']:.1e}",
                f"{row['bytes'] / 1024:,.0f}",
                f"{row['latency_ms']:.2f}",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    _command.run(main, Arguments)
