"""Starts the APK's app on the JVM: its dex, translated back by enjarify, under Robolectric.

These are the shipped dex, services, resources and TensorFlow Lite. What R8 removed although
something calls it by name is missing here as it is on a phone. JNA alone is as it was before R8,
which keeps all of it: JNA reads annotations of its classes, and enjarify leaves them out.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from commands import fail, require, run
from dex import SERVICES, shipped_dex
from maven import prepare_tests
from project import APP_TARGET, BUILD, FRAMEWORK, ROOT, RUNTIME_JARS
from results import Result
from translated_classes import UNVERIFIED, make_fit, translate

FOLDER = BUILD / "start-test"
CLASSES = FOLDER / "classes"
APP = ROOT / "app"
TEST = APP / "src/start/java/StartTest.java"
# Robolectric finds resources and manifest by these settings.
SETTINGS = APP / "src/test/maven"
# TensorFlow Lite's, with a C library of Android's name.
LIBRARIES = ROOT / "interpreter/target/android-libraries"
# The Android that Robolectric runs, which Maven copied for the other tests.
ANDROID = APP_TARGET / "robolectric"
# Of the structure by which JNA describes all others.
_FIELD_ORDER = 'Structure$FieldOrder; value={ "size" "alignment" "type" "elements" }'
_JNA = "com/sun/jna/linux-x86-64/libjnidispatch.so"


def main() -> int:
    """Starts the app. Returns the exit code."""
    return int(not test_start().is_good)


def test_start() -> Result:
    """Translates the dex and runs the test."""
    require("mvn", "java", "javac", "dexdump", "enjarify")
    prepare_tests()
    shutil.rmtree(FOLDER, ignore_errors=True)
    CLASSES.mkdir(parents=True)
    _expect_annotations()
    app = FOLDER / "app.jar"
    make_fit(app, [translate(dex, FOLDER) for dex in shipped_dex()])
    if SERVICES.exists():
        shutil.copytree(SERVICES, CLASSES / "META-INF/services")
    [jna] = RUNTIME_JARS.glob("jna-*.jar")
    with zipfile.ZipFile(jna) as files:
        (FOLDER / Path(_JNA).name).write_bytes(files.read(_JNA))
    path = ":".join(map(str, (CLASSES, jna, app, SETTINGS, *_robolectric(), FRAMEWORK)))
    run("javac", "-nowarn", "-d", CLASSES, "-cp", path, TEST)
    return Result("app: the shipped dex, started", int(_runs(path)), 1)


def _expect_annotations() -> None:
    """Without them, JNA refuses each structure, and the app XNNPACK."""
    found = any(_FIELD_ORDER in run("dexdump", "-a", dex) for dex in shipped_dex())
    if not found:
        fail(f"expected {_FIELD_ORDER} in the dex: R8 removed annotations")


def _robolectric() -> list[str]:
    """The class path of the app's tests without what is in the dex, and without Kotlin."""
    in_dex = {jar.name for jar in RUNTIME_JARS.glob("*.jar")}
    jars = (APP_TARGET / "test-class-path.txt").read_text().split(":")
    names = {jar: Path(jar).name for jar in jars}
    return [jar for jar in jars if names[jar] not in in_dex and not names[jar].startswith("kotlin")]


def _runs(path: str) -> bool:
    opened = ("java.base/java.io", "java.base/java.lang")
    command = (
        *("java", UNVERIFIED, "-Xmx2g"),
        *(part for name in opened for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
        *(
            "-Drobolectric.offline=true",
            f"-Drobolectric.dependency.dir={ANDROID}",
        ),
        *(f"-Djna.library.path={LIBRARIES}", f"-Djna.boot.library.path={FOLDER}"),
        f"-Djava.library.path={LIBRARIES}",
        *("-cp", path, "org.junit.runner.JUnitCore", "StartTest"),
    )
    return subprocess.run(command, cwd=APP).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
