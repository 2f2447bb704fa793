"""The tests of the dex are of the shipped code, or they fail."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import dex_tests
from results import Result

SHIPPED = {f"dev.kerasvit.core.A.method{i}": ["return"] for i in range(10)}


class SameMethodsTest(unittest.TestCase):
    def test_nine_of_ten_methods_are_enough_and_eight_are_not(self) -> None:
        for changed, passes in ((1, True), (2, False)):
            other = {name: ["throw"] for name in list(SHIPPED)[:changed]}
            self.assertEqual(passes, self.compares(SHIPPED, SHIPPED | other), changed)

    def test_a_dex_without_core_is_no_success(self) -> None:
        self.assertFalse(self.compares({}, SHIPPED))

    def compares(self, shipped: dict[str, list[str]], tested: dict[str, list[str]]) -> bool:
        with (
            mock.patch.object(dex_tests, "_code_of_core", side_effect=[shipped, tested]),
            mock.patch("builtins.print"),
        ):
            try:
                dex_tests._compare([], [])
            except SystemExit:
                return False
        return True


class CountTest(unittest.TestCase):
    def test_each_test_of_core_must_have_run_on_the_dex_too(self) -> None:
        for passed, is_good in ((204, True), (203, False), (205, False), (0, False)):
            self.assertEqual(is_good, self.result(passed, of=204).is_good, passed)

    def test_without_the_reports_of_core_the_count_cannot_be_compared(self) -> None:
        with self.assertRaises(SystemExit), mock.patch("sys.stderr"):
            self.result(204, of=0)

    def result(self, passed: int, of: int) -> Result:
        core = Result("core", of, of)
        with mock.patch.object(dex_tests, "read_reports", return_value=core):
            return dex_tests.compared(passed)


if __name__ == "__main__":
    unittest.main()
