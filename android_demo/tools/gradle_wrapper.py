"""Brings Gradle's wrapper: python3 android_demo/tools/gradle_wrapper.py

The wrapper downloads Gradle itself, by the address and hash in gradle-wrapper.properties.
"""

from pathlib import Path

import fetch
from project import ROOT

LISTED = Path(__file__).with_name("gradle_wrapper.txt")
FILES = ("gradlew", "gradlew.bat", "gradle/wrapper/gradle-wrapper.jar")
_FOLDER = "codestarts/quarkus/tooling/gradle-wrapper/base"


def main() -> None:
    """Writes the wrapper's files."""
    (archive,) = fetch.files(LISTED).values()
    for name in FILES:
        fetch.unpack(archive, f"{_FOLDER}/{name}", ROOT / name)
    print(f"{ROOT / 'gradlew'} is ready")


if __name__ == "__main__":
    main()
