"""Puts exported bundles into the Android app.

The app is the folder android_demo of a clone of keras_vit; `make apk` in the clone builds it. Each
bundle is checked first. The app offers all bundles in its assets.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from keras_vit.cli._bundles import check_bundles, folder_of_clone, named_bundles
from keras_vit.cli._printing import warn
from keras_vit.cli._program import load


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
        check_bundles("android", self.bundle, self.name)


def run(arguments: Arguments) -> None:
    """Copies the bundles, and lists those of the app."""
    app = arguments.app or folder_of_clone("android_demo", "android", arguments.bundle)
    load("ai_edge_litert.interpreter")
    from keras_vit import deploy

    folder = deploy.bundles_of_app(app)
    bundles = named_bundles(arguments.bundle, arguments.name)
    # All before the first copy: a mistake in one of them leaves the app as it was.
    for name, bundle in bundles.items():
        deploy.check_for_app(bundle, app, name)
    for name, bundle in bundles.items():
        deploy.add_to_app(bundle, app, name)
        warn(deploy.too_new_for_app(bundle, app))
    for other in _bundles(folder):
        if arguments.only and other.name not in bundles:
            shutil.rmtree(other)
    print(f"bundles in {folder}:")
    for each in _bundles(folder):
        size = sum(file.stat().st_size for file in each.glob("model.tflite")) / 2**20
        print(f"  {each.name}  {size:,.2f} MiB{'  new' if each.name in bundles else ''}")
    print("\nBuild the app with `make apk`, or open the project in Android Studio.")


def _bundles(folder: Path) -> list[Path]:
    # A file manager, or the user, may have put other things there.
    return sorted(path.parent for path in folder.glob("*/model.json"))
