"""Times one model through keras_vit's exporter, other exporters and other runtimes.

Every contender is timed once per round, from setting one image to reading the scores. Printed are
medians of the latency and of its ratio to the first contender in the same round, and the cosine of
the logits with Keras'. Contenders that are not installed or do not have such a model are left out.
--ablation leaves out one exact rewrite at a time; --outliers 100 makes six channels of the residual
stream 30 to 100 times larger than the others.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keras_vit import _checks, _files
from keras_vit._errors import RefusedError, UsageError
from keras_vit._quiet import own_process
from keras_vit.cli._arguments import option
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
# Far above the outliers of trained ViTs, and far below an overflow of squares in float32.
_MAX_OUTLIERS = 10_000


@dataclasses.dataclass(frozen=True)
class Arguments:
    model: str = "ViT_B16"
    """A name of keras_vit.list_models(); its weights are random, but like trained ones."""
    image_size: int | tuple[int, int] = option(224, check=_checks.positive_integer)
    """One number, or height and width, in pixels."""
    contenders: tuple[str, ...] = ()
    """Names from the printed table, or parts of names; default: all."""
    ablation: bool = False
    """Compare keras_vit's float32 file with files without one rewrite, and without all."""
    outliers: float = 1.0
    """How much larger than the others the largest channels of the residual stream may be (ViTs)."""
    rounds: int = option(20, check=_checks.positive_integer)
    """How often each contender is timed, each time after a warm-up run."""
    threads: Literal[1, 2, 4, 8] = 2
    """Number of threads of each runtime."""
    json: Path | None = None
    """Also write the results to this file."""

    def __post_init__(self):
        if not 1 <= _checks.number("outliers", self.outliers) <= _MAX_OUTLIERS:
            raise UsageError(
                f"outliers must lie in [1, {_MAX_OUTLIERS}]. Received: outliers={self.outliers}."
            )
        if self.ablation and self.contenders:
            raise UsageError("--ablation only compares files of keras_vit: leave out --contenders.")


def main(arguments: Arguments) -> None:
    import contenders

    import keras_vit
    from keras_vit._keras import keras

    own_process()
    selected = _wanted(arguments.contenders, contenders.CONTENDERS)
    keras.utils.set_random_seed(0)
    model = keras_vit.create_model(arguments.model, 1000, arguments.image_size)
    contenders.trained_like(model, arguments.outliers)
    height, width = model.image_size
    # Coarse noise, because all images of pixel noise are nearly the same to a model.
    size = max(height // 16, 2), max(width // 16, 2)
    pixels = np.random.default_rng(0).integers(0, 256, (24, *size, 3), np.uint8)
    images = keras_vit.preprocess(list(pixels), model)
    setting = contenders.setting(model, images[:8], images[8:], arguments.threads)
    expected = np.asarray(model(images[:8], training=False))
    if arguments.ablation:
        built = contenders.ablation(setting, say=_say)
    else:
        built = _built(selected, setting)
    times = contenders.in_turn({name: made.run for name, made in built.items()}, arguments.rounds)
    first = next(iter(times.values()))
    rows = {}
    for name, made in built.items():
        cosine = None if made.logits is None else _cosine(made.logits, expected)
        # A ratio within a round: a slow machine slows down all contenders of the round.
        ratio = float(np.median(np.divide(times[name], first)))
        median = 1e3 * float(np.median(times[name]))
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
    """The names that contain one of the parts; all names if there are no parts."""
    for part in parts:
        if not any(part.lower() in name.lower() for name in names):
            raise UsageError(f"contenders must be parts of {', '.join(names)}. Received: {part!r}.")
    return [
        name for name in names if not parts or any(part.lower() in name.lower() for part in parts)
    ]


def _built(names: list[str], setting: Any) -> dict[str, Any]:
    import contenders

    built = {}
    for name in names:
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


def _cosine(actual: np.ndarray, expected: np.ndarray) -> float:
    norms = np.linalg.norm(actual, axis=-1) * np.linalg.norm(expected, axis=-1)
    return float(((actual * expected).sum(-1) / norms).min())


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
