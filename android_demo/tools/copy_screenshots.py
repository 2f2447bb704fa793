"""Copies those pictures that the app's tests drew and a page shows to android_demo/screenshots.

make android-test
python3 android_demo/tools/test_app.py forms
python3 android_demo/tools/copy_screenshots.py
"""

import re
import shutil
import sys

from commands import fail
from project import APP_TARGET, ROOT

DRAWN = APP_TARGET / "screenshots"
KEPT = ROOT / "screenshots"
DOCS = ROOT.parent / "docs"
PAGES = (ROOT / "README.md", DOCS / "android.md", DOCS / "guide-zero-shot.md")


def main() -> int:
    """Replaces all pictures, and removes those that no page shows any more."""
    shown = {
        name for page in PAGES for name in re.findall(r"screenshots/(\w+\.png)", page.read_text())
    }
    if missing := shown - {path.name for path in DRAWN.glob("*.png")}:
        fail(f"expected {', '.join(sorted(missing))} in {DRAWN}. Run both commands above.")
    for old in sorted(KEPT.glob("*.png")):
        if old.name not in shown:
            old.unlink()
            print(f"removed {old.name}")
    for name in shown:
        shutil.copyfile(DRAWN / name, KEPT / name)
    print(f"{len(shown)} pictures in {KEPT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
