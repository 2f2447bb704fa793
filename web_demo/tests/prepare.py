"""Makes what the tests in the browser need: a site, pictures, and what Python makes of them.

    python web_demo/tests/prepare.py RUN FOLDER

RUN is the run of `make demo` with its bundles. FOLDER receives site/, pictures/, features/,
feature-map/ and expected.json.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras
from keras_vit.data.images import read_picture
from keras_vit.data.sources import digits
from keras_vit.decoded_masks import shares_of
from keras_vit.evaluation import patch_pca
from keras_vit.evaluation.plots import class_colours

PAGE = Path(__file__).parents[1]
TESTING = PAGE.parent / "android_demo/testing"
DIGITS, WORDS = TESTING / "models/digits-int8", TESTING / "words/cifar10-words"
PRECISIONS = ("float32", "float16", "dynamic", "int8")
FEATURES, BARE = "features", "features-bare"  # with a gallery and without one
MAP = "feature-map"
CLASS_MAP = "class-map"
SCENES = PAGE.parent / "android_demo/app/src/main/assets/bundles/scenes-int8"
NAMES, TEMPERATURE = "012345678", 0.07  # of the gallery


def main(run: Path, folder: Path) -> None:
    """Writes the site, the pictures and the expected tensors, classes and probabilities."""
    bundles = {name: run / "export" / name for name in PRECISIONS} | {WORDS.name: WORDS}
    features = _features_with_gallery(run, folder / FEATURES)
    bare = folder / BARE
    shutil.rmtree(bare, ignore_errors=True)
    shutil.copytree(features, bare, ignore=shutil.ignore_patterns("gallery"))
    feature_map = _exported(run, folder / MAP, "feature_map")
    masks = {SCENES.name: SCENES, CLASS_MAP: _class_map(folder / CLASS_MAP)}
    others = {FEATURES: features, BARE: bare, MAP: feature_map} | masks
    deploy.make_site(bundles | others, PAGE, folder / "site")
    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    _write_pictures(pictures)
    opened = {name: deploy.open_bundle(bundle) for name, bundle in bundles.items()}
    expected = {path.name: _expected(path, opened) for path in sorted(pictures.iterdir())}
    bundle, map_bundle = deploy.open_bundle(features), deploy.open_bundle(feature_map)
    for path in [*pictures.glob("digit-*.png"), *pictures.glob("words-*.png")]:
        expected[path.name]["features"] = _expected_of_features(path, bundle)
        expected[path.name]["patches"] = _expected_of_map(path, map_bundle)
    scenes = deploy.open_bundle(SCENES)
    for path in pictures.glob("mask-*.png"):
        expected[path.name]["mask"] = _expected_of_mask(path, scenes)
    class_map = deploy.open_bundle(masks[CLASS_MAP])
    expected["scene.png"]["mask"] = _expected_of_mask(pictures / "scene.png", class_map)
    (folder / "expected.json").write_text(json.dumps(expected))


def _exported(run: Path, folder: Path, output: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    deploy.export_bundles(run, folder, max_images=100, output=output, threads=())
    return folder / "float32"


def _class_map(folder: Path) -> Path:
    """A bundle of a segmenter that learned nothing.

    Its input is oblong and sees the middle of a picture, its map is coarser, and it has more
    classes than the page lists, of which the background is not the first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    size, labels = (32, 48), [*"abcd", "background", *"efghijkl"]
    keras.utils.set_random_seed(0)
    spec = keras_vit.ViTSpec(8, 48, 2, 3, 96, pooling="none", dense_head="linear")
    model = keras_vit.ViT(spec, len(labels), size, labels=labels)
    rng = np.random.default_rng(0)
    for variable in model.weights:
        if variable.path in ("patch_encoder/positions", "head/kernel"):  # places differ in class
            variable.assign(rng.normal(0, 1, tuple(variable.shape)).astype(np.float32))
    deploy.export_bundles(
        model, folder, "none", rng.uniform(-1, 1, (20, *size, 3)).astype(np.float32),
        output="class_map", output_stride=4, threads=(),
        preprocessing=keras_vit.Preprocessing(*size, 0.5, "bilinear", 127.5, 127.5),
    )  # fmt: skip
    return folder / "float32"


def _features_with_gallery(run: Path, folder: Path) -> Path:
    """A bundle of the run's features, with a gallery of digits; the nines have no class."""
    bundle = _exported(run, folder, "features")
    source = digits()
    for i in range(40):
        name = source.labels[source.targets[i]]
        path = folder / "indexed" / (name if name != "9" else "") / f"digits-{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(source.image(i)).save(path)
    pictures = deploy.pictures_to_index([folder / "indexed"])
    deploy.index_pictures(deploy.open_bundle(bundle), pictures)
    # Of so few pictures, which vote is the better one is chance.
    file = bundle / "gallery/gallery.json"
    gallery = json.loads(file.read_bytes())
    gallery["vote"]["of"] = "pictures"
    file.write_text(json.dumps(gallery))
    return bundle


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _expected_of_features(path: Path, bundle: deploy.OpenedBundle) -> dict[str, Any]:
    """The most similar pictures, and the shares of the classes by either vote."""
    names, classes = bundle.gallery.names, bundle.gallery.targets
    vectors = bundle.gallery.vectors.astype(np.float64)
    pixels = keras_vit.preprocess(read_picture(path), bundle)
    [vector] = _unit(bundle.predict(pixels).astype(np.float64))
    similarities = vectors @ vector
    order = np.argsort(-similarities, kind="stable")
    nearest = [i for i in order if classes[i] >= 0][:10]
    means = _unit(np.stack([vectors[classes == each].mean(axis=0) for each in range(len(NAMES))]))
    sizes = np.bincount(classes[classes >= 0])[classes[nearest]]
    return {
        "vector": vector.tolist(),
        "similar": [{"name": names[i], "similarity": similarities[i]} for i in order[:5]],
        "pictures": _shares(similarities[nearest], classes[nearest], sizes),
        "means": _shares(means @ vector, np.arange(len(NAMES)), np.ones(len(NAMES))),
    }


def _expected_of_map(path: Path, bundle: deploy.OpenedBundle) -> dict[str, Any]:
    """The colours of the patches, and the fraction of the variance of each component."""
    pixels = keras_vit.preprocess(read_picture(path), bundle)
    colours, fractions = patch_pca(bundle.predict(pixels))
    return {"colours": colours.ravel().tolist(), "fractions": fractions.tolist()}


def _expected_of_mask(path: Path, bundle: deploy.OpenedBundle) -> dict[str, Any]:
    """The colour of each pixel, red, green, blue and opacity, and the shares of the classes."""
    [mask] = keras_vit.decode_masks(
        bundle.predict(keras_vit.preprocess(read_picture(path), bundle)), bundle
    )
    colours = [[*bytes.fromhex(colour[1:]), 255] for _, colour in class_colours(bundle.labels)]
    colours[bundle.labels.index("background")] = [0, 0, 0, 0]
    shares = shares_of(mask, bundle.labels)
    return {"classes": [colours[each] for each in mask.ravel()], "shares": shares}


def _shares(similarities: np.ndarray, classes: np.ndarray, sizes: np.ndarray) -> dict[str, float]:
    weights = np.exp((similarities - similarities.max()) / TEMPERATURE) / sizes
    return {NAMES[i]: weights[classes == i].sum() / weights.sum() for i in np.unique(classes)}


def _expected(path: Path, opened: dict[str, deploy.OpenedBundle]) -> dict[str, Any]:
    pixels = read_picture(path)
    # A crop, and a size that is odd: the digits have neither.
    preprocessing = keras_vit.Preprocessing(37, 53, 0.875, "bicubic", 127.5, 127.5)
    tensor = keras_vit.preprocess(pixels, preprocessing)
    best = {}
    for name, bundle in opened.items():
        scores = bundle.predict(keras_vit.preprocess(pixels, bundle))
        [found] = keras_vit.decode_predictions(scores, bundle, 3, bundle.from_logits)
        best[name] = [{"label": label, "probability": each} for label, each in found]
    return {
        "pixels": hashlib.sha256(pixels.tobytes()).hexdigest(),
        "tensor": hashlib.sha256(tensor.astype("<f4").tobytes()).hexdigest(),
        "best": best,
    }


def _write_pictures(folder: Path) -> None:
    """A scene in several formats, sizes and modes, each orientation, and some digits."""
    scene = Image.fromarray(_scene(301, 200))
    scene.save(folder / "scene.png")
    scene.save(folder / "scene.bmp")
    scene.save(folder / "lossless.webp", lossless=True)
    scene.convert("P", palette=Image.Palette.ADAPTIVE).save(folder / "palette.gif")
    scene.convert("L").save(folder / "grey.png")
    scene.resize((1, 1)).save(folder / "pixel.png")
    Image.fromarray(_scene(4000, 3000)).save(folder / "large.png", compress_level=1)
    scene.save(folder / "scene.jpg", quality=90)
    scene.convert("L").save(folder / "grey.jpg", quality=90)
    linear = PngInfo()
    linear.add(b"gAMA", struct.pack(">I", 100_000))  # Python does not convert colours
    scene.save(folder / "linear.png", pnginfo=linear)
    scene.convert("CMYK").save(folder / "cmyk.jpg", quality=90)
    deep = np.asarray(scene)[..., 0].astype(np.uint16) * 250 + 40
    Image.fromarray(deep).save(folder / "deep.png")
    scene.save(folder / "progressive.jpg", quality=90, progressive=True, subsampling=0)
    scene.save(folder / "lossy.webp", quality=90)
    clear = scene.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(scene.size))
    clear.save(folder / "transparent.png")
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        scene.save(folder / f"turned-{orientation}.jpg", quality=90, exif=exif)
        scene.save(folder / f"turned-{orientation}.png", exif=exif)
        scene.save(folder / f"turned-{orientation}.webp", lossless=True, exif=exif)
    for bundle, prefix in ((DIGITS, ""), (WORDS, "words-"), (SCENES, "mask-")):
        for sample in sorted((bundle / "samples").iterdir()):
            (folder / f"{prefix}{sample.name}").write_bytes(sample.read_bytes())


def _scene(width: int, height: int) -> np.ndarray:
    """Smooth colours with a few sharp edges, and nothing symmetric."""
    y, x = np.mgrid[:height, :width]
    red, green = 255 * x // width, 255 * y // height
    blue = np.where((x // 24 + y // 40) % 2, 200, 40)
    return np.stack([red, green, blue], -1).astype(np.uint8)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
