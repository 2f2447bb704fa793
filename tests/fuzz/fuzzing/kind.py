"""Inputs: what a kind of them is, how an intact one is damaged, and those that are stored."""

import hashlib
import json
import random
import zipfile
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
    files = random.Random(seed).choice(seeds)
    for number in mutations:
        try:
            more = kind.mutate(random.Random(f"{seed} {number}"), files)
        except Exception:  # it needs an input that an earlier one has not damaged
            continue
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


class Finding(NamedTuple):
    """An input, its kind and what was wrong when it was read."""

    kind: str
    fault: str
    files: Files


def stored(folder: Path) -> dict[Path, Finding]:
    """The findings of a folder, by their files."""
    findings = {}
    for file in sorted(folder.glob("*.zip")):
        with zipfile.ZipFile(file) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
            findings[file] = Finding(**json.loads(archive.comment), files=files)
    return findings


def store(folder: Path, found: Finding) -> Path:
    """Stores a finding; the same input is the same file."""
    digest = hashlib.sha256(repr(sorted(found.files.items())).encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found.kind}-{digest}.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in found.files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.comment = json.dumps({"kind": found.kind, "fault": found.fault}).encode()
    return file
