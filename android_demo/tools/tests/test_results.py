"""Counts of tests: nothing that failed, or was never run, counts as passed."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from results import Result, read_reports


class ResultsTest(unittest.TestCase):
    def test_reports_are_added_up(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            counts = {"A": (5, 0, 0, 0), "B": (7, 1, 2, 3)}
            for name, (tests, failures, errors, skipped) in counts.items():
                Path(folder, f"TEST-{name}.xml").write_text(
                    f'<testsuite tests="{tests}" failures="{failures}" errors="{errors}" '
                    f'skipped="{skipped}"/>'
                )
            self.assertEqual(Result("app", 6, 12), read_reports("app", Path(folder)))

    def test_no_reports_are_no_success(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertFalse(read_reports("app", Path(folder)).is_good)

    def test_only_all_of_them_are_a_success(self) -> None:
        self.assertTrue(Result("app", 3, 3).is_good)
        self.assertFalse(Result("app", 2, 3).is_good)


if __name__ == "__main__":
    unittest.main()
