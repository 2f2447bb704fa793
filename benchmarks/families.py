"""Lets timm, transformers and KerasHub read what `save_weights` writes, and compares outputs.

Small models with random weights, one or more of each family of files. The libraries read each
folder in environments of their own, timm and transformers at the model's image size and at two
others, for which they resample positions by their own code; EoMT only at its own. KerasHub reads
some of transformers' folders; the image towers of CLIP and SigLIP, of which it reads no folders,
get the same weights. The exit code is 3 if an output differs by more than 1e-5 of the largest, if a
weight is missing or unexpected there, or if they could not be installed.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from environments import FOLDER, Environment, installed

import keras_vit
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.cli._printing import table
from keras_vit.cli._program import run

LIBRARIES = Environment(
    "pytorch", ("timm==1.0.31", "transformers==5.24.0", "torch", "torchvision", "scipy")
)
KERAS_HUB_RUNNER = Path(__file__).resolve().with_name("keras_hub_runner.py")
KERAS_HUB = Environment("keras hub", ("keras-hub==0.32.0", "safetensors"))
SIZES = (32, 48, 24)  # the model's, a larger and a smaller one
_GATED = {"mlp_kind": "gated", "activation": "silu", "mlp_dim": 128}
_SHARP = {"resampling": "bicubic_sharp"}
_DINOV2 = _SHARP | {"layer_scale": 0.5}
_REGISTERS = {"layer_scale": 0.5, "registers": 4, "resampling": "bicubic"}
_GAP = {"pooling": "gap", "norm_after_pooling": True, "registers": 2, "resampling": "bicubic"}
_DINOV3 = {"layer_scale": 0.5, "rotation": "dinov3", "layer_norm_eps": 1e-5}
_DINOV3 |= {"position_embedding": "none", "key_bias": False, "registers": 4}
_EVA02 = {"rotation": "eva02", "key_bias": False, "resampling": "bicubic", "activation": "silu"}
_EVA02 |= {"pooling": "token_gap", "norm_after_pooling": True, "mlp_kind": "gated_norm"}
_CLIP = {"embedding_norm": True, "patch_bias": False, "layer_norm_eps": 1e-5, "activation": "quick"}
_EOMT = {"dense_head": "eomt", "head_cells": 2, "num_queries": 6, "query_blocks": 1}
# By name: the layout, fields of the spec, and classes.
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "ViT": ("transformers", _SHARP, 5),
    "ViT, quick GELU": ("transformers", _SHARP | {"activation": "quick"}, 5),
    "DINOv2": ("transformers", _DINOV2 | {"pooling": "token_mean"}, 5),
    "DINOv2 without head": ("transformers", _DINOV2, 0),
    "DINOv2, SwiGLU": ("transformers", _DINOV2 | _GATED | {"pooling": "token_mean"}, 5),
    "DINOv2, registers": ("transformers", _REGISTERS | {"pooling": "token_mean"}, 5),
    "DINOv2, registers, SwiGLU, without head": ("transformers", _REGISTERS | _GATED, 0),
    "DINOv3": ("transformers", _DINOV3, 0),
    "DINOv3, SwiGLU, all biases": ("transformers", _DINOV3 | _GATED | {"key_bias": True}, 0),
    "CLIP": ("transformers", _CLIP | _SHARP, 0),
    "CLIP with projection": ("transformers", _CLIP | _SHARP | {"projection_dim": 40}, 0),
    "SigLIP": ("transformers", _SHARP | {"pooling": "map", "activation": "tanh"}, 0),
    "SigLIP, classifier": ("transformers", _SHARP | {"pooling": "gap", "activation": "tanh"}, 5),
    "DeiT": ("transformers", _SHARP | {"pooling": "distilled"}, 5),
    "DeiT, one classifier": ("transformers", _SHARP | {"pooling": "distilled_token"}, 5),
    "DeiT without head": (
        "transformers",
        _SHARP | {"pooling": "distilled_token", "representation_dim": 48},
        0,
    ),
    "EoMT": ("transformers", _DINOV2 | _EOMT | {"registers": 4}, 5),
    "EoMT, SwiGLU": ("transformers", _DINOV2 | _EOMT | _GATED | {"registers": 4}, 5),
    "EoMT, DINOv3": ("transformers", _DINOV3 | _EOMT, 5),
    "timm": ("timm", {"resampling": "bicubic"}, 5),
    "timm, CLIP": ("timm", _CLIP | {"resampling": "bicubic"}, 5),
    "timm, LayerScale and registers": ("timm", _REGISTERS, 5),
    "timm, registers and SwiGLU": ("timm", _REGISTERS | _GATED, 5),
    "timm, QK-norm": ("timm", {"qk_norm": True, "resampling": "bicubic"}, 5),
    "timm, average pooling and registers": ("timm", _GAP | {"layer_scale": 0.1}, 5),
    "timm, average pooling and QK-norm, without head": ("timm", _GAP | {"qk_norm": True}, 0),
    "timm, average pooling beside a class token": (
        "timm",
        {"pooling": "token_gap", "resampling": "bicubic"},
        5,
    ),
    "timm, DINOv3": ("timm", _DINOV3, 5),
    "timm, DINOv3, SwiGLU, without biases or head": (
        "timm",
        _DINOV3 | _GATED | {"query_bias": False, "value_bias": False, "pooling": "token_gap"},
        0,
    ),
    "timm, EVA-02": ("timm", _EVA02, 5),
    "timm, EVA-02 without norms in MLPs": ("timm", _EVA02 | {"mlp_kind": "gated"}, 5),
    "timm, EVA-02's rotation, registers, QK-norm": (
        "timm",
        _EVA02 | _GAP | {"mlp_kind": "plain", "activation": "erf", "qk_norm": True},
        5,
    ),
    "timm, EVA": ("timm", {"key_bias": False, "resampling": "bicubic"}, 5),
}
_READ = """
import json, sys, warnings; warnings.filterwarnings("ignore")
import numpy as np, timm, torch, transformers
transformers.logging.set_verbosity_error()
images, answers = np.load("images.npz"), {}
def pixels(size): return torch.tensor(images[str(size)].transpose(0, 3, 1, 2).copy())
def of_transformers(size, headless):
    name = json.load(open("model/config.json"))["architectures"][0]
    masks = name.startswith("Eomt")
    kind = transformers.AutoModelForImageClassification
    kind = getattr(transformers, name) if headless or masks else kind
    model, found = kind.from_pretrained("model", output_loading_info=True)
    faults = [key for keys in found.values() for key in keys]
    assert not faults, faults
    asks = not model.config.model_type.startswith("dino")
    options = {"interpolate_pos_encoding": True} if asks and size != SIZES[0] else {}
    output = model.eval()(pixels(size), **options)
    if masks:
        both = (output.masks_queries_logits, output.class_queries_logits)
        return torch.cat([each.flatten(1) for each in both], dim=1)
    embeds = output.image_embeds if "Projection" in name else None
    return embeds if embeds is not None else output.pooler_output if headless else output.logits
def of_timm(size, headless):
    model = timm.create_model("local-dir:model", pretrained=True, img_size=size)
    return model.eval()(pixels(size))
with torch.no_grad():
    for size in SIZES:
        read = of_timm if LAYOUT == "timm" else of_transformers
        answers[str(size)] = read(size, HEADLESS).numpy()
np.savez("answers.npz", **answers)
"""


# Those that KerasHub has too.
IN_KERAS_HUB = (
    *("ViT", "DINOv2 without head", "DINOv2, SwiGLU", "DINOv2, registers", "DINOv3"),
    *("DINOv3, SwiGLU, all biases", "CLIP", "SigLIP", "DeiT"),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    environments: Path = FOLDER
    """The folder where the libraries are installed; installed ones are reused."""
    python: str = sys.executable
    """The Python to install them for."""


def main(arguments: Arguments) -> None:
    pythons = [
        installed(environment, arguments.environments, arguments.python)
        for environment in (LIBRARIES, KERAS_HUB)
    ]
    if None in pythons:
        raise RefusedError("timm, transformers or KerasHub: not installed")
    rows, failed = [], []
    for name, (layout, fields, classes) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            images = _write(layout, fields, classes, Path(folder))
            sizes = SIZES[:1] if "dense_head" in fields else SIZES
            found = differences(pythons[0], Path(folder), images, sizes, layout, classes)
            in_keras_hub = name in IN_KERAS_HUB
            found += [from_keras_hub(pythons[1], Path(folder), images)] if in_keras_hub else []
        cells = [f"{each:.1e}" for each in found]
        rows.append((name, layout, *cells, *[""] * (len(SIZES) + 1 - len(cells))))
        if max(found) > 1e-5:
            failed.append(f"{name}: {max(found):.1e}")
    heads = ("model", "layout", *(f"{size} px" for size in SIZES), "KerasHub")
    print(f"\nlargest difference / largest output\n{table(heads, rows)}")
    if failed:
        raise RefusedError("\n".join(failed))


Images = dict[str, np.ndarray]


def differences(
    python: str, folder: Path, images: Images, sizes: tuple[int, ...], layout: str, classes: int
) -> list[float]:
    """The largest difference of an output at each of the sizes, as a fraction of the largest."""
    settings = f"SIZES, LAYOUT, HEADLESS = {sizes}, {layout!r}, {not classes}\n"
    subprocess.run([python, "-c", settings + _READ], cwd=folder, check=True)
    answers = np.load(folder / "answers.npz")
    return [
        _difference(_output(_model(folder, size), images[str(size)]), answers[str(size)])
        for size in sizes
    ]


def _output(model: keras_vit.ViT, images: np.ndarray) -> np.ndarray:
    """The output, or of EoMT both in a row: masks (2, queries * cells), then classes."""
    output = model(images)
    if not isinstance(output, dict):
        return np.asarray(output)
    masks = np.asarray(output["masks"]).transpose(0, 3, 1, 2)  # (2, queries, rows, columns)
    return np.concatenate([each.reshape(2, -1) for each in (masks, output["classes"].numpy())], 1)


def from_keras_hub(python: str, folder: Path, images: Images) -> float:
    """The largest difference from KerasHub's output: all tokens, or of SigLIP the pooled ones."""
    key = str(SIZES[0])
    words = [KERAS_HUB_RUNNER, "model", "images.npz", key, "output.npy"]
    subprocess.run([python, *words], cwd=folder, check=True)
    expected = np.load(folder / "output.npy")
    model = _model(folder, SIZES[0])
    name = "encoded" if expected.ndim == 3 else "pre_logits"
    actual = model.intermediates(name)(images[key])[name]
    return _difference(np.asarray(actual), expected)


def _model(folder: Path, size: int) -> keras_vit.ViT:
    return keras_vit.model_from_weights(folder / "model", image_size=size)


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def _write(layout: str, fields: dict[str, Any], classes: int, folder: Path) -> Images:
    keras.utils.set_random_seed(0)
    spec = keras_vit.ViTSpec(8, 48, 2, 3, 96, activation="erf")
    model = keras_vit.ViT(dataclasses.replace(spec, **fields), classes, SIZES[0])
    rng = np.random.default_rng(1)
    # Random norms, biases and heads, because zeros and ones would hide errors.
    noise = [rng.normal(0, 0.3, array.shape).astype("float32") for array in model.get_weights()]
    values = zip(model.get_weights(), noise, strict=True)
    model.set_weights([array + each for array, each in values])
    keras_vit.save_weights(model, folder / "model" / "model.safetensors", layout)
    rng = np.random.default_rng(0)
    images = {str(size): rng.normal(size=(2, size, size, 3)).astype("float32") for size in SIZES}
    np.savez(folder / "images.npz", **images)
    return images


if __name__ == "__main__":
    run(main, Arguments)
