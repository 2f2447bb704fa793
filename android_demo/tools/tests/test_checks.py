"""The checks of an APK find what is broken: each case breaks a copy of the APK in one way."""

import sys
import tempfile
import unittest
import zipfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import checks
from archive import Entry, write_archive
from project import APK

MODEL = "assets/bundles/digits-int8/model.tflite"
LIBRARY = "lib/arm64-v8a/libtensorflowlite_jni.so"
OTHER_LIBRARY = "lib/x86_64/libtensorflowlite_jni.so"
Check = Callable[[checks.Apk], object]


class ChecksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.assertTrue(APK.exists(), f"{APK} not found. Run `make apk` first.")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        with zipfile.ZipFile(APK) as archive:
            self.entries = [
                Entry(info.filename, archive.read(info), info.compress_type == zipfile.ZIP_STORED)
                for info in archive.infolist()
            ]

    def test_the_apk_passes(self) -> None:
        for check in checks.CHECKS:
            self.assertEqual([], self.bad(check, APK), check.__name__)

    def test_a_copy_has_no_signature(self) -> None:
        self.assertEqual(2, len(self.bad(checks.signature, self.broken())))

    def test_a_changed_apk_does_not_verify(self) -> None:
        content = bytearray(APK.read_bytes())
        content[len(content) // 2] ^= 1
        path = self.folder / "changed.apk"
        path.write_bytes(content)
        self.assertEqual(2, len(self.bad(checks.signature, path, unpack=False)))

    def test_a_compressed_model_is_found(self) -> None:
        path = self.broken(change={MODEL: lambda entry: Entry(entry.name, entry.content, False)})
        self.assertIn("compressed", self.bad(checks.models, path)[0])

    def test_another_model_than_that_of_model_json_is_found(self) -> None:
        path = self.broken(
            change={MODEL: lambda entry: Entry(entry.name, entry.content[:-1], True)}
        )
        self.assertIn("sha256", self.bad(checks.models, path)[0])

    def test_an_incomplete_bundle_is_found(self) -> None:
        path = self.broken(without="assets/bundles/digits-int8/labels.txt")
        self.assertIn("labels.txt", self.bad(checks.models, path)[0])

    def test_an_apk_without_models_is_found(self) -> None:
        self.assertEqual(1, len(self.bad(checks.models, self.broken(without="assets/"))))

    def test_a_library_of_one_processor_only_is_found(self) -> None:
        path = self.broken(without=LIBRARY)
        self.assertIn("same", self.bad(checks.libraries, path)[0])
        self.assertIn("Java_", self.bad(checks.dex, path)[0])

    def test_a_library_for_another_processor_is_found(self) -> None:
        other = next(entry for entry in self.entries if entry.name == OTHER_LIBRARY)
        path = self.broken(change={LIBRARY: lambda entry: Entry(LIBRARY, other.content, True)})
        self.assertIn("AArch64", self.bad(checks.libraries, path)[0])

    def test_a_compressed_library_is_found(self) -> None:
        path = self.broken(change={LIBRARY: lambda entry: Entry(LIBRARY, entry.content, False)})
        self.assertIn("not stored", self.bad(checks.libraries, path)[0])

    def test_a_misaligned_library_is_found(self) -> None:
        path = self.folder / "misaligned.apk"
        with zipfile.ZipFile(path, "w") as archive:
            for entry in self.entries:
                archive.writestr(entry.name, entry.content)
        self.assertIn(LIBRARY, self.bad(checks.alignment, path)[0])

    def test_an_apk_without_code_is_found(self) -> None:
        path = self.broken(without="classes.dex")
        self.assertIn("MainActivity", self.bad(checks.dex, path)[0])

    def broken(
        self, without: str = "-", change: dict[str, Callable[[Entry], Entry]] | None = None
    ) -> Path:
        path = self.folder / "broken.apk"
        keep = [entry for entry in self.entries if not entry.name.startswith(without)]
        same = {entry.name: lambda entry: entry for entry in keep} | (change or {})
        write_archive(path, [same[entry.name](entry) for entry in keep])
        return path

    def bad(self, check: Check, path: Path, unpack: bool = True) -> list[str]:
        with tempfile.TemporaryDirectory() as files, zipfile.ZipFile(path) as archive:
            if unpack:
                archive.extractall(files)
            found = list(check(checks.Apk(path, archive, Path(files))))
        return [finding.text for finding in found if not finding.good]


if __name__ == "__main__":
    unittest.main()
