"""Exports a ViT or BiT as a SavedModel for servers: from images or picture files to labels.

It needs only TensorFlow, not this library, Keras or Pillow.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from keras_vit import _files
from keras_vit._checks import classifies, positive_integer, reads_pictures
from keras_vit._errors import RefusedError, UsageError
from keras_vit.data.luma_and_crop import luma
from keras_vit.data.picture_limits import MOST_PIXELS
from keras_vit.data.preprocessing import normalise, resize
from keras_vit.data.tf_preprocessing import read_valid_pictures
from keras_vit.deploy.convert.converter import graph_module
from keras_vit.deploy.convert.saved_model import save_module
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.inference import HEAD_ACTIVATIONS
from keras_vit.deploy.judge.parity import compare
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.deploy.reference_scores import full_precision, predict
from keras_vit.deploy.resolve import About, Resolved, resolve
from keras_vit.encoder.ops import HeadActivation
from keras_vit.labels import answers_of, imagenet2012_labels, write_labels
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import Preprocessing

FORMAT = 1
_PICTURES, _BATCH = 16, 32
_FLOAT32 = PRECISIONS["none"].name


def export_serving(
    model: Any,
    folder: str | os.PathLike,
    images: Iterable[np.ndarray] | None = None,
    top_k: int = 5,
    images_from: str = "random images",
) -> dict[str, Any]:
    """Writes a SavedModel, after it was loaded again and compared with Keras.

    Signatures:
        "serving_default": "images", uint8 RGB (n, height, width, 3) of the model's size, which a
            model of one channel turns to grey.
        "bytes": "image_bytes", strings (n,), complete JPEG or PNG files of any mode, of up to
            110,000,000 pixels each. They are decoded, rotated according to EXIF, and cropped and
            resized according to the model's `preprocessing`. Files that are decoded at the same
            time have no more pixels together, so that a call needs at most 1.4 GB for them besides
            the model's own memory. A call may have as many files as give 110,000,000 pixels at the
            model's size: 2,192 at 224 x 224.

    Both return "logits" and "probabilities" (n, classes), and for the `top_k` most probable classes
    "scores" (their probabilities), "classes" (their indices) and "labels" (strings), each (n, k).
    A model of one logit has two classes there: 0, "not LABEL", and 1, its label.
    A model with pooling "none" returns these for each token: (n, tokens, classes), (n, tokens, k).
    A model without classes returns "features".

    "bytes" also returns "valid", bool (n,): false for a file that is not a complete JPEG or PNG, or
    is beyond the limits of docs/picture-limits.md. Its floats are NaN, its classes -1 and its
    labels ""; the other files are still classified.

    The model is described in `assets.extra`: model.json and labels.txt. A model without labels uses
    those of ImageNet-1k if it has 1000 classes, otherwise the classes' numbers.

    Args:
        model: a `keras_vit` model, on any backend.
        folder: replaced as a whole; TensorFlow Serving expects a version number as its name, as in
            "flowers/1".
        images: uint8 RGB of any size, to compare on; they are read once. Default: random images,
            which are a weaker check.
        top_k: the number of classes to name, at most all classes.
        images_from: a description of `images`.

    Returns:
        The content of model.json, with the comparison with Keras under "parity".

    Raises:
        RefusedError: the scores differ from Keras' by more than the order of summation explains, or
            its pixels from Pillow's; nothing is written.
        UsageError: the model is not one of `keras_vit`, or the folder holds something else.
        OSError: the disk is full or the folder cannot be written.
    """
    if not isinstance(model, ImageModel):
        raise UsageError(
            "expected a keras_vit model, a ViT or a BiT. "
            f"Received: {type(model).__name__}; deploy.export_saved_model writes any Keras model."
        )
    reads_pictures(model)
    classifies(model, model.name)
    positive_integer("top_k", top_k)
    _files.check_replaceable(folder, "SavedModel")
    output = "logits" if model.num_classes else "features"
    resolved = resolve(model, GraphOptions(input="uint8", output=output, batch=None))
    images = _noise(resolved.input_shape[:2]) if images is None else images
    resized, pictures = _samples(images, resolved.about.preprocessing)
    # On the CPU: a GPU may round the inputs of matrix products (TF32) by more than the budget.
    with _files.replacing_folder(folder) as temporary, tf.device("CPU:0"):
        signatures = _write(resolved, temporary, top_k)
        served = tf.saved_model.load(str(temporary))
        expected = predict(resolved.keras, normalise(resized, resolved.about.preprocessing))
        parity = _parity(expected, served, resized, pictures, output)
        description = _description(model, signatures) | {
            "parity": {"images_from": images_from, **parity}
        }
        _files.write_json(temporary / "assets.extra" / "model.json", description)
        if model.labels:
            write_labels(temporary / "assets.extra" / "labels.txt", model.labels)
    return description


def serving_module(resolved: Resolved, top_k: int) -> tf.Module:
    """The saved module: `classify(images)`, `read(image_bytes)`, `classify_pictures(image_bytes)`.

    See `export_serving`; `read` returns the preprocessed pictures, uint8 (n, height, width, 3), and
    which of them are valid, bool (n,).
    """
    module = graph_module(resolved)
    labels = _labels(resolved.about) if resolved.about.options.output == "logits" else ()
    activation = resolved.about.activation or ("softmax" if len(labels) > 1 else "sigmoid")
    height, width = resolved.input_shape[:2]
    pixels = tf.TensorSpec((None, height, width, 3), tf.uint8, name="images")
    files = tf.TensorSpec((None,), tf.string, name="image_bytes")
    # A file of a few bytes becomes an image of the model's size.
    most = max(MOST_PIXELS // (height * width), _BATCH)

    @tf.function(input_signature=[pixels], autograph=False)
    def classify(images):
        # A loaded signature accepts other sizes too and would split a larger image into several.
        size = tf.shape(images)[1:]
        message = f"images must be uint8 (n, {height}, {width}, 3)"
        with tf.control_dependencies([tf.debugging.assert_equal(size, pixels.shape[1:], message)]):
            images = tf.ensure_shape(tf.identity(images), pixels.shape)
        if resolved.about.preprocessing.channels == 1:
            images = tf.cast(luma(tf.cast(images, tf.float32), tf.floor), tf.uint8)
        outputs = module.serve(images)
        return (
            {**outputs, **_best(outputs["logits"], labels, top_k, activation)}
            if labels
            else outputs
        )

    @tf.function(input_signature=[files], autograph=False)
    def read(image_bytes):
        message = f"image_bytes must be at most {most} files"
        few = tf.debugging.assert_less_equal(tf.size(image_bytes), most, message)
        with tf.control_dependencies([few]):
            return read_valid_pictures(tf.identity(image_bytes), resolved.about.preprocessing)

    @tf.function(input_signature=[files], autograph=False)
    def classify_pictures(image_bytes):
        images, valid = read(image_bytes)
        outputs = {name: _masked(values, valid) for name, values in classify(images).items()}
        return {**outputs, "valid": valid}

    module.classify, module.read, module.classify_pictures = classify, read, classify_pictures
    return module


def _write(resolved: Resolved, folder: Path, top_k: int) -> dict[str, Any]:
    """Writes the SavedModel and returns its signatures; its memory is freed afterwards."""
    module = serving_module(resolved, top_k)
    signatures = {
        "serving_default": module.classify.get_concrete_function(),
        "bytes": module.classify_pictures.get_concrete_function(),
    }
    save_module(module, folder, signatures)
    return {name: _tensors(function) for name, function in signatures.items()}


def _best(
    logits: tf.Tensor, labels: tuple[str, ...], top_k: int, activation: HeadActivation
) -> dict[str, tf.Tensor]:
    probabilities, answers = HEAD_ACTIVATIONS[activation](logits), answers_of(labels)
    each = probabilities
    if len(labels) == 1:
        each = tf.concat([1 - probabilities, probabilities], axis=-1)
    scores, classes = tf.math.top_k(each, min(top_k, len(answers)))
    return {
        "probabilities": probabilities,
        "scores": scores,
        "classes": classes,
        "labels": tf.gather(tf.constant(answers), classes),
    }


def _masked(values: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    missing = "" if values.dtype == tf.string else -1 if values.dtype.is_integer else np.nan
    valid = tf.reshape(valid, [-1] + [1] * (values.shape.rank - 1))  # (n, 1, ...)
    return tf.where(valid, values, tf.constant(missing, values.dtype))


def _labels(about: About) -> tuple[str, ...]:
    if not about.labels and about.num_outputs == 1000:
        return imagenet2012_labels()
    return about.class_names


def _parity(
    expected: np.ndarray, served: Any, resized: np.ndarray, pictures: list, output: str
) -> dict[str, Any]:
    """Compares the loaded SavedModel with Keras and Pillow; raises `RefusedError`."""
    actual = _run(served.signatures["serving_default"], images=resized)[output]
    verdict = compare(_FLOAT32, expected, actual)
    verdict.check()
    read, _ = _run(served.read, image_bytes=pictures)
    difference = np.abs(read.astype(int) - resized[: len(read)])
    if difference.max():
        raise RefusedError(
            "the pixels that the SavedModel reads from PNG files must equal Pillow's. Received: a "
            f"difference of {difference.max()} of 255; nothing was written."
        )
    again = _run(served.signatures["serving_default"], images=read)[output]
    from_bytes = _run(served.signatures["bytes"], image_bytes=pictures)[output]
    compare(_FLOAT32, again, from_bytes).check()
    return dataclasses.asdict(verdict) | {"pictures": len(pictures)}


def _run(function: Any, **inputs: Any) -> Any:
    """Calls a loaded function batch by batch; returns NumPy arrays in the function's structure."""
    ((name, values),) = inputs.items()
    batches = [values[i : i + _BATCH] for i in range(0, len(values), _BATCH)]
    with full_precision():
        outputs = [function(**{name: tf.constant(batch)}) for batch in batches]
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def _samples(
    images: Iterable[np.ndarray], preprocessing: Preprocessing
) -> tuple[np.ndarray, list[bytes]]:
    """All images in the model's size, uint8, and the first of them as PNG files."""
    resized, pictures = [], []
    for image in images:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
            raise UsageError(
                "images to compare on must be uint8 (height, width, 3). "
                f"Received: {image.dtype} {image.shape}."
            )
        picture = Image.fromarray(image)
        resized.append(np.asarray(resize(picture, preprocessing)))
        if len(pictures) < _PICTURES:
            file = io.BytesIO()
            picture.save(file, "PNG", compress_level=1)
            pictures.append(file.getvalue())
    if not resized:
        raise UsageError("there is no image to compare on.")
    return np.stack(resized), pictures


def _noise(image_size: tuple[int, int]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    sides = generator.integers(1, [2 * side + 1 for side in image_size], (8, 2))
    return [generator.integers(0, 256, (*size, 3)).astype(np.uint8) for size in sides]


def _description(model: ImageModel, signatures: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "model": model.name,
        "spec": model.spec.to_dict(),
        "num_classes": model.num_classes,
        "image_size": model.image_size,
        "preprocessing": model.preprocessing.to_dict(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("keras_vit", "tensorflow")
        },
        "signatures": signatures,
    }


def _tensors(function: Any) -> dict[str, Any]:
    inputs = {spec.name: spec for spec in function.structured_input_signature[0]}
    return {
        kind: {
            name: {"dtype": spec.dtype.name, "shape": list(spec.shape)}
            for name, spec in specs.items()
        }
        for kind, specs in (("inputs", inputs), ("outputs", function.structured_outputs))
    }
