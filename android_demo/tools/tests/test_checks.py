"""The checks of an APK find what is broken: each case breaks a copy of the APK in one way."""

import functools
import re
import struct
import sys
import tempfile
import unittest
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import checks
import fetch
from archive import Entry, write_archive
from commands import run
from dex_file import DexFile
from project import APK

MODEL = "assets/bundles/cifar10-int8/model.tflite"
DESCRIPTION = "assets/bundles/cifar10-int8/model.json"
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
        path = self.broken(change={MODEL: compressed})
        self.assertIn("compressed", self.bad(checks.models, path)[0])

    def test_another_model_than_that_of_model_json_is_found(self) -> None:
        path = self.broken(change={MODEL: shortened})
        self.assertIn("sha256", self.bad(checks.models, path)[0])

    def test_an_incomplete_bundle_is_found(self) -> None:
        path = self.broken(without="assets/bundles/cifar10-int8/labels.txt")
        self.assertIn("labels.txt", self.bad(checks.models, path)[0])

    def test_a_bundle_of_features_or_of_a_feature_map_has_no_labels(self) -> None:
        for kind in ("features", "feature_map"):
            change = {DESCRIPTION: functools.partial(of_kind, kind)}
            path = self.broken(change=change, without="assets/bundles/cifar10-int8/labels.txt")
            self.assertEqual([], self.bad(checks.models, path))

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
        path = self.broken(change={LIBRARY: compressed})
        self.assertIn("not stored", self.bad(checks.libraries, path)[0])

    def test_a_misaligned_library_is_found(self) -> None:
        self.assertIn(LIBRARY, self.bad(checks.alignment, self.misaligned())[0])

    def test_a_library_that_no_phone_can_map_is_found(self) -> None:
        path = self.broken(change={LIBRARY: with_small_segments})
        self.assertIn("LOAD alignment 16", self.bad(checks.libraries, path)[0])

    def test_an_apk_without_code_is_found(self) -> None:
        path = self.broken(without="classes.dex")
        self.assertIn("MainActivity", self.bad(checks.dex, path)[0])

    def test_a_service_that_the_dex_lacks_is_found(self) -> None:
        self.assertIn("Implementation", self.bad(checks.dex, self.with_another_service())[0])

    def test_coroutines_without_androids_main_thread_are_found(self) -> None:
        dex = DexFile(1, frozenset({checks._MAIN_THREAD}), frozenset())
        with mock.patch.object(checks, "read_dex", return_value=dex):
            found = self.bad(checks.dex, self.broken(without="META-INF/services/"))
        self.assertIn("AndroidDispatcherFactory", found[-1])

    def test_every_check_fails_on_an_apk_that_breaks_it(self) -> None:
        findings = [
            (check, finding) for check in checks.CHECKS for finding in self.found(check, APK)
        ]
        breaking = {
            checks.signature: [self.broken],
            checks.badging: [self.with_another_manifest],
            checks.models: [self.with_changed_models],
            checks.alignment: [self.misaligned],
            checks.libraries: [self.with_libraries(change) for change in LIBRARY_CHANGES],
            checks.dex: [
                lambda: self.broken(without="classes.dex"),
                self.without_libraries,
                self.with_another_service,
            ],
        }
        for check in checks.CHECKS:
            labels = {label(finding) for each, finding in findings if each is check}
            failed: set[str] = set()
            for make in breaking[check]:
                received = self.found(check, make())
                failed |= {label(finding) for finding in received if not finding.good}
            self.assertEqual(labels, failed & labels, check.__name__)

    def with_another_manifest(self) -> Path:
        """An APK whose manifest says nothing that pom.xml says."""
        manifest = self.folder / "AndroidManifest.xml"
        manifest.write_text(
            '<manifest xmlns:android="http://schemas.android.com/apk/res/android"'
            ' package="org.example"><application><activity android:name=".Other"'
            ' android:exported="true"><intent-filter>'
            '<action android:name="android.intent.action.MAIN"/>'
            '<category android:name="android.intent.category.LAUNCHER"/>'
            "</intent-filter></activity></application></manifest>"
        )
        path = self.folder / "manifest.apk"
        versions = ("--min-sdk-version", "21", "--target-sdk-version", "30")
        names = ("--version-code", "77", "--version-name", "0.0.77")
        inputs = ("-I", fetch.framework(), "--manifest", manifest)
        run(fetch.aapt2(), "link", "-o", path, *inputs, *versions, *names)
        return path

    def with_another_service(self) -> Path:
        entry = Entry("META-INF/services/Service", b"Implementation", stored=False)
        return self.broken(add=[entry])

    def with_changed_models(self) -> Path:
        models = [entry.name for entry in self.entries if entry.name.endswith("model.tflite")]
        return self.broken(change=dict.fromkeys(models, shortened))

    def misaligned(self) -> Path:
        path = self.folder / "misaligned.apk"
        with zipfile.ZipFile(path, "w") as archive:
            for entry in self.entries:
                archive.writestr(entry.name, entry.content)
        return path

    def with_libraries(self, change: Callable[[Entry], Entry]) -> Callable[[], Path]:
        names = [entry.name for entry in self.entries if entry.name.endswith(".so")]
        return lambda: self.broken(change=dict.fromkeys(names, change))

    def without_libraries(self) -> Path:
        return self.broken(without="lib/")

    def broken(
        self,
        without: str = "-",
        change: dict[str, Callable[[Entry], Entry]] | None = None,
        add: Iterable[Entry] = (),
    ) -> Path:
        path = self.folder / "broken.apk"
        keep = [entry for entry in self.entries if not entry.name.startswith(without)]
        same = {entry.name: lambda entry: entry for entry in keep} | (change or {})
        write_archive(path, [*(same[entry.name](entry) for entry in keep), *add])
        return path

    def bad(self, check: Check, path: Path, unpack: bool = True) -> list[str]:
        return [finding.text for finding in self.found(check, path, unpack) if not finding.good]

    def found(self, check: Check, path: Path, unpack: bool = True) -> list[checks.Finding]:
        with tempfile.TemporaryDirectory() as files, zipfile.ZipFile(path) as archive:
            if unpack:
                archive.extractall(files)
            return list(check(checks.Apk(path, archive, Path(files))))


def label(finding: checks.Finding) -> str:
    """Which of the checks a finding is of: "manifest package", "libraries lib/x86_64/libx.so"."""
    detail = re.match(r"(v[23]|[\w./-]+(?=:))", finding.text)
    abi = re.search(r"(arm64-v8a|x86_64)$", finding.text)
    return " ".join([finding.subject, *(match.group(1) for match in (detail, abi) if match)])


def with_small_segments(entry: Entry) -> Entry:
    """A library whose segments are aligned to 16 bytes."""
    content = bytearray(entry.content)
    [offset] = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for header in range(offset, offset + size * count, size):
        if struct.unpack_from("<I", content, header) == (_PT_LOAD,):
            struct.pack_into("<Q", content, header + 48, 16)
    return Entry(entry.name, bytes(content), entry.stored)


def shortened(entry: Entry) -> Entry:
    """The same file without its last byte."""
    return Entry(entry.name, entry.content[:-1], entry.stored)


def of_kind(kind: str, entry: Entry) -> Entry:
    """The model.json of another output than logits."""
    content = entry.content.replace(b'"kind": "logits"', f'"kind": "{kind}"'.encode())
    return Entry(entry.name, content, entry.stored)


def compressed(entry: Entry) -> Entry:
    """The same file, not stored."""
    return Entry(entry.name, entry.content, False)


_PT_LOAD = 1
LIBRARY_CHANGES = (with_small_segments, compressed)


if __name__ == "__main__":
    unittest.main()
