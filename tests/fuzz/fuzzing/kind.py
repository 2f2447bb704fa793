"""What a kind of input is, and how an intact input of it is damaged."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# The files of an input by their paths in its folder.
Files = dict[str, bytes]
Mutation = Callable[[random.Random, bytes], bytes]
_LARGEST = 32 << 20  # bytes; mutations that make more of it are left out


class Kind(NamedTuple):
    """A kind of input.

    Attributes:
        memory: bytes that reading may take besides twice the size of the input.
        seeds: makes intact inputs. What is slow to make is kept in the folder, the kind's own.
        mutate: the input after one mutation.
        read: reads the input in the first folder as the library does, and raises its errors; the
            second is that of `seeds`.
    """

    memory: int
    seeds: Callable[[Path], list[Files]]
    mutate: Callable[[random.Random, Files], Files]
    read: Callable[[Path, Path], None]


def one_file(mutations: dict[str, Mutation]) -> Callable[[random.Random, Files], Files]:
    """Changes one file of an input, or rarely removes it, by a mutation for the end of its name."""

    def mutate(rng: random.Random, files: Files) -> Files:
        names = [name for name in sorted(files) if name.endswith(tuple(mutations))]
        if not names:
            return files
        name = rng.choice(names)
        if len(files) > 1 and rng.random() < 0.02:
            return {other: content for other, content in files.items() if other != name}
        change = next(change for end, change in mutations.items() if name.endswith(end))
        return files | {name: change(rng, files[name])}

    return mutate


def damaged(kind: Kind, seeds: list[Files], seed: str, mutations: Sequence[int]) -> Files:
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


def write(files: Files, folder: Path) -> Path:
    """Writes the files of an input, and returns their folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder
