"""A step of the build runs again when an input changes or an output is gone."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from freshness import Step


class StepTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = self.folder / "src"
        self.source.mkdir()
        (self.source / "a.kt").write_text("a")
        self.output = self.folder / "out"
        self.output.write_text("made")
        self.step().done()

    def step(self, setting: str = "1") -> Step:
        return Step(self.folder / "stamp", [self.source, setting], [self.output])

    def test_nothing_changed(self) -> None:
        self.assertTrue(self.step().is_fresh)

    def test_a_changed_file(self) -> None:
        (self.source / "a.kt").write_text("b")
        self.assertFalse(self.step().is_fresh)

    def test_a_renamed_file(self) -> None:
        (self.source / "a.kt").rename(self.source / "b.kt")
        self.assertFalse(self.step().is_fresh)

    def test_a_new_file(self) -> None:
        (self.source / "empty.kt").touch()
        self.assertFalse(self.step().is_fresh)

    def test_another_setting(self) -> None:
        self.assertFalse(self.step("2").is_fresh)

    def test_a_missing_output(self) -> None:
        self.output.unlink()
        self.assertFalse(self.step().is_fresh)


if __name__ == "__main__":
    unittest.main()
