"""The JSON files beside a `.safetensors`: config.json and preprocessor_config.json."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

from fuzzing.kind import Files
from fuzzing.kinds import _weights
from fuzzing.kinds._reading import each_of, in_one_file, small_model
from fuzzing.kinds.safetensors import MEMORY, seeds
from fuzzing.mutations import json_text
from keras_vit import save_weights

__all__ = ["MEMORY", "mutate", "read", "seeds"]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".json": json_text.mutated})


def read(folder: Path, home: Path) -> None:
    each_of(
        lambda: _weights.read(folder),
        lambda: save_weights(_model(), folder / "model.safetensors"),  # may it be replaced?
    )


@functools.cache
def _model() -> Any:
    return small_model()
