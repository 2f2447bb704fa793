"""Skips steps whose inputs have not changed."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


class Step:
    """A step of the build. `stamp` is a file that holds the hash of the inputs of its last run.

    `inputs` are files, folders and texts (settings, versions).
    """

    def __init__(self, stamp: Path, inputs: Iterable[Path | str], outputs: Iterable[Path]):
        self.stamp = stamp
        self.outputs = tuple(outputs)
        self.digest = _digest(inputs)

    @property
    def is_fresh(self) -> bool:
        """Whether the outputs exist and were made of these inputs."""
        return (
            all(output.exists() for output in self.outputs)
            and self.stamp.exists()
            and self.stamp.read_text() == self.digest
        )

    def done(self) -> None:
        """Remembers that the outputs were made."""
        self.stamp.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.write_text(self.digest)


def _digest(inputs: Iterable[Path | str]) -> str:
    digest = hashlib.sha256()
    for item in inputs:
        for part in [item] if isinstance(item, str) else _files(item):
            name = part if isinstance(part, str) else f"{part}\n{part.stat().st_size}"
            digest.update(name.encode() + b"\0")
            if isinstance(part, Path):
                digest.update(part.read_bytes())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [path] if path.exists() else []
