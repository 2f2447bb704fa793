"""Publishes the libraries, with sources and documentation, to Maven's local repository.

python3 android_demo/tools/publish.py [--repository FOLDER] [--sign]
"""

import argparse
import sys
from pathlib import Path

from maven import maven
from project import properties

LIBRARIES = ("engine-api", "core", "litert")


def main() -> int:
    """Publishes. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Publishes the libraries, with sources and documentation, for Maven and Gradle."
    )
    parser.add_argument(
        "--repository",
        type=Path,
        metavar="FOLDER",
        help="another repository than that of Maven's settings, by default ~/.m2/repository",
    )
    parser.add_argument(
        "--sign", action="store_true", help="with your key of GnuPG, as Maven Central wants"
    )
    arguments = parser.parse_args()
    options = ["-Prelease"] if arguments.sign else []
    if arguments.repository is None:
        publish("install", *options)
    else:
        place = arguments.repository.resolve().as_uri()
        options += ["-Dmaven.install.skip=true", f"-DaltDeploymentRepository=local::{place}"]
        publish("deploy", *options)
    print(f"published version {properties()['version']} of: {', '.join(LIBRARIES)}")
    return 0


def publish(goal: str, *options: str) -> None:
    """Compiles the libraries and publishes them; ends the program if that fails."""
    projects = ("--projects", ",".join(LIBRARIES), "--also-make")
    maven(goal, "-Ppublish", "-DskipTests", *projects, *options)


if __name__ == "__main__":
    sys.exit(main())
