"""Files of Maven's repositories, by lists that state their hashes; Google's tools among them.

A line of a list is `group:artifact:version[:type] sha256`.
"""

import hashlib
import os
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from commands import fail, run
from project import BUILD, ROOT, properties

TOOLS = Path(__file__).with_name("tools.txt")
# Dependencies of this project's pom.xml, for its repositories and versions of plugins.
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>dev.kerasvit</groupId>
    <artifactId>android-demo</artifactId>
    <version>{version}</version>
    <relativePath>{parent}</relativePath>
  </parent>
  <artifactId>downloads</artifactId>
  <packaging>pom</packaging>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <configuration>
          <artifactItems>{items}</artifactItems>
          <outputDirectory>.</outputDirectory>
        </configuration>
      </plugin>
    </plugins>
  </build>
</project>
"""


@dataclass(frozen=True)
class Artifact:
    """One file of a repository. `type` is jar or aar."""

    group: str
    name: str
    version: str
    type: str
    sha256: str

    @property
    def file(self) -> str:
        """The name that Maven gives to a copy."""
        return f"{self.name}-{self.version}.{self.type}"


def r8() -> Path:
    """R8, which also has TraceReferences."""
    return _tool("r8")


def aapt2() -> Path:
    """aapt2 for Linux on x86-64."""
    return _of_apktool("prebuilt/linux/aapt2")


def framework() -> Path:
    """The platform's resources, to which aapt2 links."""
    return _of_apktool("prebuilt/android-framework.jar")


def bundletool() -> str:
    """The class path of bundletool."""
    return ":".join(map(str, files(TOOLS).values()))


@cache
def files(listed: Path) -> dict[Artifact, Path]:
    """The files of a list, with the right hashes. Maven fetches those that are missing."""
    folder = BUILD / "downloads" / f"{listed.parent.name}-{listed.stem}"
    found = {artifact: folder / artifact.file for artifact in read(listed)}
    if missing := [artifact for artifact, path in found.items() if not path.exists()]:
        print(f"fetching {len(missing)} files of {listed.name}", flush=True)
        _download(missing, folder)
    for artifact, path in found.items():
        received = hashlib.sha256(path.read_bytes()).hexdigest()
        if received != artifact.sha256:
            path.unlink()
            expected = f"expected sha256 {artifact.sha256}, received {received}"
            fail(f"{path.name}: {expected}. Deleted; try again.")
    return found


def read(listed: Path) -> list[Artifact]:
    """The lines of a list, without comments."""
    lines = [line for line in listed.read_text().splitlines() if not line.startswith("#")]
    return [_artifact(line) for line in lines]


def unpack(archive: Path, name: str, path: Path) -> None:
    """Writes a file of an archive to a path: a program, which may be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with zipfile.ZipFile(archive) as entries:
        part.write_bytes(entries.read(name))
    part.chmod(0o755)
    part.replace(path)


def _artifact(line: str) -> Artifact:
    coordinates, sha256 = line.split()
    group, name, version, *kind = coordinates.split(":")
    return Artifact(group, name, version, *kind or ["jar"], sha256)


def _download(artifacts: list[Artifact], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    items = "".join(
        f"<artifactItem><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version><type>{artifact.type}</type></artifactItem>"
        for artifact in artifacts
    )
    parent = os.path.relpath(ROOT / "pom.xml", folder)
    (folder / "pom.xml").write_text(
        _POM.format(version=properties()["version"], parent=parent, items=items)
    )
    run("mvn", "--batch-mode", "--quiet", "dependency:copy", cwd=folder)


def _tool(name: str) -> Path:
    return next(path for artifact, path in files(TOOLS).items() if artifact.name == name)


def _of_apktool(name: str) -> Path:
    """A program or file out of apktool's jar."""
    archive = _tool("apktool-lib")
    path = archive.with_suffix("") / Path(name).name
    if not path.exists():
        unpack(archive, name, path)
    return path
