"""All tests of the app: Maven's, the APK's checks, the tools' own, and core's against the dex."""

import sys
import unittest
from pathlib import Path

import build_apk
import dex_tests
from commands import require
from maven import maven
from packages import PACKAGES


def main() -> int:
    """Runs everything, from the cheapest failure on. Returns the exit code."""
    require(*PACKAGES)
    _title("JUnit and Robolectric")
    maven("package")
    _title("the APK")
    failed = build_apk.main()
    _title("the tools' own tests")
    suite = unittest.TestLoader().discover(str(Path(__file__).parent / "tests"))
    failed |= not unittest.TextTestRunner().run(suite).wasSuccessful()
    _title("core's tests against the dex")
    failed |= dex_tests.main()
    return int(failed)


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
