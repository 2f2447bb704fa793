"""Findings on the disk: an input in a `.zip`, which also names the fault."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import NamedTuple

from fuzzing.kind import Files


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
