"""Writes the fixtures of the app's tests: what Python makes of images, scores and times.

Run with the project's environment; no trained run is needed:

    python android_demo/tools/make_fixtures.py

The app's tests compare with these files, and `tests/test_android_fixtures.py` compares the files
with what Python makes today, so that the app and Python cannot drift apart. Scores of models
depend a little on the processor and are compared with the models' tolerances.
The pixels of large images are not stored: `noise` makes them, in Python here and in Kotlin in the
tests.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import tensorflow as tf
from PIL import Image

import keras_vit
from keras_vit import deploy
from keras_vit.data.decoding import to_rgb
from keras_vit.data.images import read_picture
from keras_vit.data.preprocessing import preprocess_image, resize
from keras_vit.data.sources import digits
from keras_vit.data.split import split_source
from keras_vit.deploy.bundle.opened_bundle import open_bundle
from keras_vit.evaluation.learned_weights import patch_pca
from keras_vit.evaluation.plots import class_colours
from keras_vit.labels import answers_of, numbered
from keras_vit.specs import Preprocessing
from keras_vit.tflite.runner import as_input

_DEMO = Path(__file__).parents[1]
_CORE = _DEMO / "core/src/test/resources/fixtures"
_DIGITS = _DEMO / "testing/src/main/resources/fixtures"
_APP = _DEMO / "app/src/test/resources/fixtures"
_ASSETS = _DEMO / "app/src/main/assets"
MODELS = _DEMO / "testing/models"
# Features of digits, with a gallery.
FEATURES = _DEMO / "testing/features/digits-features"
# Feature maps of digits.
MAPS = _DEMO / "testing/feature_maps/digits-map"
# Masks of digits on textures.
SCENES = _ASSETS / "bundles/scenes-int8"
# Of the app's photographs, and of a classifier from a list of words.
SAMPLED = (_ASSETS / "bundles/cifar10-float16", _DEMO / "testing/words/cifar10-words")

# Widths and heights: single pixels, odd sides, portrait, landscape, a camera's frame.
_SIZES = [(1, 1), (1, 7), (9, 1), (13, 17), (24, 20), (31, 64), (64, 31), (97, 203), (640, 480)]
_CROPS = [None, 0.875, 1.0]
_INTERPOLATIONS = ["nearest", "bilinear", "bicubic"]
_MOST_STORED = 2000  # bytes; of larger results only the sha256 is stored


def main() -> None:
    """Writes all fixtures."""
    for path, make in MAKERS.items():
        _write(path, make())
    _write(DIGITS, digits_and_scores())
    _write(SAMPLES, samples_and_probabilities())
    _write(SIMILAR, samples_and_similar_pictures())
    _write(FEATURE_MAPS, samples_and_patch_colours())
    _write(MASKS, samples_and_masks())
    _write_bytes(CUMULATIVE_SUM, _converted(tf.cumsum))
    _write_bytes(BESSEL, _converted(tf.math.bessel_i0e))
    _write_bytes(LOG_SOFTMAX, _converted(lambda x: tf.abs(tf.nn.log_softmax(tf.nn.relu(x)))))
    _write_bundle(TOO_NEW)


def noise(count: int, seed: int, extreme: bool = False) -> np.ndarray:
    """`count` bytes of a linear congruential generator; if extreme, all are 0 or 255."""
    state, values = seed, np.empty(count, np.uint8)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        values[i] = state >> 24
    return np.where(values < 128, 0, 255).astype(np.uint8) if extreme else values


def _resizing() -> list[dict[str, Any]]:
    """uint8 pixels of every size, crop and interpolation, to 12 x 10 pixels; and of some others."""
    cases = [
        _resized(size, (12, 10), crop, interpolation, extreme=size == (13, 17))
        for size, crop, interpolation in itertools.product(_SIZES, _CROPS, _INTERPOLATIONS)
    ]
    # To the same size, much larger, to one pixel, to the usual size, a very narrow picture.
    for size, new in [
        ((12, 10), (12, 10)), ((5, 4), (33, 47)), ((640, 480), (1, 1)), ((640, 480), (224, 224)),
        ((3, 700), (7, 5)), ((257, 255), (224, 224)), ((224, 225), (224, 224)),
    ]:  # fmt: skip
        for crop, interpolation in itertools.product(_CROPS, _INTERPOLATIONS):
            cases.append(_resized(size, new, crop, interpolation, extreme=False))
    # As MediaPipe, also where the errors of OpenCV's equations decide between two places.
    for size, new in [
        *((size, (12, 10)) for size in _SIZES), ((12, 10), (12, 10)), ((640, 480), (224, 224)),
        ((457, 196), (64, 5)), ((46, 9), (384, 8)), ((46, 469), (8, 384)), ((274, 8), (128, 33)),
    ]:  # fmt: skip
        cases.append(_resized(size, new, None, "mediapipe", extreme=size == (13, 17)))
    # Boxes whose edges, in float64, would select other pixels than Pillow's in float32.
    cases.append(_resized((268, 39), (7, 1), 0.95, "nearest", extreme=False))
    cases.append(_resized((672, 24), (28, 1), 0.95, "nearest", extreme=False))
    return cases


def _resized(
    size: tuple[int, int],
    new: tuple[int, int],
    crop: float | None,
    interpolation: str,
    extreme: bool,
) -> dict[str, Any]:
    (width, height), (new_width, new_height) = size, new
    pixels = _image(width, height, extreme)
    preprocessing = Preprocessing(new_height, new_width, crop, interpolation)
    expected = np.asarray(resize(Image.fromarray(pixels), preprocessing))
    return {
        "image": {"width": width, "height": height, "extreme": extreme},
        "width": new_width,
        "height": new_height,
        "crop": crop,
        "interpolation": interpolation,
        "pixels": _bytes(expected),
    }


@functools.cache
def _image(width: int, height: int, extreme: bool = False) -> np.ndarray:
    return noise(width * height * 3, 1000 * width + height, extreme).reshape(height, width, 3)


def _tensors() -> list[dict[str, Any]]:
    """Input tensors: float32 with several scales, and integers."""
    scales = [
        (127.5, 127.5),
        (0.0, 1.0),
        (0.0, 255.0),
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    ]
    cases = [_tensor((13, 17), (8, 6), mean, scale, "float32", None) for mean, scale in scales]
    # Float64 in between would round otherwise.
    cases.append(_tensor((13, 17), (8, 6), 0.1, 3.0, "float32", None))
    cases += [_tensor((64, 48), (224, 224), *scale, "float32", None) for scale in scales]
    cases.append(_tensor((13, 17), (8, 6), 0.0, 1.0, "uint8", None))
    cases.append(_tensor((13, 17), (8, 6), 0.0, 1.0, "uint8", (1.0, 0)))
    # Halves, which are rounded to even.
    cases.append(_tensor((13, 17), (8, 6), 0.0, 1.0, "uint8", (2.0, 0)))
    for dtype, zero in (("uint8", 128), ("int8", 0), ("int8", -3)):
        cases.append(_tensor((13, 17), (8, 6), 127.5, 127.5, dtype, (0.0078125, zero)))
        cases.append(_tensor((13, 17), (8, 6), *scales[3], dtype, (0.018658, zero)))
    # Grey models, which take the luma of the resized pixels.
    cases.append(_tensor((13, 17), (8, 6), 127.5, 127.5, "float32", None, channels=1))
    cases.append(_tensor((64, 48), (224, 224), 0.0, 255.0, "float32", None, channels=1))
    cases.append(_tensor((13, 17), (8, 6), 0.0, 1.0, "uint8", None, channels=1))
    cases.append(_tensor((13, 17), (8, 6), 127.5, 127.5, "int8", (0.0078125, -3), channels=1))
    return cases


def _tensor(
    size: tuple[int, int],
    new: tuple[int, int],
    mean: Any,
    scale: Any,
    dtype: str,
    quantization: tuple[float, int] | None,
    channels: int = 3,
) -> dict[str, Any]:
    preprocessing = Preprocessing(new[1], new[0], 0.875, "bicubic", mean, scale, channels)
    floats = preprocess_image(_image(*size), preprocessing)
    # As LiteRT gives it: a scale in float32.
    quantized = quantization and (float(np.float32(quantization[0])), quantization[1])
    details = {"dtype": np.dtype(dtype), "quantization": quantized or (0.0, 0)}
    return {
        "image": {"width": size[0], "height": size[1], "extreme": False},
        "width": new[0],
        "height": new[1],
        "channels": channels,
        "mean": mean,
        "scale": scale,
        "dtype": dtype,
        "quantization": quantized,
        "tensor": _bytes(as_input(floats, details)),
    }


def _alpha() -> dict[str, Any]:
    """Every alpha with three colours, blended with white."""
    alpha = np.arange(256, dtype=np.uint8).repeat(3)
    colours = noise(256 * 9, 5).reshape(-1, 3)
    colours[::3] = np.where(colours[::3] < 128, 0, 255)
    rgba = np.concatenate([colours, alpha[:, None]], axis=1).reshape(24, 32, 4)
    return {
        "width": 32,
        "height": 24,
        "argb": base64.b64encode(rgba[..., [3, 0, 1, 2]].tobytes()).decode(),
        "rgb": base64.b64encode(to_rgb(Image.fromarray(rgba)).tobytes()).decode(),
    }


def _orientations() -> list[dict[str, Any]]:
    """An image of 5 x 3 pixels with each value of the EXIF tag; 0 and 9 do not exist."""
    pixels, cases = _image(5, 3), []
    for value in range(10):
        image = Image.fromarray(pixels)
        image.getexif()[0x0112] = value
        upright = to_rgb(image)
        height, width, _ = upright.shape
        cases.append({"exif": value, "width": width, "height": height, "pixels": _bytes(upright)})
    return cases


def _yuv() -> list[dict[str, Any]]:
    """Camera frames: width, height, distance of values, padding of rows."""
    layouts = [
        (8, 6, 1, 0), (8, 6, 2, 0), (7, 5, 1, 3), (7, 5, 2, 5), (1, 1, 1, 0), (1, 3, 2, 7),
        (9, 4, 2, 1), (16, 10, 1, 16), (6, 9, 2, 26),
    ]  # fmt: skip
    return [_frame(*layout) for layout in layouts]


def _frame(width: int, height: int, distance: int, padding: int) -> dict[str, Any]:
    columns, rows = (width + 1) // 2, (height + 1) // 2
    y_stride, uv_stride = width + padding, columns * distance + padding
    # As on phones, a plane ends with its last value, not with the padding of its last row.
    y = noise(y_stride * (height - 1) + width, width)
    u = noise(uv_stride * (rows - 1) + (columns - 1) * distance + 1, height)
    v = noise(len(u), width + height + distance)
    luma = np.lib.stride_tricks.as_strided(y, (height, width), (y_stride, 1))
    chroma = [
        np.lib.stride_tricks.as_strided(plane, (rows, columns), (uv_stride, distance))
        .repeat(2, 0)[:height]
        .repeat(2, 1)[:, :width]
        for plane in (u, v)
    ]
    rgb = _jpeg_colours(luma, *chroma)
    return {
        "width": width,
        "height": height,
        "y": base64.b64encode(y.tobytes()).decode(),
        "u": base64.b64encode(u.tobytes()).decode(),
        "v": base64.b64encode(v.tobytes()).decode(),
        "y_row_stride": y_stride,
        "uv_row_stride": uv_stride,
        "uv_pixel_stride": distance,
        # Clockwise, by 0, 90, 180 and 270 degrees.
        "rotated": [_bytes(np.ascontiguousarray(np.rot90(rgb, -turns))) for turns in range(4)],
    }


def _jpeg_colours(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Full-range BT.601 in float64, rounded to the nearest level."""
    y, u, v = y.astype(np.float64), u - 128.0, v - 128.0
    green = y - 0.344136286 * u - 0.714136286 * v
    levels = np.stack([y + 1.402 * v, green, y + 1.772 * u], -1)
    return np.rint(levels).clip(0, 255).astype(np.uint8)


def _outputs() -> list[dict[str, Any]]:
    """Integer outputs and their scores, as `Runner` dequantises them."""
    cases = []
    for dtype, scale, zero in (("uint8", 1 / 256, 0), ("uint8", 0.031, 117), ("int8", 0.146, -20)):
        raw = noise(40, zero + 100).view(dtype)
        step = float(np.float32(scale))
        cases.append(
            {
                "dtype": dtype,
                "quantization": [step, zero],
                "raw": base64.b64encode(raw.tobytes()).decode(),
                "scores": _bytes((raw.astype(np.float32) - zero) * np.float32(step)),
            }
        )
    return cases


def _scores() -> dict[str, Any]:
    return {"outputs": _outputs(), "predictions": _predictions()}


def _predictions() -> list[dict[str, Any]]:
    """Scores, many of them equal, and what `decode_predictions` makes of them."""
    generator = np.random.default_rng(0)
    logits = [
        generator.normal(0, 3, 10),
        generator.integers(-2, 3, 30),  # ties
        np.zeros(7),
        generator.normal(0, 1, 4) + 5000,  # exp overflows
        np.array([-1e4, 0, 1e4]),
        *(np.array([logit]) for logit in (3.5, -40.0, 0.0, 1000.0)),  # binary classifiers
    ]
    probabilities = [np.full(8, 0.125), generator.integers(0, 3, 20) / 2, np.array([0.2, 0.8])]
    probabilities += [np.array([each]) for each in (0.3, 0.75, 1.0005)]
    cases = [
        _prediction(scores, "logits", each) for each in ("softmax", "sigmoid") for scores in logits
    ]
    return cases + [_prediction(scores, "probabilities", "sigmoid") for scores in probabilities]


def _prediction(scores: np.ndarray, kind: str, activation: str) -> dict[str, Any]:
    scores = scores.astype(np.float32)
    names = numbered(len(scores))
    answers = answers_of(names)
    options = names, 5, kind == "logits", activation
    [decoded] = keras_vit.decode_predictions(scores[None], *options)
    return {
        "kind": kind,
        "activation": activation,
        "scores": [float(score) for score in scores],
        "classes": [answers.index(name) for name, _ in decoded],
        "probabilities": [probability for _, probability in decoded],
    }


def _percentiles() -> list[dict[str, Any]]:
    generator = np.random.default_rng(1)
    cases = []
    for count in (1, 2, 3, 10, 11, 64, 100):
        nanos = generator.integers(100_000, 90_000_000, count)
        median, p90 = np.percentile(nanos / 1e6, [50, 90])
        cases.append({"nanos": nanos.tolist(), "median": float(median), "p90": float(p90)})
    return cases


def digits_and_scores() -> dict[str, Any]:
    """The digits that `make demo` holds out, and LiteRT's scores for them."""
    source = digits()
    held_out = split_source(source).held_out
    pixels = np.stack([source.image(i) for i in held_out])  # (n, 8, 8, 3), grey
    scores = {}
    for name in ("digits-int8", "digits-float16"):
        bundle = open_bundle(MODELS / name)
        scores[name] = base64.b64encode(
            bundle.predict(keras_vit.preprocess(pixels, bundle)).astype("<f4").tobytes()
        ).decode()
    return {
        "width": 8,
        "height": 8,
        "grey": base64.b64encode(np.ascontiguousarray(pixels[..., 0]).tobytes()).decode(),
        "targets": source.targets[held_out].tolist(),
        "scores": scores,
    }


def samples_and_probabilities() -> dict[str, Any]:
    """The three most probable classes of each sample picture, by the bundle's folder."""
    return {str(folder.relative_to(_DEMO)): _best_of_samples(folder) for folder in SAMPLED}


def _best_of_samples(folder: Path) -> dict[str, list[dict[str, Any]]]:
    bundle, found = open_bundle(folder), {}
    for picture in sorted((folder / "samples").iterdir()):
        scores = bundle.predict(keras_vit.preprocess(read_picture(picture), bundle))
        [best] = keras_vit.decode_predictions(scores, bundle, 3, bundle.from_logits)
        found[picture.name] = [{"label": name, "probability": round(p, 6)} for name, p in best]
    return found


def samples_and_similar_pictures() -> dict[str, Any]:
    """The three most similar pictures of each sample, and the parts of both kinds of votes.

    At the usual temperature one class has nearly all.
    """
    bundle = open_bundle(FEATURES)
    names = sorted(path.name for path in (FEATURES / "samples").iterdir())
    images = [read_picture(FEATURES / "samples" / name) for name in names]
    features = bundle.predict(keras_vit.preprocess(images, bundle))
    similar, votes = bundle.gallery.similar(features, 3), {}
    for of in ("means", "pictures"):
        vote = msgspec.structs.replace(bundle.gallery.vote, of=of, temperature=1.0)
        votes[of] = dataclasses.replace(bundle.gallery, vote=vote).shares(features)
    return {
        name: {
            "similar": [{"picture": p, "similarity": round(c, 6)} for p, c in similar[i]],
            **{of: _named(bundle.gallery.classes, shares[i]) for of, shares in votes.items()},
        }
        for i, name in enumerate(names)
    }


def samples_and_patch_colours() -> list[dict[str, Any]]:
    """The colours of the feature map of each sample, and the fractions of the variance."""
    bundle, found = open_bundle(MAPS), []
    for picture in sorted((MAPS / "samples").iterdir()):
        features = bundle.predict(keras_vit.preprocess(read_picture(picture), bundle))
        found.append({"picture": picture.name, **_colours_of(features)})
    return found


def _colours_of(features: np.ndarray) -> dict[str, list[float]]:
    found = patch_pca(features)
    return {
        "colours": np.round(found.colours.ravel(), 5).tolist(),
        "fractions": np.round(found.fractions, 5).tolist(),
    }


def _patch_colours() -> list[dict[str, Any]]:
    """The colours of made feature maps, and the fraction of the variance of each component."""
    cases, generator = [], np.random.default_rng(29)
    # Of each component: its standard deviation. All others are noise.
    for shape, deviations in (
        ((7, 6, 16), (4.0, 2.0, 1.0)),
        ((3, 4, 40), (4.0, 2.5, 1.5)),  # more features than patches
        ((8, 8, 12), (4.0, 2.0, 1.0, 0.9995)),  # the third and the fourth are nearly alike
        ((5, 5, 8), (3.0, 1.0, 0.1)),  # the third has less than 1% of the variance
        ((4, 3, 6), ()),  # all the same
        ((1, 1, 5), (1.0,)),
    ):
        directions = np.linalg.qr(generator.normal(size=(shape[-1], 4)))[0].T[: len(deviations)]
        sizes = generator.normal(size=(shape[0] * shape[1], len(deviations)))
        sizes = np.linalg.qr(sizes - sizes.mean(axis=0))[0] * deviations  # (patches, components)
        features = 9 * sizes @ directions + bool(deviations) * generator.normal(size=shape[-1])
        noise = 0.02 * bool(deviations) * generator.normal(size=features.shape)
        features = (features + noise).reshape(shape).astype(np.float32)
        encoded = base64.b64encode(features.astype("<f4").tobytes()).decode()
        cases.append({"shape": shape, "features": encoded, **_colours_of(features[None])})
    return cases


def samples_and_masks() -> list[dict[str, Any]]:
    """The mask of each sample; the scores have the size of the pictures."""
    bundle, found = open_bundle(SCENES), []
    for picture in sorted((SCENES / "samples").iterdir()):
        [scores] = bundle.predict(keras_vit.preprocess(read_picture(picture), bundle))
        found.append({"picture": picture.name, **_mask_of(scores, scores.shape[:2])})
    return found


def _masks() -> list[dict[str, Any]]:
    """The masks of made scores and class maps, for inputs of other sizes."""
    cases, generator = [], np.random.default_rng(31)
    # The rows, columns and classes of an output; the height and width of an input.
    for shape, size in (
        ((4, 4, 3), (16, 16)),
        ((5, 7, 6), (37, 23)),
        ((6, 5, 3), (6, 5)),
        ((9, 8, 4), (4, 5)),
        ((7, 1, 3), (20, 9)),
        ((1, 1, 2), (5, 3)),
        ((8, 8, 40), (61, 64)),
        ((6, 6, 2), (23, 29)),
    ):
        classes = generator.integers(0, shape[-1], shape[:2]).astype(np.uint8)
        scores = generator.normal(size=shape).astype(np.float32)
        # Two levels: many scores are equal. The weights of enlarging fourfold are exact.
        levels = [np.rint(scores).clip(0, 1)] if size[0] == 4 * shape[0] else []
        for values in (scores, *levels, classes):
            encoded = base64.b64encode(values.astype("<f4").tobytes()).decode()
            case = {"shape": values.shape, "classes": shape[-1], "size": size, "values": encoded}
            cases.append(case | _mask_of(values, size))
    return cases


def _mask_of(values: np.ndarray, size: tuple[int, int]) -> dict[str, Any]:
    """The class of each pixel of scores or a class map; the parts of the pixels, largest first."""
    if values.ndim == 2:
        # TensorFlow's own rounds before it multiplies, and takes another place of two equally near.
        rows, columns = (
            np.floor((np.arange(new) + 0.5) * old / new).astype(int)
            for old, new in zip(values.shape, size, strict=True)
        )
        mask = values[rows][:, columns]
    else:
        mask = tf.image.resize(values, size).numpy().argmax(-1)
    found, counts = np.unique(mask, return_counts=True)
    shares = zip(found.tolist(), (counts / mask.size).tolist(), strict=True)
    shares = sorted(shares, key=lambda share: -share[1])
    encoded = base64.b64encode(mask.astype(np.uint8).tobytes()).decode()
    return {"mask": encoded, "shares": [[number, round(share, 9)] for number, share in shares]}


def _class_colours() -> list[dict[str, Any]]:
    """The colours of classes in masks; none of a background, which is not drawn."""
    numbers = [str(number) for number in range(255)]
    names = (numbers, ["background", *numbers], ["cat", "background", "dog"], ["Background"])
    return [
        {
            "labels": labels,
            "colours": [
                None if label == "background" else colour for label, colour in class_colours(labels)
            ],
        }
        for labels in names
    ]


def _named(classes: Sequence[str], shares: np.ndarray) -> dict[str, float]:
    return {name: round(float(share), 6) for name, share in zip(classes, shares, strict=True)}


def _converted(compute: Callable[[tf.Tensor], tf.Tensor]) -> bytes:
    """A file that computes ten numbers of ten."""
    function = tf.function(compute, input_signature=[tf.TensorSpec([10], tf.float32)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.allow_custom_ops = True
    return converter.convert()


def _write_bundle(folder: Path) -> None:
    """A small, untrained bundle that needs a newer runtime than the APK's."""
    spec = keras_vit.ViTSpec(patch_size=16, hidden_dim=32, depth=1, num_heads=2, mlp_dim=64)
    model, generator = keras_vit.ViT(spec, 10, 32), np.random.default_rng(0)
    model.set_weights([generator.normal(0, 0.2, w.shape) for w in model.get_weights()])
    labels = [str(digit) for digit in range(10)]
    with tempfile.TemporaryDirectory() as parent:
        deploy.export_bundles(model, parent, folder.name, threads=(), labels=labels)
        shutil.copytree(Path(parent) / folder.name, folder, dirs_exist_ok=True)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.relative_to(_DEMO)}: {size:,} bytes")


def _bytes(array: np.ndarray) -> dict[str, Any]:
    """The bytes of an array, little endian and row-major, or only their hash."""
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    if len(raw) > _MOST_STORED:
        return {"sha256": hashlib.sha256(raw).hexdigest()}
    return {"base64": base64.b64encode(raw).decode()}


def _write(path: Path, value: Any) -> None:
    # One case a line, so that a change of one case is one line.
    if isinstance(value, list):
        text = "[\n" + ",\n".join(json.dumps(case) for case in value) + "\n]\n"
    else:
        text = json.dumps(value, indent=1) + "\n"
    _write_bytes(path, text.encode())


def _write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    print(f"{path.relative_to(_DEMO)}: {path.stat().st_size:,} bytes")


# What Python makes without a model: the same on every machine, but for the last bits of floats.
MAKERS = {
    _CORE / "resizing.json": _resizing,
    _CORE / "tensors.json": _tensors,
    _CORE / "alpha.json": _alpha,
    _CORE / "orientations.json": _orientations,
    _CORE / "yuv.json": _yuv,
    _CORE / "scores.json": _scores,
    _CORE / "percentiles.json": _percentiles,
    _CORE / "patch_colours.json": _patch_colours,
    _CORE / "masks.json": _masks,
    _CORE / "class_colours.json": _class_colours,
}
DIGITS = _DIGITS / "digits.json"
SAMPLES = _APP / "samples.json"
SIMILAR = _APP / "similar.json"
FEATURE_MAPS = _APP / "feature_maps.json"
MASKS = _APP / "masks.json"
# XNNPACK does not have its only operator.
CUMULATIVE_SUM = _DIGITS / "cumulative_sum.tflite"
# No runtime has its only operator, which TFLite does not define.
BESSEL = _DIGITS / "bessel.tflite"
# Neither XNNPACK nor LiteRT's GPU accelerator has the second of its three operators.
LOG_SOFTMAX = _DIGITS / "log_softmax.tflite"
# Named after its precision.
TOO_NEW = _APP / "bundles/dynamic"


if __name__ == "__main__":
    main()
