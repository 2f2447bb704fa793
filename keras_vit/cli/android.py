"""Puts exported bundles into the Android app.

The app is the folder android_demo of a clone of keras_vit; `make apk` in the clone builds it. Each
bundle is checked first. Bundles, and pictures of their runs as samples, replace the digits in the
app; they lie in android_demo/app/own, which git ignores.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from keras_vit import deploy
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit.cli._bundles import check_bundles, folder_of_clone, named_bundles
from keras_vit.cli._printing import warn
from keras_vit.cli._program import load
from keras_vit.deploy.bundle.folder import bundle_folder


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
    """Remove the other bundles and samples that this command put into the app before."""
    samples: int = 8
    """Held-out pictures of each run to put into the app as samples; 0 for none."""
    data: Path | None = None
    """The folder of the run's pictures, if they were moved."""

    def __post_init__(self):
        check_bundles("android", self.bundle, self.name)
        if self.samples < 0:
            raise UsageError(f"samples must be at least 0. Received: {self.samples}.")


def run(arguments: Arguments) -> None:
    """Copies the bundles and samples, and lists what the app has."""
    app = folder_of_clone("android_demo", "android", arguments, arguments.app)
    load("ai_edge_litert.interpreter")

    folder, samples = deploy.bundles_of_app(app), deploy.samples_of_app(app)
    bundles = named_bundles(arguments.bundle, arguments.name)
    # All before the first copy: a mistake in one of them leaves the app as it was.
    for name, bundle in bundles.items():
        deploy.check_for_app(bundle, app, name)
    for name, bundle in bundles.items():
        deploy.add_to_app(bundle, app, name)
        warn(deploy.too_new_for_app(bundle, app))
    removed = [each for each in _bundles(folder) if arguments.only and each.name not in bundles]
    for other in removed:
        shutil.rmtree(other)
    if arguments.only:
        shutil.rmtree(samples, ignore_errors=True)
    print(f"bundles in {folder}:")
    for each in _bundles(folder):
        size = sum(file.stat().st_size for file in each.glob("model.tflite")) / 2**20
        print(f"  {each.name}  {size:,.2f} MiB{'  new' if each.name in bundles else ''}")
    if removed:
        print(f"removed: {', '.join(each.name for each in removed)}")
    _add_samples(arguments, app)
    print(f"\nThey replace the digits in the app; to have the digits back, remove {folder.parent}.")
    print("Build the app with `make apk`, or open the project in Android Studio.")


def _add_samples(arguments: Arguments, app: Path) -> None:
    """Adds the samples of each run once, and warns of runs that have none."""

    by_run = {bundle_folder(bundle).resolve().parent: bundle for bundle in arguments.bundle}
    for bundle in by_run.values() if arguments.samples else ():
        try:
            print(f"samples: {deploy.add_samples(bundle, app, arguments.samples, arguments.data)}")
        except (MissingPackageError, UsageError) as error:
            warn(f"no samples are added, the bundle's own picture remains: {error}", Arguments)


def _bundles(folder: Path) -> list[Path]:
    # A file manager, or the user, may have put other things there.
    return sorted(path.parent for path in folder.glob("*/model.json"))
