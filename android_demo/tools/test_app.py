"""All tests of the app: Maven's, the APK's checks, the tools' own, and core's against the dex."""

import sys
import time
import unittest
from pathlib import Path

import build_apk
import dex_tests
import maven
from commands import require
from packages import PACKAGES
from results import Result


def main() -> int:
    """Runs everything, then prints how many tests of each kind passed. Returns the exit code."""
    require(*PACKAGES)
    begun = time.monotonic()
    _title("JUnit and Robolectric")
    results = maven.test_modules()
    _title("the APK")
    results.append(build_apk.build())
    _title("the tools' own tests")
    results.append(_test_tools())
    _title("core's tests against the dex")
    results.append(dex_tests.test_dex())
    _title(f"passed, in {(time.monotonic() - begun) / 60:.1f} minutes")
    for result in results:
        print(result)
    return int(not all(result.is_good for result in results))


def _test_tools() -> Result:
    suite = unittest.TestLoader().discover(str(Path(__file__).parent / "tests"))
    done = unittest.TextTestRunner().run(suite)
    bad = len(done.failures) + len(done.errors) + len(done.unexpectedSuccesses)
    return Result("tools/tests: the build's tools", done.testsRun - bad, done.testsRun)


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
