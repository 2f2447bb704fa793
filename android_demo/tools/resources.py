"""Compiles and links the app's resources: an APK without code, its form for the AAB, and R.java.

Maven calls this before it compiles the app, with the jar that holds the platform's classes.
"""

import argparse
import re
import shutil
from pathlib import Path

import fetch
from commands import run
from freshness import Step
from project import ANDROIDX_AARS, APP_TARGET, FRAMEWORK, MAIN, ROOT, assets, properties

LINKED = APP_TARGET / "resources.apk"
LINKED_PROTO = APP_TARGET / "resources-proto.apk"
R_JAVA = APP_TARGET / "r"
RULES = APP_TARGET / "resources.pro"
# The app's language beside English. Compose has 85, and phones would offer them as the app's.
LANGUAGE = "zh-rCN"
_COMPILED = APP_TARGET / "resources"
# What it asks of a phone, the app asks too.
_LIBRARY_MANIFEST = ROOT / "keras-vit-android/src/main/AndroidManifest.xml"


def main() -> None:
    """Reads the arguments and links."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=Path, required=True, help="android-all's jar")
    classes = parser.parse_args().classes.resolve()
    APP_TARGET.mkdir(exist_ok=True)
    FRAMEWORK.unlink(missing_ok=True)
    FRAMEWORK.symlink_to(classes)
    link_resources()


def link_resources() -> None:
    """Writes LINKED, LINKED_PROTO, R_JAVA and RULES, unless they are up to date."""
    step = Step(
        APP_TARGET / "resources.stamp",
        [MAIN / "res", MAIN / "AndroidManifest.xml", _LIBRARY_MANIFEST, assets()]
        + [Path(__file__), fetch.TOOLS]
        + [path for aar in _aars() for path in (aar / "res", aar / "R.txt")]
        + [f"{name}={value}" for name, value in sorted(properties().items())],
        [LINKED, LINKED_PROTO, R_JAVA, RULES],
    )
    if step.is_fresh:
        return
    for folder in (R_JAVA, _COMPILED):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # The app's come last, because later ones replace earlier ones.
    compiled = [_compile(aar) for aar in _aars() if any((aar / "res").glob("*/*"))]
    compiled.append(_compile(MAIN))
    _link(compiled, LINKED, "--java", R_JAVA, "--extra-packages", _packages(), "--proguard", RULES)
    _link(compiled, LINKED_PROTO, "--proto-format")
    step.done()


def _aars() -> list[Path]:
    return sorted(ANDROIDX_AARS.iterdir())


def _packages() -> str:
    """The packages of AARs whose code uses resources: each needs its own class R."""
    manifests = [
        (aar / "AndroidManifest.xml").read_text()
        for aar in _aars()
        if (aar / "R.txt").stat().st_size
    ]
    return ":".join(re.search(r'package="([^"]+)"', text)[1] for text in manifests)


def _compile(folder: Path) -> Path:
    compiled = _COMPILED / f"{folder.name}.zip"
    run(fetch.aapt2(), "compile", "--dir", folder / "res", "-o", compiled)
    return compiled


def _link(compiled: list[Path], output: Path, *options: str | Path) -> None:
    settings = properties()
    run(
        *(fetch.aapt2(), "link", "-o", output, "-I", fetch.framework()),
        *("--manifest", _complete_manifest(settings["android.package"])),
        *("--min-sdk-version", settings["android.minSdk"]),
        *("--target-sdk-version", settings["android.targetSdk"]),
        *("--version-code", settings["android.versionCode"], "--version-name", settings["version"]),
        # A model must be stored uncompressed, so that the phone can map it into memory.
        *("-A", assets(), "-0", "tflite", "--auto-add-overlay", "-c", LANGUAGE),
        *options,
        *(part for each in compiled for part in ("-R", each)),
    )


def _complete_manifest(package: str) -> Path:
    """The manifest with what Gradle adds: package, the library's entries, libraries in the APK."""
    text = (MAIN / "AndroidManifest.xml").read_text()
    text = text.replace("<manifest ", f'<manifest package="{package}" ', 1)
    text = text.replace("<application", '<application android:extractNativeLibs="false"', 1)
    entries = re.search("<application>(.*)</application>", _LIBRARY_MANIFEST.read_text(), re.DOTALL)
    text = text.replace("</application>", f"{entries[1]}</application>")
    path = APP_TARGET / "AndroidManifest.xml"
    path.write_text(text)
    return path


if __name__ == "__main__":
    main()
