"""AARs become classes with their rules, and folders with the rest."""

import io
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import aars
import fetch

RULES = "META-INF/com.android.tools/r8"


class AarsTest(unittest.TestCase):
    def test_classes_and_rules_of_all_files_are_together(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            aar = {
                "classes.jar": archive({"a/A.class": "A", "META-INF/a.kotlin_module": "a"}),
                "libs/more.jar": archive({"b/B.class": "B", "META-INF/NOTICE.txt": "notice"}),
                "proguard.txt": b"-keep class a.A",
                "jni/x86_64/liba.so": b"library",
            }
            jar = {
                "c/C.class": "C",
                "META-INF/proguard/c.pro": "-keep class c.C",
                "META-INF/services/c.C": "c.C",
            }
            (folder / "a.aar").write_bytes(archive(aar))
            (folder / "c.jar").write_bytes(archive(jar))
            found = {
                artifact("a", "aar"): folder / "a.aar",
                artifact("c", "jar"): folder / "c.jar",
            }
            with mock.patch.object(fetch, "files", return_value=found):
                (folder / "aars.txt").touch()
                aars.unpack(folder / "aars.txt")
            self.assertEqual(
                {
                    *("a/A.class", "b/B.class", "c/C.class", "META-INF/a.kotlin_module"),
                    *("META-INF/services/c.C", f"{RULES}/a.pro", f"{RULES}/c.pro"),
                },
                files(folder / "target/classes"),
            )
            self.assertIn("a/jni/x86_64/liba.so", files(folder / "target/aar"))


def artifact(name: str, kind: str) -> fetch.Artifact:
    return fetch.Artifact("org.example", name, "1", kind, "")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def archive(entries: dict[str, str | bytes]) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as written:
        for name, content in entries.items():
            written.writestr(name, content)
    return output.getvalue()


if __name__ == "__main__":
    unittest.main()
