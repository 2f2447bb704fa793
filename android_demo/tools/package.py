"""Puts resources, dex and native libraries together: an unsigned APK, and the AAB's module."""

import zipfile
from pathlib import Path

import resources
from archive import Entry, write_archive
from commands import fail
from dex import SERVICES
from project import AARS, ABIS, ANDROIDX_AARS

# Left as they are: Android maps the table of resources, models, galleries and libraries into
# memory.
_STORED = (".arsc", ".tflite", "/vectors.bin", ".so", ".png", ".jpg", ".webp")


def write_apk(path: Path, dex_files: list[Path]) -> None:
    """Writes an APK without a signature."""
    linked = _entries(resources.LINKED)
    code = _dex_entries(dex_files, "") + _service_entries("")
    write_archive(path, linked + code + library_entries())


def write_module(path: Path, dex_files: list[Path]) -> None:
    """Writes the base module that bundletool makes an AAB of."""
    linked = [
        Entry(f"manifest/{entry.name}", entry.content, False)
        if entry.name == "AndroidManifest.xml"
        else entry
        for entry in _entries(resources.LINKED_PROTO)
    ]
    code = _dex_entries(dex_files, "dex/") + _service_entries("root/")
    write_archive(path, linked + code + library_entries())


def library_entries() -> list[Entry]:
    """The native libraries of the ABIs that the app supports."""
    libraries = {
        f"lib/{abi}/{path.name}": path
        for abi in ABIS
        for aars in (ANDROIDX_AARS, AARS)
        for path in sorted(aars.glob(f"*/jni/{abi}/*.so"))
    }
    if not libraries:
        fail(f"no native libraries in {AARS}. Run `make apk`, which calls Maven first.")
    return [Entry(name, path.read_bytes(), stored=True) for name, path in libraries.items()]


def _entries(archive: Path) -> list[Entry]:
    with zipfile.ZipFile(archive) as files:
        names = sorted(files.namelist())
        return [Entry(name, files.read(name), name.endswith(_STORED)) for name in names]


def _dex_entries(dex_files: list[Path], folder: str) -> list[Entry]:
    return [Entry(f"{folder}{path.name}", path.read_bytes(), stored=False) for path in dex_files]


def _service_entries(folder: str) -> list[Entry]:
    return [
        Entry(f"{folder}META-INF/services/{path.name}", path.read_bytes(), stored=False)
        for path in sorted(SERVICES.glob("*"))
    ]
