"""Exports each family of encoders at the size of ViT-Ti/16, judges the files and times them.

The weights are random, with six channels of the residual stream up to 25 times larger than the
others. Files of float32, float16, dynamic and int8 are judged as an export judges them, and timed
in turn: printed are the smallest cosine with Keras' features, and the median of the latency divided
by that of a plain ViT of the same precision in the same round. Then the first register, if there is
one, gets a channel of 400, for which full integers must be refused. The exit code is 3 if another
file is refused, full integers are not, or XNNPACK leaves an operator out.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Literal

import contenders
import numpy as np
from families import MODELS

import keras_vit
from keras_vit import _checks, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit._quiet import own_process
from keras_vit.cli._arguments import option
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.tflite.runner import Runner
from keras_vit.weights.names import weight_names

# Of `families.MODELS`, the first is the plain ViT.
FAMILIES = (
    *("ViT", "DeiT", "DINOv2", "DINOv2, SwiGLU", "DINOv2, registers", "DINOv3"),
    *("DINOv3, SwiGLU, all biases", "SigLIP", "timm, CLIP", "timm, LayerScale and registers"),
    *("timm, QK-norm", "timm, average pooling and registers", "timm, EVA-02"),
    "timm, EVA-02 without norms in MLPs",
)
PRECISIONS = ("none", "float16", "dynamic", "int8")
_OUTLIERS, _HEAVY = 25.0, 400.0


@dataclasses.dataclass(frozen=True)
class Arguments:
    families: tuple[str, ...] = ()
    """Parts of names in the printed table; default: all."""
    image_size: int = option(224, check=_checks.positive_integer)
    """In pixels, a multiple of 16."""
    rounds: int = option(20, check=_checks.positive_integer)
    """How often each file is timed, each time after a warm-up run."""
    threads: Literal[1, 2, 4, 8] = 1
    """Number of threads of LiteRT."""


def main(arguments: Arguments) -> None:
    own_process()
    parts, faults = arguments.families, []
    named = [n for n in FAMILIES[1:] if not parts or any(part in n for part in parts)]
    made, rows = {}, []
    for name in (FAMILIES[0], *named):
        print(f"  {name}", flush=True)
        model, images = _model(name, arguments.image_size)
        made[name] = _judged(model, images, PRECISIONS)
        faults += _faults(name, made[name])
        heavy = _judged(_with_heavy_token(model), images, ("int8", "int8-full"))
        rows.append([name, f"{model.count_params() / 1e6:.2f}", *_heavy_cells(heavy)])
        faults += _heavy_faults(name, heavy)
    if faults:
        raise RefusedError("; ".join(faults))
    ratios = _ratios(made, images[:1], arguments)
    header = ["family", "million", *(f"{p}: cosine, time" for p in PRECISIONS)]
    header += ["int8, heavy token", "int8-full, heavy token"]
    cells = {
        name: [f"{_cosine(found)} {ratios[name, key]:.2f}" for key, found in of.items()]
        for name, of in made.items()
    }
    print(table(header, [[*row[:2], *cells[row[0]], *row[2:]] for row in rows]))


def _model(name: str, size: int) -> tuple[Any, np.ndarray]:
    """A model of a family, and images: coarse, because all noise is nearly the same to a model."""
    fields = {"mlp_dim": 768, **MODELS[name][1]}
    if fields.get("mlp_kind", "plain") != "plain":
        fields["mlp_dim"] = 512  # about as many weights in three kernels as 768 in two
    keras.utils.set_random_seed(0)
    spec = keras_vit.ViTSpec(16, 192, 12, 3, **fields)
    model = contenders.trained_like(keras_vit.ViT(spec, 0, size), _OUTLIERS)
    coarse = max(size // 16, 2)
    pixels = np.random.default_rng(0).integers(0, 256, (32, coarse, coarse, 3), np.uint8)
    return model, keras_vit.preprocess(list(pixels), model)


def _with_heavy_token(model: Any) -> Any:
    """The model with one larger register, if it has registers.

    It is large in the channel that the first norm scales down most: trained norms keep such values
    small (Sun et al. 2024).
    """
    names = weight_names(model.spec, model.num_classes, model.image_size)
    variables = {name.key: name.variable(model) for name in names}
    if "registers" not in variables:
        return None
    scales = np.asarray(variables["Transformer/encoderblock_0/LayerNorm_0/scale"])
    values = np.array(np.asarray(variables["registers"]))
    values[0, 0, np.abs(scales).argmin()] = _HEAVY
    variables["registers"].assign(values)
    return model


def _judged(model: Any, images: np.ndarray, precisions: tuple[str, ...]) -> dict[str, Any]:
    """The judged files by precision; of a refused file, why."""
    if model is None:
        return {}
    reference = deploy.Reference(images[:16], np.asarray(model(images[:16], training=False)))
    resolved = resolve(model, GraphOptions(output="features"))
    converter = deploy.Converter(resolved, precisions, images[16:])
    found: dict[str, Any] = {}
    for name in precisions:
        judged = deploy.judge_file(converter.made(name), reference)
        try:
            deploy.check(judged)
            found[name] = judged
        except RefusedError as error:
            found[name] = str(error)
    return found


def _faults(name: str, made: dict[str, Any]) -> Iterator[str]:
    """Files that were refused, and those of which XNNPACK leaves something out."""
    for precision, found in made.items():
        if isinstance(found, str):
            yield f"{name}, {precision}: {found}"
        elif found.inspection.partitions != 1 or found.inspection.undelegated:
            yield f"{name}, {precision}: XNNPACK leaves operators out"


def _heavy_cells(heavy: dict[str, Any]) -> list[str]:
    if not heavy:
        return ["no registers", ""]
    return [_cosine(found) for found in heavy.values()]


def _cosine(found: Any) -> str:
    return "refused" if isinstance(found, str) else f"{found.verdict.cosine:.4f}"


def _heavy_faults(name: str, heavy: dict[str, Any]) -> Iterator[str]:
    if heavy:
        yield from _faults(f"{name}, heavy", {"int8": heavy["int8"]})
        if "mean square" not in str(heavy["int8-full"]):
            yield f"{name}: full integers are not refused because of a heavy token"


def _ratios(
    made: dict[str, dict[str, Any]], image: np.ndarray, arguments: Arguments
) -> dict[tuple[str, str], float]:
    """The median latency of each file, divided by the plain ViT's of the same precision."""
    ratios = {}
    for precision in PRECISIONS:
        runners = {
            name: Runner(of[precision].content, arguments.threads) for name, of in made.items()
        }
        calls = {name: functools.partial(runner, image) for name, runner in runners.items()}
        times = contenders.in_turn(calls, arguments.rounds)
        for name, seconds in times.items():
            quotients = np.divide(seconds, times[FAMILIES[0]])
            ratios[name, precision] = float(np.median(quotients))
    return ratios


if __name__ == "__main__":
    run(main, Arguments)
