"""The AAB, with a program in bundletool's place."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import app_bundle


class AppBundleTest(unittest.TestCase):
    def test_who_may_read_the_module_may_read_the_bundle(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            module, bundle = Path(folder, "base.zip"), Path(folder, "app.aab")
            module.touch(0o644)
            module.chmod(0o644)

            def bundletool(command: str, *_: str) -> None:
                if command == "build-bundle":
                    bundle.touch(0o600)

            with mock.patch("app_bundle._bundletool", bundletool):
                app_bundle.write_app_bundle(bundle, module)
            self.assertEqual(0o644, bundle.stat().st_mode & 0o777)


if __name__ == "__main__":
    unittest.main()
