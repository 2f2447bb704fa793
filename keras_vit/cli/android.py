"""Puts exported bundles into the Android app.

The app is the folder android_demo of a clone of keras_vit; `make apk` in the clone builds it. Each
bundle is checked first. Bundles, with pictures of their runs as samples, replace the app's own
models; they lie in android_demo/app/own, which git ignores. An app that is built takes them as zips
(--zip), also over the cable (--push).
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

from keras_vit import deploy
from keras_vit._errors import MissingPackageError, UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._bundles import check_bundles, folder_of_clone, named_bundles
from keras_vit.cli._options import check_folder
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
    """Remove the other bundles that this command put into the app before."""
    zip: Path | None = None
    """Write NAME.zip of each bundle into this folder instead, for an app that is built."""
    push: bool = False
    """Give the bundles to the installed app of a phone that is connected by adb instead."""
    device: str | None = option(None, bare="")
    """For --push: the phone's serial number, as `adb devices` prints it; default: the only one."""
    samples: int = 8
    """Held-out pictures of each run that the app shows as samples; 0 for none."""
    data: Path | None = None
    """The folder of the run's pictures, if they were moved."""

    def __post_init__(self):
        check_bundles("android", self.bundle, self.name)
        if self.samples < 0:
            raise UsageError(f"samples must be at least 0. Received: {self.samples}.")
        if (self.zip is not None) + self.push + (self.app is not None or self.only) > 1:
            raise UsageError("--zip, --push, and --app or --only exclude each other; choose one.")
        if self.device is not None and not self.push:
            raise UsageError("--device is the phone of --push; add --push.")
        check_folder(self.zip)


def run(arguments: Arguments) -> None:
    """Copies, zips or sends the bundles with their samples, and lists them."""
    bundles = named_bundles(arguments.bundle, arguments.name)
    if arguments.push:
        _push(arguments, bundles)
    elif arguments.zip:
        _zip(arguments, bundles, arguments.zip)
        print(
            "\nSend them to the phone (by mail, cloud or cable), and open them there with the app, "
            'or choose them with its button "Add a model".'
        )
    else:
        _copy(arguments, bundles)


def _copy(arguments: Arguments, bundles: dict[str, Path]) -> None:
    app = folder_of_clone("android_demo", "android", arguments, arguments.app)
    load("ai_edge_litert.interpreter")
    # All before the first copy: a mistake in one of them leaves the app as it was.
    for name, bundle in bundles.items():
        deploy.check_for_app(bundle, app, name)
    for name, bundle in bundles.items():
        deploy.add_to_app(bundle, app, name, _samples(arguments, bundle))
        warn(deploy.too_new_for_app(bundle, app))
    folder = deploy.bundles_of_app(app)
    removed = [each for each in _bundles(folder) if arguments.only and each.name not in bundles]
    for other in removed:
        shutil.rmtree(other)
    print(f"bundles in {folder}:")
    for each in _bundles(folder):
        count = len(list(each.glob("samples/*")))
        about = f"{_mib(*each.glob('model.tflite'))}, {count} samples"
        print(f"  {each.name}  {about}{'  new' if each.name in bundles else ''}")
    if removed:
        print(f"removed: {', '.join(each.name for each in removed)}")
    print(f"\nThey replace the app's own models; to have these back, remove {folder.parent}.")
    print("Build the app with `make apk`, or open the project in Android Studio.")


def _push(arguments: Arguments, bundles: dict[str, Path]) -> None:
    from keras_vit.deploy.phone.adb import connected_phone
    from keras_vit.deploy.phone.installed_app import check_installed, give_to_app

    phone = connected_phone(arguments.device or None)
    check_installed(phone)
    with tempfile.TemporaryDirectory() as folder:
        give_to_app(phone, _zip(arguments, bundles, Path(folder)))
    print(
        f"\nThe app on the phone {phone.serial} checks them now, and says on its screen which ones "
        "it added, or why not."
    )


def _zip(arguments: Arguments, bundles: dict[str, Path], folder: Path) -> list[Path]:
    """Writes a zip of each bundle, and prints what is in it."""
    load("ai_edge_litert.interpreter")
    for name, bundle in bundles.items():  # a mistake in one of them leaves the others unwritten
        deploy.check_for_app(bundle, None, name)
    paths = []
    for name, bundle in bundles.items():
        samples = _samples(arguments, bundle)
        path = deploy.zip_bundle(bundle, folder, name, samples)
        paths.append(path)
        print(f"{path.name if arguments.push else path}  {_mib(path)}, {len(samples)} samples")
    return paths


def _samples(arguments: Arguments, bundle: Path) -> dict[str, bytes]:
    """The samples of a bundle; warns if it has none."""
    try:
        count = arguments.samples
        return deploy.sample_pictures(bundle, count, arguments.data) if count else {}
    except (MissingPackageError, UsageError) as error:
        warn(f"{bundle} gets no samples, its own picture remains: {error}", Arguments)
        return {}


def _mib(*files: Path) -> str:
    return f"{sum(file.stat().st_size for file in files) / 2**20:,.2f} MiB"


def _bundles(folder: Path) -> list[Path]:
    # A file manager, or the user, may have put other things there.
    return sorted(path.parent for path in folder.glob("*/model.json"))
