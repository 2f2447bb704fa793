"""The build says which step it is at, without escape codes, and which models it packs."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import build_apk
import maven
import project

MAVEN = r"""#!/bin/sh
printf '\033[0m[INFO] Scanning for projects...\n'
printf '[INFO] Building core 1.0.0                       [2/5]\n'
printf '[WARNING] a cast is redundant\n\033[0m'
printf '\033[0m[ERROR] the disk is full\n' >&2
"""


class ProgressTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_each_step_is_a_line(self) -> None:
        names = ("require", "compile_app", "make_key", "shipped_dex", "check", "_package", "Step")
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(mock.patch.object(build_apk, name))
            stack.enter_context(mock.patch.object(build_apk.resources, "link_resources"))
            lines = printed(build_apk.build).splitlines()
        self.assertEqual([f"{i} of 5" for i in range(1, 6)], [line[:6] for line in lines])

    def test_a_compilation_shows_modules_and_problems_without_escape_codes(self) -> None:
        for name, text in (("mvn", MAVEN), ("javac", "")):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        with mock.patch.dict(os.environ, PATH=path), mock.patch.object(maven, "_app") as app:
            app.return_value.is_fresh = False
            lines = printed(maven.compile_app).splitlines()
        problems = ["[WARNING] a cast is redundant", "[ERROR] the disk is full"]
        self.assertEqual(["  module 2 of 5: core", *problems], lines)

    def test_the_users_models_replace_the_apps(self) -> None:
        own = self.folder / "own"
        with mock.patch.object(project, "OWN", own):
            self.assertEqual(project.ASSETS, project.assets())
            own.mkdir()
            self.assertEqual(own, project.assets())


def printed(function: object) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        function()
    return output.getvalue()


if __name__ == "__main__":
    unittest.main()
