"""`.safetensors` files of weights, as timm and transformers write them."""

from __future__ import annotations

import random
from pathlib import Path

from safetensors.numpy import load, save

from fuzzing.kind import Files
from fuzzing.kinds import _weights
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import tensors

MEMORY = 64 << 20  # what TensorFlow takes for the models that are built


def seeds(home: Path) -> list[Files]:
    small = [
        files
        for layout in ("timm", "transformers")
        for files in _weights.saved(home, ".safetensors", layout=layout)
    ]
    names = ("timm_token", "timm_map", "hf_classifier", "hf_base")
    names = [f"{name}.safetensors" for name in names]
    fixtures = _weights.fixtures(*names, to="model.safetensors")
    return [*small, *fixtures, _prefixed(fixtures[0])]


def _prefixed(files: Files) -> Files:
    arrays = load(files["model.safetensors"])
    return files | {"model.safetensors": save({f"a.b.{k}": each for k, each in arrays.items()})}


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".safetensors": tensors.mutated})


def read(folder: Path, home: Path) -> None:
    _weights.read(folder)
