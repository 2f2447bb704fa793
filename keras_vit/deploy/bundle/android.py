"""Puts bundles, and held-out pictures of their runs, into the Android app.

They are the app's own assets, in a folder that git ignores; without it, the app has the digits.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from pathlib import Path

from PIL import Image

from keras_vit import _files, runs
from keras_vit._errors import UsageError
from keras_vit.deploy.bundle.description import read_bundle
from keras_vit.deploy.bundle.folder import bundle_folder, bundle_name, check_name, safe_name
from keras_vit.deploy.bundle.opened_bundle import open_bundle
from keras_vit.deploy.sample_images import spread
from keras_vit.labels import read_labels
from keras_vit.tflite import runtimes

# What the app reads; a bundle may also hold a recipe.json.
FILES = ("model.tflite", "model.json", "labels.txt", "golden.json")
# Of samples: the longest side, and that of pictures so small that JPEG would change them visibly.
_LONGEST, _TINY = 640, 128
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
    _files.check_replaceable(folder, "bundle")
    open_bundle(bundle, trusted=False)
    return folder


def add_samples(
    bundle: str | os.PathLike,
    app: str | os.PathLike,
    count: int = 8,
    data: str | os.PathLike | None = None,
) -> str:
    """Puts held-out pictures of a bundle's run into the app, spread over the classes.

    They are scaled down, without metadata, and named after their classes. Older samples of the same
    names are replaced.

    Args:
        bundle: a bundle in the folder export of its run.
        app: the folder of the Android project.
        count: the largest number of pictures.
        data: as for `Run.source`.

    Returns:
        A line that says what was added.

    Raises:
        UsageError: the bundle is not in its run's folder, or the run's images are missing.
    """
    folder, samples = bundle_folder(bundle).resolve(), samples_of_app(app)
    if folder.parent.name != "export":
        raise UsageError(f"{bundle} is not in the folder export of a run.")
    run = runs.open_run(folder.parents[1])
    if run.labels != read_labels(folder / "labels.txt"):
        raise UsageError(f"{bundle} has other classes than {run.path}; export it again.")
    source = run.source(data)
    held_out = run.split(source).held_out
    chosen = held_out[spread(count, len(held_out), source.targets[held_out])]
    names: set[str] = set()
    for index in chosen.tolist():
        picture = Image.fromarray(source.image(index))
        target = int(source.targets[index])
        name = _unused(safe_name(source.labels[target]) or f"class-{target}", names)
        names.add(name.lower())
        suffix = "png" if max(picture.size) <= _TINY else "jpg"
        picture.thumbnail((_LONGEST, _LONGEST))
        with _files.replacing(samples / f"{name}.{suffix}") as temporary:
            picture.save(temporary, quality=90)
    return f"{len(chosen)} held-out pictures of {source.locator}"


def _unused(name: str, used: set[str]) -> str:
    numbered = (f"{name}-{i}" for i in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each.lower() not in used)


def too_new_for_app(bundle: str | os.PathLike, app: str | os.PathLike) -> str | None:
    """Why the app that `make apk` builds will refuse a bundle, if it will.

    Args:
        bundle: the folder of an exported bundle.
        app: the folder of the Android project; its pom.xml states the runtime.
    """
    pom = Path(app) / "pom.xml"
    stated = _RUNTIME.search(pom.read_text("utf-8")) if pom.is_file() else None
    floor = read_bundle(bundle_folder(bundle))[0]["runtime_floor"]
    if stated is None or floor == "unknown" or runtimes.runs(floor, stated[1]):
        return None
    return (
        f"{bundle} needs {runtimes.named_runtime(floor)}, and the app that `make apk` builds has "
        f"TensorFlow Lite {stated[1]}, which will refuse it. Export it with --min-runtime "
        f"{stated[1]}, or build the app in Android Studio, with LiteRT."
    )


def bundles_of_app(app: str | os.PathLike) -> Path:
    """The folder of the user's bundles in an Android project; it may not exist yet.

    Raises:
        UsageError: this is not the Android project.
    """
    return _own_assets(app) / "bundles"


def samples_of_app(app: str | os.PathLike) -> Path:
    """The folder of the user's sample pictures, as `bundles_of_app`."""
    return _own_assets(app) / "samples"


def _own_assets(app: str | os.PathLike) -> Path:
    if not (Path(app) / "app/src/main/AndroidManifest.xml").is_file():
        raise UsageError(
            f"{app}: expected the folder android_demo of a clone of keras_vit, or a copy of it; "
            "there is no app/src/main/AndroidManifest.xml in it."
        )
    return Path(app) / "app" / "own"
