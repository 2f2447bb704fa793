"""Files of Maven's repositories are those of their lists, or the build ends."""

import hashlib
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import fetch

CONTENT = b"the file"
HASH = hashlib.sha256(CONTENT).hexdigest()


class FetchTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for patch in (
            mock.patch.object(fetch, "BUILD", self.folder),
            mock.patch.object(fetch, "_download", download),
            mock.patch("builtins.print"),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def listed(self, *lines: str) -> Path:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.txt"
        path.write_text("\n".join(lines))
        return path

    def test_a_line_names_an_aar_and_its_hash(self) -> None:
        [artifact] = fetch.read(self.listed("# A comment.", f"org.example:one:1.2:aar {HASH}"))
        self.assertEqual(("org.example", "one-1.2.aar"), (artifact.group, artifact.file))

    def test_a_file_with_the_right_hash_is_found_again(self) -> None:
        path = self.listed(f"org.example:one:1.2 {HASH}")
        [first] = fetch.files(path).values()
        fetch.files.cache_clear()
        with mock.patch.object(fetch, "_download", side_effect=AssertionError):
            self.assertEqual([first], list(fetch.files(path).values()))

    def test_another_file_is_deleted_and_both_hashes_are_named(self) -> None:
        expected = "0" * 64
        with self.assertRaises(SystemExit), mock.patch.object(fetch, "fail") as fail:
            fail.side_effect = SystemExit
            fetch.files(self.listed(f"org.example:one:1.2 {expected}"))
        self.assertIn(
            f"one-1.2.jar: expected sha256 {expected}, received {HASH}", fail.call_args[0][0]
        )
        self.assertEqual([], list(self.folder.rglob("*.jar")))


def download(artifacts: list[fetch.Artifact], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        (folder / artifact.file).write_bytes(CONTENT)


if __name__ == "__main__":
    unittest.main()
