"""Copies the pictures that the app's tests drew to android_demo/screenshots.

make android-test
python3 android_demo/tools/test_app.py forms
python3 android_demo/tools/copy_screenshots.py
"""

import shutil
import sys

from commands import fail
from project import APP_TARGET, ROOT

DRAWN = APP_TARGET / "screenshots"
KEPT = ROOT / "screenshots"


def main() -> int:
    """Replaces all pictures, and removes those that no test draws any more."""
    drawn = sorted(DRAWN.glob("*.png"))
    names = {path.name for path in drawn}
    if missing := {"all_light.png", "classify_light.png"} - names:  # one of each command
        fail(f"expected {', '.join(sorted(missing))} in {DRAWN}. Run both commands above.")
    for old in sorted(KEPT.glob("*.png")):
        if old.name not in names:
            old.unlink()
            print(f"removed {old.name}")
    for path in drawn:
        shutil.copyfile(path, KEPT / path.name)
    print(f"{len(drawn)} pictures in {KEPT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
