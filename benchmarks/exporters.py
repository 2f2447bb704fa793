"""Times one model through our exporter, others' exporters and other runtimes, in turn.

Latency of one image, put in, computed, scores taken out: medians of rounds in which every
contender is timed once, and of its ratio to the first within each; cosine of the logits with
Keras'. What is not installed or has no such model is
named and left out. --ablation leaves out each exact rewrite in turn; --outliers 100 makes six
channels of the residual stream 30 to 100 times as large as the others.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keras_vit import _checks, _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli._fields import option
from keras_vit.cli._printing import table
from keras_vit.cli._program import run

_PACKAGES = [
    "keras_vit",
    "tensorflow",
    "keras",
    "keras-hub",
    "ai-edge-litert",
    "ai-edge-quantizer",
    "litert-torch",
    "torch",
    "transformers",
    "onnxruntime",
    "openvino",
]
# Far above trained ViTs', far below what float32 squares without overflow.
_MOST_OUTLYING = 10_000


@dataclasses.dataclass(frozen=True)
class Arguments:
    model: str = "ViT_B16"
    """A name of keras_vit.list_models(); its weights are random, as training leaves them."""
    image_size: int | tuple[int, int] = option(224, check=_checks.positive_integer)
    """One number, or height and width, in pixels."""
    contenders: tuple[str, ...] = ()
    """Names from the table that this prints, or parts of names; default: all."""
    ablation: bool = False
    """Compare our float32 file with files that leave out one rewrite each, and all."""
    outliers: float = 1.0
    """How much larger than the others the largest channels of the residual stream may be (ViTs)."""
    rounds: int = option(20, check=_checks.positive_integer)
    """How often each contender is timed, each time after a run that is not."""
    threads: Literal[1, 2, 4, 8] = 2
    """Of each runtime."""
    json: Path | None = None
    """Also write the figures here."""

    def __post_init__(self):
        if not 1 <= _checks.number("outliers", self.outliers) <= _MOST_OUTLYING:
            raise UsageError(
                f"outliers must lie in [1, {_MOST_OUTLYING}]. Received: outliers={self.outliers}."
            )
        if self.ablation and self.contenders:
            raise UsageError("--ablation compares our own files only: leave out --contenders.")


def main(arguments: Arguments) -> None:
    import contenders

    import keras_vit
    from keras_vit._keras import keras

    wanted = _wanted(arguments.contenders, contenders.CONTENDERS)
    keras.utils.set_random_seed(0)
    model = keras_vit.create_model(arguments.model, 1000, arguments.image_size)
    contenders.trained_like(model, arguments.outliers)
    height, width = model.image_size
    # Coarse, as pictures are: noise of single pixels is all the same to a model.
    size = max(height // 16, 2), max(width // 16, 2)
    pixels = np.random.default_rng(0).integers(0, 256, (24, *size, 3), np.uint8)
    images = keras_vit.preprocess(list(pixels), model)
    setting = contenders.setting(model, images[:8], images[8:], arguments.threads)
    expected = np.asarray(model(images[:8], training=False))
    if arguments.ablation:
        built = contenders.ablation(setting, say=_say)
    else:
        built = _built(wanted, setting)
    times = _timed(built, arguments.rounds)
    first = next(iter(times.values()))
    rows = {}
    for name, made in built.items():
        cosine = None if made.logits is None else _cosine(made.logits, expected)
        # Within a round: what slows the machine down for a while slows all of it down.
        ratio = float(np.median(np.divide(times[name], first)))
        median = float(np.median(times[name]))
        rows[name] = {"ms": median, "ratio": ratio, "bytes": made.bytes, "cosine": cosine}
    installed = " ".join(f"{name} {found}" for name in _PACKAGES if (found := _version(name)))
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {arguments.threads} threads"
    size = f"{height} x {width}"
    print(f"\n{arguments.model} at {size}, {machine}\n{installed}\n\n{_table(rows)}")
    if arguments.json:
        content = {
            "format": 1,
            "model": arguments.model,
            "image_size": arguments.image_size,
            "outliers": arguments.outliers,
            "machine": machine,
            "versions": installed,
            "rows": rows,
        }
        _files.write_json(arguments.json, content)


def _wanted(parts: tuple[str, ...], names: Iterable[str]) -> list[str]:
    """The names with one of the parts in them; all if there are no parts."""
    for part in parts:
        if not any(part.lower() in name.lower() for name in names):
            raise UsageError(f"contenders must be parts of {', '.join(names)}. Received: {part!r}.")
    return [
        name for name in names if not parts or any(part.lower() in name.lower() for part in parts)
    ]


def _built(wanted: list[str], setting: Any) -> dict[str, Any]:
    import contenders

    built = {}
    for name in wanted:
        _say(name)
        try:
            built[name] = contenders.contender(name, setting)
        except (ImportError, UsageError, RefusedError) as error:
            print(f"  left out: {error}", file=sys.stderr)
    if not built:
        raise UsageError("every contender was left out: see why above, or choose others.")
    return built


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


def _timed(built: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in built}
    for _ in range(rounds):
        for name, made in built.items():
            made.run()  # threads of the contender before may still be awake, its data in the cache
            start = time.perf_counter()
            made.run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times


def _cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    return float(((ours * theirs).sum(-1) / norms).min())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _table(rows: dict[str, dict]) -> str:
    header = ["contender", "ms", "ratio", "MiB", "cosine"]
    return table(
        header,
        [
            [
                name,
                f"{row['ms']:.1f}",
                f"{row['ratio']:.3f}",
                "" if row["bytes"] is None else f"{row['bytes'] / 2**20:,.1f}",
                "" if row["cosine"] is None else f"{row['cosine']:.6f}",
            ]
            for name, row in rows.items()
        ],
    )


if __name__ == "__main__":
    run(main, Arguments)
