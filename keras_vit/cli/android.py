"""Puts exported bundles into the Android app.

The app is the folder android_demo of a clone of keras_vit; `make apk` in the clone builds it. Each
bundle is checked first. The app offers all bundles in its assets.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from keras_vit._errors import UsageError
from keras_vit.cli._printing import warn
from keras_vit.cli._program import load, spelled

_CLONE = Path(__file__).parents[2] / "android_demo"


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    bundle: tuple[Path, ...] = ()
    """Exported folders, such as runs/flowers/export/int8."""
    name: tuple[str, ...] = ()
    """A name in the app for each bundle; default: the names of its run and its folder."""
    app: Path | None = None
    """The Android project; default: android_demo of the clone, or of the current folder."""
    only: bool = False
    """Remove all other bundles from the app."""

    def __post_init__(self):
        if not self.bundle:
            raise UsageError(
                f"expected bundles, as in: {spelled('android')} --bundle runs/flowers/export/int8"
            )
        if self.name and len(self.name) != len(self.bundle):
            raise UsageError(
                f"--name takes a name for each of the {len(self.bundle)} bundles. "
                f"Received: {len(self.name)}."
            )


def run(arguments: Arguments) -> None:
    """Copies the bundles, and lists those of the app."""
    load("ai_edge_litert.interpreter")
    from keras_vit import deploy

    app = arguments.app or (_CLONE if _CLONE.is_dir() else Path("android_demo"))
    folder = deploy.bundles_of_app(app)
    names = arguments.name or tuple(map(deploy.bundle_name, arguments.bundle))
    if len(set(names)) < len(names):
        raise UsageError(
            f"each bundle needs a name of its own. Received: {' '.join(names)}; pass --name."
        )
    named = list(zip(arguments.bundle, names, strict=True))
    # All before the first copy: a mistake in one of them leaves the app as it was.
    for bundle, name in named:
        deploy.check_for_app(bundle, app, name)
    for bundle, name in named:
        deploy.add_to_app(bundle, app, name)
        warn(deploy.too_new_for_app(bundle, app))
    for other in _bundles(folder):
        if arguments.only and other.name not in names:
            shutil.rmtree(other)
    print(f"bundles in {folder}:")
    for each in _bundles(folder):
        size = sum(file.stat().st_size for file in each.glob("model.tflite")) / 2**20
        print(f"  {each.name}  {size:,.2f} MiB{'  new' if each.name in names else ''}")
    print("\nBuild the app with `make apk`, or open the project in Android Studio.")


def _bundles(folder: Path) -> list[Path]:
    # A file manager, or the user, may have put other things there.
    return sorted(path.parent for path in folder.glob("*/model.json"))
