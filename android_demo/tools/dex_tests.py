"""Runs core's tests on the JVM against what R8 made of core: dex translated back by enjarify.

The tests use names for which the shipped dex has no use. So R8 runs a second time: with the rules
of the shipped dex, and a rule for each class and member to which the tests refer. The report says
how many methods of core have the same code in both.
"""

import re
import sys
import zipfile
from pathlib import Path

import fetch
from class_file import with_plain_names
from commands import fail, require, run
from dex import RULES, build_dex, platform, shipped_dex
from dex_file import read_code
from maven import compile_app, test_core
from project import BUILD, FRAMEWORK, ROOT, RUNTIME_JARS
from results import Result
from translated_classes import UNVERIFIED, make_fit, translate

FOLDER = BUILD / "dex-tests"
CORE = ROOT / "core/target"
TEST_CLASSES = CORE / "test-classes"
CONSOLE = CORE / "console/junit-platform-console-standalone.jar"
# Jars of the app that core does not use.
_NOT_CORES = (
    *("androidx", "interpreter", "jna", "keras-vit-android", "keras-vit-litert"),
    *("kotlinx-coroutines", "tflite"),
)
# How many of core's shipped methods must be exactly those that are tested, so that a change of the
# rules does not quietly turn this into a test of other code.
SAME_METHODS = 0.9
# R8 moves Kotlin's functions, and parts that several methods share, into any class; in the two dex
# files these are others, and the parts have other numbers.
_MOVED = re.compile(r"(invoke-static .*, L)(?:kotlin/[^;]+;\.|[^;]+\$0;\.m(?:\$\d+)?(?=:))")
_SHARED = "$0."
KOTLIN_TEST = (CORE / "console/kotlin-test.jar", CORE / "console/kotlin-test-junit5.jar")


def main() -> int:
    """Tests the dex. Returns the exit code."""
    return int(not test_dex().is_good)


def test_dex() -> Result:
    """Builds the dex, translates it and runs the tests."""
    require("mvn", "java", "javac", "dexdump", "enjarify")
    compile_app()
    core = test_core()
    FOLDER.mkdir(parents=True, exist_ok=True)
    rules = _rules_of_tests()
    dex_files = build_dex(FOLDER / "dex", (*RULES, rules))
    _compare(shipped_dex(), dex_files)
    # A test of core that did not run on the dex is one that did not pass.
    app = FOLDER / "app.jar"
    make_fit(app, [translate(dex, FOLDER) for dex in dex_files])
    passed = _run_tests(app)
    return Result("core: the same tests against the dex", passed, core.total)


def _rules_of_tests() -> Path:
    """A rule for everything that the tests and kotlin-test use of the app's jars."""
    rules = FOLDER / "tests.pro"
    tests = FOLDER / "tests.jar"
    with zipfile.ZipFile(tests, "w") as jar:
        for number, path in enumerate(sorted(TEST_CLASSES.rglob("*.class"))):
            jar.writestr(f"{number}.class", with_plain_names(path.read_bytes()))
    targets = [
        path for path in sorted(RUNTIME_JARS.glob("*.jar")) if not path.name.startswith(_NOT_CORES)
    ]
    run(
        *("java", "-cp", fetch.r8()),
        *("com.android.tools.r8.tracereferences.TraceReferences", "--keep-rules"),
        # The tests also use classes of the JDK that phones do not have.
        *("--map-diagnostics", "error", "warning"),
        *(*platform(), "--lib", CONSOLE),
        *(part for target in targets for part in ("--target", target)),
        *(part for source in (tests, *KOTLIN_TEST) for part in ("--source", source)),
        *("--output", rules),
    )
    return rules


def _compare(shipped: list[Path], tested: list[Path]) -> None:
    """Prints how much of the shipped code the tests run; ends the program if it is too little."""
    same, count = same_methods(*(_code_of_core(files) for files in (shipped, tested)))
    text = f"{same} of core's {count} methods in the shipped dex are the same in the tested one"
    if same < SAME_METHODS * count or not count:
        fail(f"{text}; expected at least {SAME_METHODS:.0%}.")
    print(text, flush=True)


def same_methods(shipped: dict[str, list[str]], tested: dict[str, list[str]]) -> tuple[int, int]:
    """How many of the shipped methods have the tested code, and how many there are."""
    return sum(tested.get(name) == code for name, code in shipped.items()), len(shipped)


def _code_of_core(dex_files: list[Path]) -> dict[str, list[str]]:
    return {
        name: [_MOVED.sub(r"\1", instruction) for instruction in code]
        for path in dex_files
        for name, code in read_code(path).items()
        if name.startswith("dev.kerasvit.core.") and _SHARED not in name
    }


def _run_tests(app: Path) -> int:
    """Returns how many tests passed; a failure ends the program.

    Core's own classes and Kotlin's library are not on this class path. Android's classes are,
    because R8 merges classes of core with classes of the app.
    """
    path = ":".join(map(str, (app, TEST_CLASSES, *KOTLIN_TEST, FRAMEWORK)))
    text = run(
        *("java", UNVERIFIED, "-jar", CONSOLE, "execute", "--class-path", path),
        *("--scan-class-path", TEST_CLASSES, "--include-engine", "junit-jupiter"),
        *("--details=summary", "--disable-banner", "--fail-if-no-tests"),
        cwd=CORE.parent,
    )
    return int(re.search(r"(\d+) tests successful", text)[1])


if __name__ == "__main__":
    sys.exit(main())
