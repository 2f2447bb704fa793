"""Findings on the disk: an input in a `.zip`, which also names the fault."""

import hashlib
import io
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


def packed(finding: Finding, small: bool = True) -> bytes:
    """The content of a finding's file, compressed if it shall be small."""
    method = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in sorted(finding.files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, method, 9)
        about = {"kind": finding.kind, "fault": finding.fault}
        archive.comment = json.dumps(about).encode()[:60_000]
    return stream.getvalue()


def unpacked(content: bytes) -> Finding:
    """The finding in a file's content."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        about = json.loads(archive.comment)
        files = {name: archive.read(name) for name in archive.namelist()}
    return Finding(about["kind"], about["fault"], files)


class Store:
    """The folder of findings."""

    def __init__(self, folder: Path):
        self._folder = folder

    def all(self) -> list[Path]:
        """The files of the stored findings."""
        return sorted(self._folder.glob("*.zip"))

    def add(self, finding: Finding, fails: Callable[[Path], bool]) -> Path:
        """Stores a finding, unless one with this fault is stored and still `fails`."""
        for file in self.all():
            if unpacked(file.read_bytes())[:2] == finding[:2] and fails(file):
                return file
        content = packed(finding)
        digest = hashlib.sha256(repr(sorted(finding.files.items())).encode()).hexdigest()[:10]
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{finding.kind}-{digest}.zip"
        file.write_bytes(content)
        return file
