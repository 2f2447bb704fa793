"""Puts bundles into the assets of the Android app."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.deploy.bundle.bundle import check_replaceable, read_bundle
from keras_vit.deploy.bundle.folder import bundle_folder
from keras_vit.deploy.bundle.names import bundle_name, check_name
from keras_vit.deploy.bundle.opened import open_bundle
from keras_vit.deploy.inspect.runtimes import named_runtime, runs

# What the app reads; a bundle may also hold a recipe.json.
FILES = ("model.tflite", "model.json", "labels.txt", "golden.json")
_RUNTIME = re.compile(r"<tflite\.version>([\d.]+)</tflite\.version>")


def add_to_app(bundle: str | os.PathLike, app: str | os.PathLike, name: str | None = None) -> Path:
    """Copies a bundle into the app's assets, after it was checked; an older one is replaced.

    Args:
        bundle: the folder of an exported bundle, or the model.tflite in it.
        app: the folder of the Android project.
        name: the bundle's name in the app; default: `bundle_name`.

    Returns:
        The folder of the copy.

    Raises:
        UsageError: the bundle is incomplete or gives no classes, this is not the Android project,
            or the name is not allowed in assets.
        RefusedError: LiteRT refuses the bundle's file.
    """
    folder = check_for_app(bundle, app, name)
    with _files.replacing_folder(folder) as temporary:
        for file in FILES:
            shutil.copyfile(bundle_folder(bundle) / file, temporary / file)
    return folder


def check_for_app(
    bundle: str | os.PathLike, app: str | os.PathLike, name: str | None = None
) -> Path:
    """Checks a bundle and its name as `add_to_app` does, and copies nothing.

    Args:
        bundle, app, name: as for `add_to_app`.

    Returns:
        The folder that the copy would have.

    Raises:
        UsageError, RefusedError: as for `add_to_app`.
    """
    bundle = bundle_folder(bundle)
    name = bundle_name(bundle) if name is None else name
    check_name(name)
    folder = bundles_of_app(app) / name
    check_replaceable(folder)
    open_bundle(bundle, trusted=False)
    return folder


def too_new_for_app(bundle: str | os.PathLike, app: str | os.PathLike) -> str | None:
    """Why the app that `make apk` builds will refuse a bundle, if it will.

    Args:
        bundle: the folder of an exported bundle.
        app: the folder of the Android project; its pom.xml states the runtime.
    """
    pom = Path(app) / "pom.xml"
    stated = _RUNTIME.search(pom.read_text("utf-8")) if pom.is_file() else None
    floor = read_bundle(bundle_folder(bundle))[0]["runtime_floor"]
    if stated is None or floor == "unknown" or runs(floor, stated[1]):
        return None
    return (
        f"{bundle} needs {named_runtime(floor)}, and the app that `make apk` builds has "
        f"TensorFlow Lite {stated[1]}, which will refuse it. Export it with --min-runtime "
        f"{stated[1]}, or build the app in Android Studio, with LiteRT."
    )


def bundles_of_app(app: str | os.PathLike) -> Path:
    """The folder of the bundles in an Android project; it may not exist yet.

    Raises:
        UsageError: this is not the Android project.
    """
    main = Path(app) / "app" / "src" / "main"
    if not (main / "AndroidManifest.xml").is_file():
        raise UsageError(
            f"{app}: expected the folder android_demo of a clone of keras_vit, or a copy of it; "
            "there is no app/src/main/AndroidManifest.xml in it."
        )
    return main / "assets" / "bundles"
