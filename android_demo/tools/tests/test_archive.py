"""Alignment and repeatability of the archives that archive.py writes."""

import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from archive import Entry, data_offset, write_archive

ENTRIES = [
    Entry("AndroidManifest.xml", b"<manifest/>" * 50, stored=False),
    Entry("assets/é.tflite", b"model", stored=True),
    Entry("lib/x86_64/libone.so", b"\x7fELF" * 7, stored=True),
    Entry("lib/x86_64/libtwo.so", b"\x7fELF" * 5001, stored=True),
]


class ArchiveTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "a.apk"
        write_archive(self.path, ENTRIES)

    def test_files_are_read_back(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(
                {entry.name: entry.content for entry in ENTRIES},
                {name: archive.read(name) for name in archive.namelist()},
            )

    def test_libraries_begin_at_pages_of_16_kb(self) -> None:
        offsets = self.offsets()
        self.assertEqual(0, offsets["lib/x86_64/libone.so"] % 16_384)
        self.assertEqual(0, offsets["lib/x86_64/libtwo.so"] % 16_384)
        self.assertEqual(0, offsets["assets/é.tflite"] % 4)

    def test_offsets_are_where_the_content_is(self) -> None:
        content = self.path.read_bytes()
        for entry in ENTRIES:
            if entry.stored:
                start = self.offsets()[entry.name]
                self.assertEqual(entry.content, content[start : start + len(entry.content)])

    def test_the_same_entries_give_the_same_bytes(self) -> None:
        other = self.path.with_name("b.apk")
        write_archive(other, ENTRIES)
        self.assertEqual(self.path.read_bytes(), other.read_bytes())

    def test_the_time_of_the_build_is_not_in_the_archive(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            times = {info.date_time for info in archive.infolist()}
        self.assertEqual({(1980, 1, 1, 0, 0, 0)}, times)

    def offsets(self) -> dict[str, int]:
        with zipfile.ZipFile(self.path) as archive:
            return {info.filename: data_offset(archive, info) for info in archive.infolist()}


if __name__ == "__main__":
    unittest.main()
