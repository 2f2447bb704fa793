"""Unpacks Android's libraries for Maven, which cannot compile against an AAR.

The classes of all files of a list become one module's, with their rules for R8. Resources, native
libraries and the rest of each AAR stay in target/aar, where resources.py and package.py find them.

    python3 android_demo/tools/aars.py android_demo/androidx/aars.txt
"""

import argparse
import re
import shutil
import zipfile
from pathlib import Path

import fetch
from freshness import Step

# Names of functions outside classes, and services. Everything else beside classes is documents.
_KEPT = re.compile(r".*\.class|META-INF/[^/]+\.kotlin_module|META-INF/services/.+")
_RULES_OF_JARS = "META-INF/proguard/"
# Where R8 looks for rules; it then ignores those in _RULES_OF_JARS.
_RULES = Path("META-INF/com.android.tools/r8")


def main() -> None:
    """Reads the arguments and unpacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=Path, help="a list of files, see fetch.py")
    unpack(parser.parse_args().list.resolve())


def unpack(listed: Path) -> None:
    """Writes target/classes and target/aar beside a list, unless they are up to date."""
    target = listed.parent / "target"
    classes, aars = target / "classes", target / "aar"
    step = Step(target / "aars.stamp", [listed, Path(__file__)], [classes, aars])
    if step.is_fresh:
        return
    for folder in (classes, aars):
        shutil.rmtree(folder, ignore_errors=True)
    for artifact, path in fetch.files(listed).items():
        if artifact.type == "aar":
            _unpack_aar(path, aars / artifact.name, classes)
        else:
            _unpack_jar(path, classes)
    step.done()


def _unpack_aar(aar: Path, folder: Path, classes: Path) -> None:
    with zipfile.ZipFile(aar) as files:
        files.extractall(folder)
    for jar in (folder / "classes.jar", *sorted(folder.glob("libs/*.jar"))):
        _unpack_jar(jar, classes)
    rules = folder / "proguard.txt"
    if rules.exists():
        _write(classes / _RULES / f"{folder.name}.pro", rules.read_bytes())


def _unpack_jar(jar: Path, classes: Path) -> None:
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if name.startswith(_RULES_OF_JARS) and name != _RULES_OF_JARS:
                _write(classes / _RULES / Path(name).name, files.read(name))
            elif _KEPT.fullmatch(name):
                files.extract(name, classes)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
