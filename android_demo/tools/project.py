"""Where the app's files are, and the numbers that pom.xml states."""

import os
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
APK = BUILD / "keras-vit-demo.apk"
AAB = BUILD / "keras-vit-demo.aab"
MAIN = ROOT / "app/src/main"
# The user's bundles and samples, which `keras-vit android` writes.
OWN = ROOT / "app/own"
ASSETS = MAIN / "assets"
APP_TARGET = ROOT / "app/target"
RUNTIME_JARS = APP_TARGET / "runtime"
# The platform's classes (android-all): a link that tools/resources.py makes.
FRAMEWORK = APP_TARGET / "framework.jar"
AARS = ROOT / "tflite/target/aar"
ANDROIDX_AARS = ROOT / "androidx/target/aar"

# Phones have the first, emulators and Chromebooks the second.
ABIS = ("arm64-v8a", "x86_64")


def assets() -> Path:
    """The folder of the app's bundles and samples."""
    return OWN if OWN.is_dir() else ASSETS


def litert_folder() -> Path | None:
    """LiteRT of Python's package ai-edge-litert, which the tests run: libLiteRt.so and more."""
    if chosen := os.environ.get("LITERT_FOLDER"):
        return Path(chosen).resolve()
    found = sorted(ROOT.parent.glob(".venv/lib/python3*/site-packages/ai_edge_litert"))
    return found[0] if found else None


@cache
def properties() -> dict[str, str]:
    """The properties of pom.xml, and its version."""
    namespace = "{http://maven.apache.org/POM/4.0.0}"
    pom = ElementTree.parse(ROOT / "pom.xml").getroot()
    found = {
        element.tag.removeprefix(namespace): (element.text or "").strip()
        for element in pom.find(f"{namespace}properties")
        if isinstance(element.tag, str)
    }
    found["version"] = pom.findtext(f"{namespace}version")
    return found
