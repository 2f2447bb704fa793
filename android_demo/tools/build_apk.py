"""Builds the APK and the AAB: Maven, R8, packaging, signing, checks."""

import sys
from pathlib import Path

import resources
from app_bundle import write_app_bundle
from check_apk import check
from commands import require
from dex import SERVICES, shipped_dex
from freshness import Step
from maven import compile_app
from package import write_apk, write_module
from project import AAB, AARS, ANDROIDX_AARS, APK, BUILD
from results import Result
from signing import KEYSTORE, make_key, sign


def main() -> int:
    """Builds and checks. Returns the exit code."""
    return int(not build().is_good)


def build() -> Result:
    """Builds what is out of date, then checks the APK."""
    require("mvn", "java", "javac", "keytool", "apksigner", "dexdump", "readelf")
    _step(1, "Kotlin and libraries, by Maven; the first time it downloads 0.6 GB")
    compile_app()
    _step(2, "resources, models and samples, by aapt2")
    resources.link_resources()
    _step(3, "dex, by R8")
    dex_files = shipped_dex()
    _step(4, "APK and AAB, signed")
    make_key()
    tools = sorted(Path(__file__).parent.glob("*.py"))
    linked = [resources.LINKED, resources.LINKED_PROTO]
    step = Step(
        BUILD / "apk.stamp",
        [*dex_files, SERVICES, *linked, AARS, ANDROIDX_AARS, KEYSTORE, *tools],
        [APK, AAB],
    )
    if not step.is_fresh:
        _package(dex_files)
        step.done()
    _step(5, "checks of the APK")
    return check(APK)


def _step(number: int, title: str) -> None:
    print(f"{number} of 5: {title}", flush=True)


def _package(dex_files: list[Path]) -> None:
    unsigned = BUILD / "unsigned.apk"
    write_apk(unsigned, dex_files)
    sign(unsigned, APK)
    unsigned.unlink()
    module = BUILD / "base.zip"
    write_module(module, dex_files)
    write_app_bundle(AAB, module)
    module.unlink()


if __name__ == "__main__":
    sys.exit(main())
