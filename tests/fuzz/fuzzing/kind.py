"""What a kind of input is: a module with these names."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Protocol

# The files of an input by their paths in its folder.
Files = dict[str, bytes]
_LARGEST = 32 << 20  # bytes; mutations that make more of it are left out


class Kind(Protocol):
    """A module of `kinds`.

    Attributes:
        MEMORY: bytes that reading may take besides twice the size of the input.
    """

    MEMORY: int

    def seeds(self, home: Path) -> list[Files]:
        """Intact inputs. What is slow to make is kept in `home`, a folder of the kind's own."""

    def mutate(self, rng: random.Random, files: Files) -> Files:
        """The input after one mutation."""

    def read(self, folder: Path, home: Path) -> None:
        """Reads the input in `folder` as the library does; raises its errors."""


def load(module: str) -> Kind:
    """The kind in a module."""
    return importlib.import_module(module)


def damaged(kind: Kind, seeds: list[Files], seed: str, mutations: list[int]) -> Files:
    """One of the seeds after the mutations of these numbers; the same arguments, the same input."""
    intact = dict(random.Random(seed).choice(seeds))
    files = intact
    for number in mutations:
        try:
            more = kind.mutate(random.Random(f"{seed} {number}"), files)
        except Exception:
            if files is intact:
                raise
            continue  # it needs an input that an earlier one has not damaged
        if sum(map(len, more.values())) <= _LARGEST:
            files = more
    return files
