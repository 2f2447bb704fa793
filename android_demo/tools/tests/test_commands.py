"""A missing or failing program ends the build with one readable message."""

import contextlib
import io
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import commands


class CommandsTest(unittest.TestCase):
    def test_a_missing_program_is_answered_with_its_package(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": ""}):
            message = self.message_of(commands.require, "apksigner", "javac", "java")
        self.assertEqual(
            "apksigner, javac, java not found: apt-get install apksigner openjdk-17-jdk-headless\n",
            message,
        )

    def test_a_failing_program_is_shown_with_its_words(self) -> None:
        message = self.message_of(commands.run, sys.executable, "-c", "raise SystemExit('full')")
        self.assertIn("ended with 1", message)
        self.assertIn("full", message)

    def message_of(self, function: object, *arguments: str) -> str:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as end:
            function(*arguments)
        self.assertEqual(1, end.exception.code)
        return errors.getvalue()


if __name__ == "__main__":
    unittest.main()
