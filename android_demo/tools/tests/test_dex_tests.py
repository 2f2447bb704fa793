"""The tests of the dex are of the shipped code, or they fail."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import dex_tests

SHIPPED = {f"dev.kerasvit.core.A.method{i}": ["return"] for i in range(10)}


class SameMethodsTest(unittest.TestCase):
    def test_nine_of_ten_methods_are_enough_and_eight_are_not(self) -> None:
        for changed, passes in ((1, True), (2, False)):
            other = {name: ["throw"] for name in list(SHIPPED)[:changed]}
            self.assertEqual(passes, self.compares(SHIPPED, SHIPPED | other), changed)

    def test_where_r8_moved_a_function_makes_no_difference(self) -> None:
        self.assertEqual(
            self.code("0: invoke-static {v0}, Lkotlin/io/CloseableKt;.use:()V"),
            self.code("0: invoke-static {v0}, Lkotlin/UnsignedKt;.use:()V"),
        )
        self.assertEqual(
            self.code("0: invoke-static {}, Ldev/kerasvit/core/Taps$0;.m$1:(I)V"),
            self.code("0: invoke-static {}, Landroidx/compose/A$0;.m:(I)V"),
        )
        for other in ("Lkotlin/UnsignedKt;.close:()V", "Ldev/kerasvit/core/A;.use:()V"):
            self.assertNotEqual(
                self.code("0: invoke-static {v0}, Lkotlin/io/CloseableKt;.use:()V"),
                self.code(f"0: invoke-static {{v0}}, {other}"),
            )

    def code(self, instruction: str) -> dict[str, list[str]]:
        methods = {"dev.kerasvit.core.A.a": [instruction], "dev.kerasvit.core.B$0.m": ["return"]}
        with mock.patch.object(dex_tests, "read_code", return_value=methods):
            code = dex_tests._code_of_core([Path("classes.dex")])
        self.assertEqual(["dev.kerasvit.core.A.a"], list(code))
        return code

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


if __name__ == "__main__":
    unittest.main()
