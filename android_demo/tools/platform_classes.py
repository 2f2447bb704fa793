"""The classes that the phone itself has, as R8's library: Android's, and Java's as of Java 8."""

import shutil
import zipfile
from pathlib import Path

from class_file import as_of_java_8
from commands import fail, require
from project import BUILD, FRAMEWORK

# The documented packages. The rest of android-all is the system's own code, which R8 need not read
# and partly cannot: it does not know the record classes of Java 17.
_PACKAGES = ("android/", "dalvik/", "java/", "javax/", "org/json/", "org/w3c/", "org/xml")


def platform_jar() -> Path:
    """The library, written on the first call."""
    jar = BUILD / "tools" / f"platform-{FRAMEWORK.resolve().stem}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        _write(part)
        part.replace(jar)
    return jar


def _write(path: Path) -> None:
    written = set()
    with zipfile.ZipFile(path, "w") as jar:
        for source, prefix_parts in ((_java_signatures(), 2), (FRAMEWORK, 0)):
            with zipfile.ZipFile(source) as classes:
                for entry in classes.infolist():
                    name = _class_name(entry.filename, prefix_parts)
                    if name and name not in written:
                        written.add(name)
                        jar.writestr(name, as_of_java_8(classes.read(entry)))


def _class_name(entry: str, prefix_parts: int) -> str | None:
    """The entry's name in the new jar, or None if it does not belong there."""
    parts = entry.split("/")
    if prefix_parts and "8" not in parts[0]:
        return None
    name = "/".join(parts[prefix_parts:]).replace(".sig", ".class")
    return name if name.endswith(".class") and name.startswith(_PACKAGES) else None


def _java_signatures() -> Path:
    """The JDK's table of older releases: `<releases>/<module>/<class>.sig`, where 8 is Java 8."""
    require("javac")
    path = Path(shutil.which("javac")).resolve().parent.parent / "lib/ct.sym"
    if not path.exists():
        fail(f"{path} not found. A JDK 17 is expected: apt-get install openjdk-17-jdk-headless")
    return path
