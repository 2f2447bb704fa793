"""The tests of the app: python3 android_demo/tools/test_app.py [forms | dex | start | libraries]

Maven's tests, the APK's checks and the tools' own. `forms` are the tests of every screen in every
form, `dex` core's tests against the dex, `start` the app of the shipped dex, `libraries` a program
of its own that uses the published libraries: `make soak` runs these.
"""

import argparse
import sys
import time
import unittest
from pathlib import Path

import build_apk
import dex_tests
import library_tests
import maven
import start_test
from commands import fail, require
from packages import PACKAGES
from project import ASSETS, assets, litert_folder
from results import Result

SOAKS = {
    "forms": maven.test_forms,
    "dex": dex_tests.test_dex,
    "start": start_test.test_start,
    "libraries": library_tests.test_libraries,
}


def main() -> int:
    """Runs them, then prints how many tests of each kind passed. Returns the exit code."""
    parser = argparse.ArgumentParser(description="The tests of the app.")
    parser.add_argument("soak", nargs="?", choices=list(SOAKS), help="instead of the others")
    soak = parser.parse_args().soak
    require(*PACKAGES)
    if assets() != ASSETS:
        fail(f"the tests need the app's own models; move {assets()} away, which has your models.")
    if litert_folder() is None:
        fail(
            "the tests need LiteRT: call `make android-test`, or set LITERT_FOLDER to a Python's"
            " site-packages/ai_edge_litert."
        )
    begun = time.monotonic()
    results = [SOAKS[soak]()] if soak else _test_all()
    _title(f"passed, in {(time.monotonic() - begun) / 60:.1f} minutes")
    for result in results:
        print(result)
    return int(not all(result.is_good for result in results))


def _test_all() -> list[Result]:
    _title("JUnit and Robolectric")
    results = maven.test_modules()
    _title("the APK")
    results.append(build_apk.build())
    _title("the tools' own tests")
    results.append(_test_tools())
    return results


def _test_tools() -> Result:
    suite = unittest.TestLoader().discover(str(Path(__file__).parent / "tests"))
    done = unittest.TextTestRunner().run(suite)
    bad = len(done.failures) + len(done.errors) + len(done.unexpectedSuccesses)
    return Result("tools/tests: the build's tools", done.testsRun - bad, done.testsRun)


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
