"""`.npz` files of weights: the official layout, with and without metadata."""

from __future__ import annotations

import random
from pathlib import Path

from fuzzing.kind import Files
from fuzzing.kinds import _weights
from fuzzing.kinds._reading import in_one_file
from fuzzing.mutations import zips

# An archive may unpack to eight times its size and 128 MiB, for heads of zeros. Such an array is
# there as the file's, the model's and the one that is checked.
MEMORY = 512 << 20


def seeds(home: Path) -> list[Files]:
    linen = _weights.fixtures("vit_token_linen.weights.npz", "hybrid_stem.weights.npz", to="w.npz")
    return [*_weights.saved(home, ".npz"), *linen]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".npz": zips.mutated})


def read(folder: Path, home: Path) -> None:
    _weights.read(next(folder.glob("*.npz"), folder / "model.npz"))
