"""Findings on the disk: an input in a `.zip`, which also names the fault."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fuzzing.kind import Files

_DATE = (1980, 1, 1, 0, 0, 0)  # so that the same input is the same file


class Finding(NamedTuple):
    """An input, its kind and what was wrong when it was read."""

    kind: str
    fault: str
    files: Files


def stored(folder: Path) -> dict[Path, Finding]:
    """The findings of a folder, by their files."""
    return {file: _unpacked(file) for file in sorted(folder.glob("*.zip"))}


def store(folder: Path, found: Finding, fails: Callable[[Files], bool]) -> Path:
    """Stores a finding, unless one with this fault is stored and still `fails`."""
    for file, old in stored(folder).items():
        if old[:2] == found[:2] and fails(old.files):
            return file
    digest = hashlib.sha256(repr(sorted(found.files.items())).encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found.kind}-{digest}.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in sorted(found.files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED, 9)
        about = {"kind": found.kind, "fault": found.fault}
        archive.comment = json.dumps(about).encode()[:60_000]
    return file


def _unpacked(file: Path) -> Finding:
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        return Finding(**json.loads(archive.comment), files=files)
