"""Runs models on LiteRT's GPU accelerator and in a GPU's half precision, and compares with the CPU.

The device is a GPU with a Vulkan driver or, without one, SwiftShader, which Chromium brings and
which computes in float32. Weights are random, but like trained ones. Differences are the largest of
a score, as a fraction of half of the scores' range: on the device; in half precision by XNNPACK on
the CPU; and in half precision emulated with sums in float32 and in float16.
"""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from keras_vit._errors import RefusedError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run


@dataclasses.dataclass(frozen=True)
class Arguments:
    models: tuple[str, ...] = ("ViT_Ti16",)
    """Names of keras_vit.list_models()."""
    quantize: tuple[str, ...] = ("none", "float16")
    """Precisions without calibration."""
    image_size: int = 224
    """Height and width in pixels."""


def main(arguments: Arguments) -> None:
    rows = [row for name in arguments.models for row in _rows(name, arguments)]
    header = ["model", "file", "device", "taken whole", "difference", "XNNPACK half"]
    print(f"\n{table([*header, 'float32 sums', 'float16 sums', 'seconds'], rows)}")


def _rows(name: str, arguments: Arguments) -> list[list[str]]:
    from contenders import trained_like

    import keras_vit
    from keras_vit import deploy
    from keras_vit.deploy.judge.gpu import judge_on_gpu
    from keras_vit.tflite.compiled_model import predict_in_half_precision

    keras_vit._keras.keras.utils.set_random_seed(0)
    model = trained_like(keras_vit.create_model(name, 1000, arguments.image_size))
    # Coarse noise, because all images of pixel noise are nearly the same to a model.
    pixels = np.random.default_rng(0).integers(0, 256, (2, 14, 14, 3), np.uint8)
    images = keras_vit.preprocess(list(pixels), model)
    rows = []
    for quantize in arguments.quantize:
        print(f"  {name}, {quantize}", flush=True)
        precision, content = deploy.precision_of(quantize), deploy.to_tflite(model, quantize)
        expected = deploy.Runner(content).predict(images)
        scale = float(np.ptp(expected)) / 2
        start = time.perf_counter()
        found = judge_on_gpu(content, precision, images, scale)
        seconds = time.perf_counter() - start
        half = {entry.sums: entry for entry in found.half_precision}
        try:
            scores = predict_in_half_precision(content, images)
            xnnpack = f"{np.abs(scores - expected).max() / scale:.1e}"
        except RefusedError:
            xnnpack = "refused"
        rows.append(
            [
                name,
                precision.name,
                found.device or "not run",
                "yes" if found.max_difference is not None else found.problem,
                _fraction(found.max_difference, scale),
                xnnpack if precision.is_float else "",
                *(_half(half.get(sums), scale) for sums in ("float32", "float16")),
                f"{seconds:.0f}",
            ]
        )
    return rows


def _half(entry, scale: float) -> str:
    if entry is None:
        return ""
    return entry.problem or _fraction(entry.max_difference, scale)


def _fraction(difference: float | None, scale: float) -> str:
    return "" if difference is None else f"{difference / scale:.1e}"


if __name__ == "__main__":
    run(main, Arguments)
