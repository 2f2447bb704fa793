"""Lets timm and transformers read what `save_weights` writes, and compares outputs.

Small models with random weights, one or more of each family of files. The libraries read each
folder in an environment of their own, at the model's image size and at two others, for which they
resample positions by their own code. The exit code is 3 if an output differs by more than 1e-5 of
the largest, if a weight is missing or unexpected there, or if they could not be installed.
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

LIBRARIES = Environment("pytorch", ("timm==1.0.31", "transformers==5.24.0", "torch", "torchvision"))
SIZES = (32, 48, 24)  # the model's, a larger and a smaller one
_GATED = {"mlp_kind": "gated", "activation": "silu", "mlp_dim": 128}
_DINOV2 = {"layer_scale": 0.5, "resampling": "bicubic_sharp"}
_REGISTERS = {"layer_scale": 0.5, "registers": 4, "resampling": "bicubic"}
_GAP = {"pooling": "gap", "norm_after_pooling": True, "registers": 2, "resampling": "bicubic"}
_DINOV3 = {"layer_scale": 0.5, "rotation": "dinov3", "layer_norm_eps": 1e-5}
_DINOV3 |= {"position_embedding": "none", "key_bias": False, "registers": 4}
_EVA02 = {"rotation": "eva02", "key_bias": False, "resampling": "bicubic", "activation": "silu"}
_EVA02 |= {"pooling": "token_gap", "norm_after_pooling": True, "mlp_kind": "gated_norm"}
# By name: the layout, fields of the spec, and classes.
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "ViT": ("transformers", {"resampling": "bicubic_sharp"}, 5),
    "ViT, quick GELU": ("transformers", {"activation": "quick", "resampling": "bicubic_sharp"}, 5),
    "DINOv2": ("transformers", _DINOV2 | {"pooling": "token_mean"}, 5),
    "DINOv2 without head": ("transformers", _DINOV2, 0),
    "DINOv2, SwiGLU": ("transformers", _DINOV2 | _GATED | {"pooling": "token_mean"}, 5),
    "DINOv2, registers": ("transformers", _REGISTERS | {"pooling": "token_mean"}, 5),
    "DINOv2, registers, SwiGLU, without head": ("transformers", _REGISTERS | _GATED, 0),
    "DINOv3": ("transformers", _DINOV3, 0),
    "DINOv3, SwiGLU, all biases": ("transformers", _DINOV3 | _GATED | {"key_bias": True}, 0),
    "timm": ("timm", {"resampling": "bicubic"}, 5),
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
import sys, warnings; warnings.filterwarnings("ignore")
import numpy as np, timm, torch, transformers
transformers.logging.set_verbosity_error()
images, answers = np.load("images.npz"), {}
def pixels(size): return torch.tensor(images[str(size)].transpose(0, 3, 1, 2).copy())
def of_transformers(size, headless):
    kind = transformers.AutoModel if headless else transformers.AutoModelForImageClassification
    model, found = kind.from_pretrained("model", output_loading_info=True)
    faults = [key for keys in found.values() for key in keys]
    assert not faults, faults
    is_vit = model.config.model_type == "vit"
    options = {"interpolate_pos_encoding": True} if is_vit and size != SIZES[0] else {}
    output = model.eval()(pixels(size), **options)
    return output.pooler_output if headless else output.logits
def of_timm(size, headless):
    model = timm.create_model("local-dir:model", pretrained=True, img_size=size)
    return model.eval()(pixels(size))
with torch.no_grad():
    for size in SIZES:
        read = of_timm if LAYOUT == "timm" else of_transformers
        answers[str(size)] = read(size, HEADLESS).numpy()
np.savez("answers.npz", **answers)
"""


@dataclasses.dataclass(frozen=True)
class Arguments:
    environments: Path = FOLDER
    """The folder where the libraries are installed; installed ones are reused."""
    python: str = sys.executable
    """The Python to install them for."""


def main(arguments: Arguments) -> None:
    python = installed(LIBRARIES, arguments.environments, arguments.python)
    if python is None:
        raise RefusedError("timm and transformers: not installed")
    rows, failed = [], []
    for name, (layout, fields, classes) in MODELS.items():
        found = differences(python, layout, fields, classes)
        rows.append((name, layout, *(f"{each:.1e}" for each in found)))
        if max(found) > 1e-5:
            failed.append(f"{name}: {max(found):.1e}")
    sizes = (f"{size} px" for size in SIZES)
    print(f"\nlargest difference / largest output\n{table(('model', 'layout', *sizes), rows)}")
    if failed:
        raise RefusedError("\n".join(failed))


def differences(python: str, layout: str, fields: dict[str, Any], classes: int) -> list[float]:
    """The largest difference of an output at each of `SIZES`, as a fraction of the largest."""
    rng = np.random.default_rng(0)
    images = {str(size): rng.normal(size=(2, size, size, 3)).astype("float32") for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        _write(layout, fields, classes, Path(folder) / "model")
        np.savez(Path(folder) / "images.npz", **images)
        settings = f"SIZES, LAYOUT, HEADLESS = {SIZES}, {layout!r}, {not classes}\n"
        subprocess.run([python, "-c", settings + _READ], cwd=folder, check=True)
        answers = np.load(Path(folder) / "answers.npz")
        found = []
        for size in SIZES:
            model = keras_vit.model_from_weights(Path(folder) / "model", image_size=size)
            actual, expected = np.asarray(model(images[str(size)])), answers[str(size)]
            found.append(float(np.abs(actual - expected).max() / np.abs(expected).max()))
        return found


def _write(layout: str, fields: dict[str, Any], classes: int, folder: Path) -> None:
    keras.utils.set_random_seed(0)
    spec = keras_vit.ViTSpec(8, 48, 2, 3, 96, activation="erf")
    model = keras_vit.ViT(dataclasses.replace(spec, **fields), classes, SIZES[0])
    rng = np.random.default_rng(1)
    # Random norms, biases and heads, because zeros and ones would hide errors.
    noise = [rng.normal(0, 0.3, array.shape).astype("float32") for array in model.get_weights()]
    values = zip(model.get_weights(), noise, strict=True)
    model.set_weights([array + each for array, each in values])
    keras_vit.save_weights(model, folder / "model.safetensors", layout)


if __name__ == "__main__":
    run(main, Arguments)
