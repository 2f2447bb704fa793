"""Checks that an APK is what phones and Play want, and prints a report: exit code 0 or 1."""

import argparse
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from checks import CHECKS, Apk, Finding
from commands import fail
from project import APK
from results import Result


def main() -> int:
    """Reads the arguments and checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apk", type=Path, nargs="?", default=APK)
    path = parser.parse_args().apk
    if not path.exists():
        fail(f"{path} not found. Run `make apk`.")
    return int(not check(path).is_good)


def check(path: Path) -> Result:
    """Prints a line for each finding."""
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    findings = list(find(path))
    for finding in findings:
        print(f"  {finding.verdict:4}  {finding.subject:12}  {finding.text}")
    good = sum(finding.good for finding in findings)
    print(f"{good} of {len(findings)} checks passed")
    return Result("tools/check_apk.py: checks of the APK", good, len(findings))


def find(path: Path) -> Iterator[Finding]:
    """All findings of all checks."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        apk = Apk(path, archive, Path(folder))
        for check_one in CHECKS:
            yield from check_one(apk)


if __name__ == "__main__":
    sys.exit(main())
