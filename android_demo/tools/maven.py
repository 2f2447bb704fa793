"""Calls Maven, which compiles and tests."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable

from commands import fail, require
from freshness import Step
from project import APP_TARGET, BUILD, FRAMEWORK, ROOT, litert_folder, properties
from results import Result, read_reports

# What the APK's classes are made of. A bundle in the assets is no reason to compile.
_SOURCES = (
    "pom.xml",
    "library.pom.xml",
    "engine-api/pom.xml",
    "engine-api/src/main",
    "core/pom.xml",
    "core/src/main",
    "litert/pom.xml",
    "litert/src/main",
    "tflite/pom.xml",
    "interpreter/pom.xml",
    "interpreter/src/main",
    "camera-stubs/pom.xml",
    "camera-stubs/src",
    "androidx/pom.xml",
    "androidx/aars.txt",
    "keras-vit-android/pom.xml",
    "keras-vit-android/src/main",
    "app/pom.xml",
    "app/src/main/AndroidManifest.xml",
    "app/src/main/kotlin",
    "app/src/interpreter",
    "app/src/main/res",
    "tools/aars.py",
    "tools/fetch.py",
    "tools/resources.py",
    "tools/tools.txt",
)
# The kinds of tests, and where Maven reports them.
_CORE, _SCREENS = "core: JUnit on pure Kotlin", "app: Robolectric, the app's screens"
_REPORTS = {
    "engine-api: JUnit on pure Kotlin": "engine-api/target/surefire-reports",
    _CORE: "core/target/surefire-reports",
    "litert: LiteRT on CPU and GPU": "litert/target/surefire-reports",
    "interpreter: the APK's TensorFlow Lite": "interpreter/target/surefire-reports",
    _SCREENS: "app/target/surefire-reports",
}
# Results of tests and problems, without the names of all plugins and downloads.
_QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.maven.plugin.surefire=info",
    "-Dstyle.color=never",
)
# Modules without one of the tests that are asked for are no failure.
_NO_TESTS = "-Dsurefire.failIfNoSpecifiedTests=false"
# Says which module is compiled.
_MODULES = "-Dorg.slf4j.simpleLogger.log.org.apache.maven.cli=info"
_ESCAPE_CODE = re.compile(r"\x1b\[[0-9;]*m")  # Maven writes some even so


def compile_app() -> None:
    """Compiles what goes into the APK, unless no source has changed."""
    step = _app()
    if step.is_fresh:
        return
    maven("package", "-DskipTests", "-pl", "app", "-am", _MODULES, show=_module)
    step.done()


def _module(line: str) -> str:
    """What compiling shows of a line of Maven: the modules, and problems."""
    if not line.startswith("[INFO]"):
        return line
    found = re.search(r"Building (\S+) .*\[(\d+)/(\d+)\]", line)
    return f"  module {found[2]} of {found[3]}: {found[1]}\n" if found else ""


def test_core() -> Result:
    """Compiles core and runs its tests; ends the program if one fails."""
    return _tested([_CORE], "test", "--projects", "core", "--also-make")[0]


def test_modules() -> list[Result]:
    """Compiles everything and runs the tests of each module; ends the program if one fails.

    The tests of `test_forms` are left out.
    """
    step = _app()
    results = _tested(_REPORTS, "package")
    step.done()
    return results


def prepare_tests() -> None:
    """Compiles the app, and brings what its tests need but these tests themselves."""
    maven("package", "--projects", "app", "--also-make", "-Dmaven.test.skip=true")


def test_forms() -> Result:
    """Runs the tests of every screen in every form; ends the program if one fails."""
    options = ("--projects", "app", "--also-make", "-Dtest=FormsTest", _NO_TESTS)
    [result] = _tested([_SCREENS], "package", *options)
    return Result("app: every screen in every form", result.passed, result.total)


def _tested(kinds: Iterable[str], *arguments: str) -> list[Result]:
    """Calls Maven, and counts these kinds of tests in its reports."""
    folders = {kind: ROOT / _REPORTS[kind] for kind in kinds}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
    maven(*arguments)
    return [read_reports(kind, folder) for kind, folder in folders.items()]


def maven(*arguments: str, show: Callable[[str], str] = str) -> None:
    """Runs Maven on android_demo; ends the program if it fails.

    Args:
        arguments: Maven's.
        show: what to print of a line.
    """
    require("mvn", "javac")
    command = ["mvn", "--batch-mode", "--no-transfer-progress", *_QUIET, *arguments]
    environment = os.environ | {"LC_ALL": "C.UTF-8", "LITERT_FOLDER": str(litert_folder() or "")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    text = {"encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes, **text) as process:
        for line in process.stdout:
            print(show(_ESCAPE_CODE.sub("", line)), end="", flush=True)
    if process.returncode != 0:
        fail(f"mvn {' '.join(arguments)} failed in {ROOT}")


def _app() -> Step:
    return Step(
        BUILD / "maven.stamp",
        [ROOT / source for source in _SOURCES],
        [APP_TARGET / f"app-{properties()['version']}.jar", FRAMEWORK],
    )
