"""Compiles and links the app's resources: an APK without code, its form for the AAB, and R.java.

Maven calls this before it compiles the app, with the jar that holds the platform's resources.
"""

import argparse
import shutil
from pathlib import Path

import fetch
from commands import run
from freshness import Step
from project import APP_TARGET, FRAMEWORK, MAIN, assets, properties

LINKED = APP_TARGET / "resources.apk"
LINKED_PROTO = APP_TARGET / "resources-proto.apk"
R_JAVA = APP_TARGET / "r"
RULES = APP_TARGET / "resources.pro"


def main() -> None:
    """Reads the arguments and links."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", type=Path, required=True, help="android-all's jar")
    framework = parser.parse_args().framework.resolve()
    APP_TARGET.mkdir(exist_ok=True)
    FRAMEWORK.unlink(missing_ok=True)
    FRAMEWORK.symlink_to(framework)
    link_resources(framework)


def link_resources(framework: Path) -> None:
    """Writes LINKED, LINKED_PROTO, R_JAVA and RULES, unless they are up to date."""
    step = Step(
        APP_TARGET / "resources.stamp",
        [MAIN / "res", MAIN / "AndroidManifest.xml", assets(), framework.name, Path(__file__)]
        + [f"{name}={value}" for name, value in sorted(properties().items())],
        [LINKED, LINKED_PROTO, R_JAVA, RULES],
    )
    if step.is_fresh:
        return
    shutil.rmtree(R_JAVA, ignore_errors=True)
    R_JAVA.mkdir(parents=True)
    compiled = APP_TARGET / "resources.zip"
    run(fetch.aapt2(), "compile", "--dir", MAIN / "res", "-o", compiled)
    _link(framework, compiled, LINKED, "--java", R_JAVA, "--proguard", RULES)
    _link(framework, compiled, LINKED_PROTO, "--proto-format")
    step.done()


def _link(framework: Path, compiled: Path, output: Path, *options: str | Path) -> None:
    settings = properties()
    run(
        *(fetch.aapt2(), "link", "-o", output, "-I", framework),
        *("--manifest", _complete_manifest(settings["android.package"])),
        *("--min-sdk-version", settings["android.minSdk"]),
        *("--target-sdk-version", settings["android.targetSdk"]),
        *("--version-code", settings["android.versionCode"], "--version-name", settings["version"]),
        # A model must be stored uncompressed, so that the phone can map it into memory.
        *("-A", assets(), "-0", "tflite", "--auto-add-overlay"),
        *options,
        compiled,
    )


def _complete_manifest(package: str) -> Path:
    """The manifest with what Gradle adds on its own: the package, and libraries left in the APK."""
    text = (MAIN / "AndroidManifest.xml").read_text()
    text = text.replace("<manifest ", f'<manifest package="{package}" ', 1)
    text = text.replace("<application", '<application android:extractNativeLibs="false"', 1)
    path = APP_TARGET / "AndroidManifest.xml"
    path.write_text(text)
    return path


if __name__ == "__main__":
    main()
