"""The checks of an APK. Each yields findings; a bad finding says what was expected."""

import hashlib
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fetch
from archive import LIBRARY_ALIGNMENT, alignment_of, data_offset
from commands import require, run
from dex_file import read_dex
from native_library import MACHINES, jni_name, read_library
from project import ABIS, properties

_ACTIVITY = "dev.kerasvit.demo.MainActivity"
# The default, which is English, and Chinese.
_LOCALES = "'--_--' 'zh-CN'"
# Coroutines look for the main thread with the former, which finds the latter as a service.
_MAIN_THREAD = "kotlinx/coroutines/internal/MainDispatcherLoader"
_ANDROIDS_MAIN_THREAD = "kotlinx/coroutines/android/AndroidDispatcherFactory"
# Its library registers these functions when it is loaded.
_REGISTERED = "androidx/graphics/path/"
# A library whose segments begin at other places cannot be loaded on any phone.
_SMALLEST_PAGE = 4096


@dataclass(frozen=True)
class Apk:
    """An APK, open, and the folder with its unpacked files."""

    path: Path
    archive: zipfile.ZipFile
    files: Path


@dataclass(frozen=True)
class Finding:
    """One line of the report. `note` marks a fact that is worth knowing and breaks nothing."""

    subject: str
    good: bool
    text: str
    note: bool = False

    @property
    def verdict(self) -> str:
        """The word in front of the line."""
        return "note" if self.note else "ok" if self.good else "BAD"


def signature(apk: Apk) -> Iterator[Finding]:
    """Schemes v2 and v3 verify. minSdk 26 needs no v1."""
    require("apksigner")
    command = [
        "apksigner",
        "verify",
        "--verbose",
        "--min-sdk-version",
        properties()["android.minSdk"],
    ]
    done = subprocess.run([*command, apk.path], capture_output=True, text=True)
    for scheme in ("v2", "v3"):
        good = done.returncode == 0 and bool(
            re.search(rf"Verified using {scheme} scheme .*: true", done.stdout)
        )
        words = (
            "verified" if good else f"expected to verify. {(done.stderr or done.stdout).strip()}"
        )
        yield Finding("signature", good, f"{scheme} {words}")


def badging(apk: Apk) -> Iterator[Finding]:
    """Package, SDK levels, launchable activity and ABIs are those of pom.xml."""
    text = run(fetch.aapt2(), "dump", "badging", apk.path)
    settings = properties()
    for pattern, expected in (
        (r"package: name='([^']*)'", settings["android.package"]),
        (r"versionCode='([^']*)'", settings["android.versionCode"]),
        (r"versionName='([^']*)'", settings["version"]),
        (r"minSdkVersion:'([^']*)'", settings["android.minSdk"]),
        (r"targetSdkVersion:'([^']*)'", settings["android.targetSdk"]),
        (r"launchable-activity: name='([^']*)'", _ACTIVITY),
        (r"native-code: (.*)", " ".join(f"'{abi}'" for abi in ABIS)),
        (r"locales: (.*)", _LOCALES),
        # Else the GPU delegate cannot see OpenCL, nor LiteRT an NPU.
        (r"uses-native-library-not-required:(.*)", "'libOpenCL.so'"),
        (r"uses-native-library-not-required:('libcdsprpc.so')", "'libcdsprpc.so'"),
    ):
        found = re.search(rf"(?<![a-zA-Z]){pattern}", text)
        received = found.group(1) if found else "nothing"
        label = re.match(r"[\w-]+", pattern).group()
        good = received == expected
        words = received if good else f"expected {expected}, received {received}"
        yield Finding("manifest", good, f"{label}: {words}")


def models(apk: Apk) -> Iterator[Finding]:
    """Every bundle is complete; its model is stored uncompressed and is what model.json says."""
    bundles = sorted((apk.files / "assets/bundles").glob("*/"))
    if not bundles:
        yield Finding("model", False, "expected a bundle in assets/bundles, received none")
    for bundle in bundles:
        name = f"assets/bundles/{bundle.name}"
        files = {"model.tflite", "model.json", "golden.json"}
        if _scores_classes(bundle):
            files.add("labels.txt")
        missing = sorted(file for file in files if not (bundle / file).exists())
        if missing:
            yield Finding("model", False, f"{name}: expected {', '.join(missing)}")
            continue
        problem = _problem_of_model(apk, name, bundle)
        yield Finding("model", not problem, f"{name}: {problem or 'stored, sha256 of model.json'}")


def _scores_classes(bundle: Path) -> bool:
    description = bundle / "model.json"
    if not description.exists():
        return True
    kind = json.loads(description.read_text())["output"]["kind"]
    return kind not in ("features", "feature_map")


def _problem_of_model(apk: Apk, name: str, bundle: Path) -> str | None:
    if apk.archive.getinfo(f"{name}/model.tflite").compress_type != zipfile.ZIP_STORED:
        return "model.tflite is compressed; phones can map only stored files into memory"
    expected = json.loads((bundle / "model.json").read_text())["sha256"]
    received = hashlib.sha256((bundle / "model.tflite").read_bytes()).hexdigest()
    return None if received == expected else f"expected sha256 {expected}, received {received}"


def alignment(apk: Apk) -> Iterator[Finding]:
    """Stored files begin at multiples of 4 bytes, libraries at multiples of 16 KB."""
    stored = [info for info in apk.archive.infolist() if info.compress_type == zipfile.ZIP_STORED]
    wrong = [
        info.filename
        for info in stored
        if data_offset(apk.archive, info) % alignment_of(info.filename)
    ]
    words = f"{len(stored)} stored files at multiples of 4, .so of {LIBRARY_ALIGNMENT:,} bytes"
    yield Finding("alignment", not wrong, f"not aligned: {', '.join(wrong)}" if wrong else words)


def libraries(apk: Apk) -> Iterator[Finding]:
    """Both ABIs have the same libraries, stored, built for that processor."""
    names = {abi: sorted(path.name for path in apk.files.glob(f"lib/{abi}/*.so")) for abi in ABIS}
    if len({tuple(found) for found in names.values()}) > 1 or not all(names.values()):
        yield Finding("libraries", False, f"expected the same ones for each ABI, received {names}")
    for abi, found in names.items():
        for name in found:
            yield _library(apk, abi, name)


def _library(apk: Apk, abi: str, name: str) -> Finding:
    entry = f"lib/{abi}/{name}"
    library = read_library(apk.files / entry)
    stored = apk.archive.getinfo(entry).compress_type == zipfile.ZIP_STORED
    aligned = library.load_alignment >= _SMALLEST_PAGE
    if not stored or library.machine != MACHINES[abi] or not aligned:
        expected = f"stored, for {MACHINES[abi]}, LOAD alignment {_SMALLEST_PAGE:,} or more"
        state = f"{'' if stored else 'not '}stored, for {library.machine}"
        received = f"{state}, LOAD alignment {library.load_alignment:,}"
        text = f"{entry}: expected {expected}; received {received}"
        return Finding("libraries", False, text)
    large = library.load_alignment >= LIBRARY_ALIGNMENT
    pages = "16 KB" if large else "4 KB only, not of 16 KB"
    text = f"{entry}: LOAD alignment {library.load_alignment:,}: for pages of {pages}"
    return Finding("libraries", True, text, note=not large)


def dex(apk: Apk) -> Iterator[Finding]:
    """The dex files can be read, hold the activity, and no method lacks its native code."""
    files = [read_dex(path) for path in sorted(apk.files.glob("classes*.dex"))]
    classes = {owner for file in files for owner in file.classes}
    methods = sum(file.method_references for file in files)
    good = _ACTIVITY.replace(".", "/") in classes
    size = f"{len(classes)} classes, {methods:,} method references"
    yield Finding("dex", good, f"{size}, {'with' if good else 'expected'} {_ACTIVITY}")
    # R8 adds stand-ins, which throw, for classes of newer Android. The platform's own come first.
    methods = {
        (owner, name)
        for file in files
        for owner, name in file.native_methods
        if not owner.startswith(("android/", _REGISTERED))
    }
    for abi in ABIS:
        yield _native_methods(apk, abi, methods)
    yield _services(apk, classes)


def _native_methods(apk: Apk, abi: str, methods: set[tuple[str, str]]) -> Finding:
    functions = set()
    for path in apk.files.glob(f"lib/{abi}/*.so"):
        functions |= read_library(path).jni_functions
    missing = sorted(
        name for name in (jni_name(*each) for each in methods) if name not in functions
    )
    words = f"{len(methods)} native methods of the dex are in the libraries of {abi}"
    return Finding(
        "native",
        bool(methods) and not missing,
        f"expected {missing} in {abi}" if missing else words,
    )


def _services(apk: Apk, classes: set[str]) -> Finding:
    """Without Android's main thread, the first coroutine that needs it ends the app."""
    files = (apk.files / "META-INF/services").glob("*")
    services = {name.replace(".", "/") for path in files for name in path.read_text().split()}
    needed = {_ANDROIDS_MAIN_THREAD} if _MAIN_THREAD in classes else set()
    missing = sorted((services - classes) | (needed - services))
    words = f"{len(services)} services are classes of the dex"
    return Finding(
        "services",
        not missing,
        f"expected {missing} in META-INF/services and in the dex" if missing else words,
    )


CHECKS = (signature, badging, models, alignment, libraries, dex)
