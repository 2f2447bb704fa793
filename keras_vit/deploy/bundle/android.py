"""Puts bundles, with held-out pictures of their runs as samples, into the Android app or zips.

In the app they are its own assets, in a folder that git ignores; without it, the app has its
own models. A zip is sent to a phone, whose app opens it.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from keras_vit import _files, runs
from keras_vit._errors import UsageError
from keras_vit.deploy.bundle.description import read_bundle
from keras_vit.deploy.bundle.folder import bundle_folder, bundle_name, check_name, safe_name
from keras_vit.deploy.bundle.gallery import FOLDER as GALLERY
from keras_vit.deploy.bundle.opened_bundle import open_bundle
from keras_vit.deploy.sample_images import spread
from keras_vit.labels import read_labels
from keras_vit.tflite import runtimes

_SAMPLES, _SUFFIXES = "samples", (".png", ".jpg", ".jpeg", ".webp")
# Of samples: the longest side, and that of pictures so small that JPEG would change them visibly.
_LONGEST, _TINY = 640, 128
_RUNTIME = re.compile(r"<tflite\.version>([\d.]+)</tflite\.version>")


def add_to_app(
    bundle: str | os.PathLike,
    app: str | os.PathLike,
    name: str | None = None,
    samples: Mapping[str, bytes] | None = None,
) -> Path:
    """Copies a bundle into the app's assets, after it was checked; an older one is replaced.

    Args:
        bundle: the folder of an exported bundle, or the model.tflite in it.
        app: the folder of the Android project.
        name: the bundle's name in the app; default: `bundle_name`.
        samples: its sample pictures, from `sample_pictures`.

    Returns:
        The folder of the copy.

    Raises:
        UsageError: the bundle or its gallery is incomplete, this is not the Android project, or the
            name is not allowed in assets.
        RefusedError: LiteRT refuses the bundle's file.
    """
    name, files = _checked(bundle, app, name)
    folder = bundles_of_app(app) / name
    with _files.replacing_folder(folder) as temporary:
        for file, content in _contents(files, samples).items():
            (temporary / file).parent.mkdir(exist_ok=True)
            (temporary / file).write_bytes(content)
    return folder


def zip_bundle(
    bundle: str | os.PathLike,
    folder: str | os.PathLike,
    name: str | None = None,
    samples: Mapping[str, bytes] | None = None,
) -> Path:
    """Writes a bundle as a zip that the app on a phone opens, after it was checked.

    Args:
        bundle, name, samples: as for `add_to_app`.
        folder: where NAME.zip is written; an older one is replaced.

    Returns:
        The path of the zip.

    Raises:
        UsageError, RefusedError: as for `add_to_app`.
    """
    name, files = _checked(bundle, None, name)
    path = Path(folder) / f"{name}.zip"
    with _files.replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for file, content in _contents(files, samples).items():
            entry = zipfile.ZipInfo(f"{name}/{file}")  # without a time: the same bytes each time
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def check_for_app(
    bundle: str | os.PathLike, app: str | os.PathLike | None, name: str | None = None
) -> str:
    """Checks a bundle and its name as `add_to_app` does, and copies nothing.

    Args:
        bundle, name: as for `add_to_app`.
        app: as for `add_to_app`; None for a zip.

    Returns:
        The bundle's name.

    Raises:
        UsageError, RefusedError: as for `add_to_app`.
    """
    return _checked(bundle, app, name)[0]


def _checked(
    bundle: str | os.PathLike, app: str | os.PathLike | None, name: str | None
) -> tuple[str, dict[str, Path]]:
    """A checked bundle's name, and its files by their names."""
    name = bundle_name(bundle) if name is None else name
    check_name(name)
    if app is not None:
        _files.check_replaceable(bundles_of_app(app) / name, "bundle")
    opened = open_bundle(bundle, trusted=False)
    return name, {file: opened.folder / file for file in opened.files}


def _contents(files: dict[str, Path], samples: Mapping[str, bytes] | None) -> dict[str, bytes]:
    files = {name: path.read_bytes() for name, path in files.items()}
    return files | {f"{_SAMPLES}/{name}": content for name, content in (samples or {}).items()}


def sample_pictures(
    bundle: str | os.PathLike, count: int = 8, data: str | os.PathLike | None = None
) -> dict[str, bytes]:
    """Held-out pictures of a bundle's run, spread over the classes.

    They are scaled down, without metadata, and named after their classes. A bundle that is not in
    the folder export of a run, such as one that was unzipped, keeps the samples that it has; with a
    gallery it needs none.

    Args:
        bundle: the folder of a bundle, or the model.tflite in it.
        count: the largest number of held-out pictures.
        data: as for `Run.source`.

    Returns:
        Files by their names; PNG or JPEG, if they are of the run.

    Raises:
        UsageError: the bundle has neither a run nor samples nor a gallery, or the run's images are
            missing.
    """
    folder = bundle_folder(bundle).resolve()
    if folder.parent.name != "export":
        return _own_samples(folder)
    run = runs.open_run(folder.parents[1])
    labels = folder / "labels.txt"  # none of features
    if labels.exists() and run.labels != read_labels(labels):
        raise UsageError(f"{bundle} has other classes than {run.path}; export it again.")
    source = run.source(data)
    held_out = run.split(source).held_out
    chosen = held_out[spread(count, len(held_out), source.targets[held_out])]
    files: dict[str, bytes] = {}
    names: set[str] = set()
    for index in chosen.tolist():
        picture = Image.fromarray(source.image(index))
        target = int(source.targets[index])
        name = _unused(safe_name(source.labels[target]) or f"class-{target}", names)
        names.add(name.lower())
        suffix, format = (".png", "PNG") if max(picture.size) <= _TINY else (".jpg", "JPEG")
        picture.thumbnail((_LONGEST, _LONGEST))
        picture.save(file := io.BytesIO(), format, quality=90)
        files[name + suffix] = file.getvalue()
    return files


def _own_samples(folder: Path) -> dict[str, bytes]:
    paths = sorted((folder / _SAMPLES).glob("[!.]*"))
    found = [path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file()]
    if not found and not (folder / GALLERY).is_dir():
        raise UsageError(f"{folder} is not in the folder export of a run, and has no samples.")
    return {path.name: path.read_bytes() for path in found}


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
    if not (Path(app) / "app/src/main/AndroidManifest.xml").is_file():
        raise UsageError(
            f"{app}: expected the folder android_demo of a clone of keras_vit, or a copy of it; "
            "there is no app/src/main/AndroidManifest.xml in it."
        )
    return Path(app) / "app" / "own" / "bundles"
