"""The bundle: model.tflite, model.json, labels.txt, golden.json. What an app needs, and no more."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.export import Exported, to_pixels
from keras_vit.deploy.runner import Runner
from keras_vit.models.image_model import ImageModel
from keras_vit.specs import Preprocessing
from keras_vit.weights.names import weight_names

FORMAT = 1


def write_bundle(
    folder: str | os.PathLike,
    exported: Exported,
    labels: tuple[str, ...],
    preprocessing: Preprocessing,
    golden_image: np.ndarray,
    model_name: str,
    parity_images: str,
    calibration: np.ndarray | None = None,
    recipe: dict[str, Any] | None = None,
    max_drop: float | None = None,
    parameters: int | None = None,
    weights: str | None = None,
) -> dict[str, Any]:
    """Checks and writes a bundle; a killed process leaves the old folder or the new one.

    Args:
        folder: the bundle.
        exported: the file; over its budget nothing is written.
        labels: the classes' names, in the order of the scores.
        preprocessing: how images become Keras' input.
        golden_image: uint8 (h, w, 3) of any size; shrunk to 320 pixels, it stands in golden.json
            with the tensor and the scores it must give, so that any runner can be tested.
        model_name: for model.json.
        parity_images: where the images of the comparison came from, in words.
        calibration: the images that ranges were measured on.
        recipe: what `auto` chose, for recipe.json.
        max_drop: points of accuracy that it may lose: see `Verdict.check`.
        parameters: how many the Keras model has.
        weights: `weights_sha256` of the Keras model; bundles share a card only where it is equal.

    Returns:
        What model.json says.

    Raises:
        ParityError: the file is over its budget.
        UsageError: the folder holds something that is no bundle.
    """
    folder = Path(folder)
    check_replaceable(folder)
    exported.verdict.check(max_drop)
    content, options = exported.content, exported.options
    runner = Runner(content)
    golden_image = _bounded(golden_image)
    tensor = preprocess_image(golden_image, preprocessing)
    how = preprocessing.to_dict()
    if options.input == "uint8":
        # The file scales pixels itself; a runner that subtracts and divides does no harm.
        tensor = to_pixels(tensor, preprocessing)
        how |= {"mean": 0.0, "scale": 1.0}
    inspection = exported.inspection.to_dict()
    delegation = {k: inspection.pop(k) for k in ("nodes", "delegated", "partitions", "undelegated")}
    verdict = exported.verdict.to_dict(max_drop)
    description = {
        "format": FORMAT,
        "model": model_name,
        "parameters": parameters,
        "weights_sha256": weights,
        "precision": exported.verdict.precision,
        "input": _tensor(runner.input) | {"channels": "RGB", **how},
        "output": _tensor(runner.output) | {"kind": options.output, "classes": len(labels)},
        "runtime_floor": inspection.pop("runtime"),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        **inspection,
        "delegation": delegation,
        "float_layers": list(exported.float_layers),
        "chosen_on": recipe and recipe.get("chosen_on"),
        "blocks": exported.differences,
        "calibration": _calibration(calibration),
        "parity": {"images_from": parity_images, **verdict},
        "half_precision": exported.half and exported.half.to_dict(),
        "made_with": _versions(),
    }
    # At least a step of an integer output, which may be rounded the other way, and a thousandth of
    # the scale: float files differ by 2e-6 on TFLite 2.13 to LiteRT 2.3 (`benchmarks/runtimes.py`).
    least = max(1e-3 * exported.verdict.scale, 1e-6, 1.5 * runner.output["quantization"][0])
    tolerances = {"tensor": 1e-6, "scores": max(least, exported.tolerance)}
    if exported.half is not None and exported.half.verdict is not None:
        tolerances["scores_half_precision"] = 2 * max(least, exported.half.verdict.max_difference)
    with _files.replacing_folder(folder) as temporary:
        (temporary / "model.tflite").write_bytes(content)
        _files.write_text(temporary / "labels.txt", "".join(f"{label}\n" for label in labels))
        golden = {
            "format": FORMAT,
            "image": _encode(golden_image),
            "tensor": _encode(tensor),
            "scores": _encode(runner(tensor[None])[0]),
            "tolerance": tolerances,
        }
        _files.write_json(temporary / "golden.json", golden)
        if recipe is not None:
            _files.write_json(temporary / "recipe.json", recipe)
        _files.write_json(temporary / "model.json", description)
    return description


def weights_sha256(model: ImageModel) -> str:
    """A hash of a model's weights: their official names, shapes and float32 values, in order.

    The same for the same weights in both flavours of Keras and on every backend; one weight is in
    memory at a time.
    """
    digest = hashlib.sha256()
    for name in weight_names(model.spec, model.num_classes, model.image_size):
        array = np.ascontiguousarray(name.variable(model), "<f4")
        digest.update(f"{name.key} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def check_replaceable(folder: str | os.PathLike) -> None:
    """Raises a `UsageError` where a folder holds something that is no bundle."""
    folder = Path(folder)
    for path in (folder, folder.parent):
        if path.is_file():
            raise UsageError(f"{path} is a file; choose another --out.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "model.json").is_file():
        raise UsageError(f"{folder} is not empty and holds no bundle; choose another --out.")


def read_bundle(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A bundle's model.json and its golden arrays: image, tensor, scores.

    Raises:
        UsageError: a file is missing, of a newer format, or model.tflite is not the one that
            model.json describes.
    """
    folder = Path(folder)
    description = _files.read_json(folder / "model.json", format=FORMAT, fields=("sha256",))
    model = folder / "model.tflite"
    if not model.is_file():
        raise UsageError(f"{folder} is not a whole bundle: model.tflite missing.")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    if digest != description["sha256"]:
        raise UsageError(
            f"{model} is not the file that model.json describes: expected sha256 "
            f"{description['sha256'][:12]}... Received: {digest[:12]}...; export it again."
        )
    names = ("image", "tensor", "scores")
    golden = _files.read_json(folder / "golden.json", format=FORMAT, fields=names)
    return description, {name: _decode(golden[name]) for name in names}


def _bounded(image: np.ndarray) -> np.ndarray:
    picture = Image.fromarray(image)
    picture.thumbnail((320, 320))
    return np.asarray(picture)


def _tensor(details: dict[str, Any]) -> dict[str, Any]:
    scale, zero_point = details["quantization"]
    quantization = {"quantization": {"scale": float(scale), "zero_point": int(zero_point)}}
    return {
        "name": details["name"],
        "shape": [int(side) for side in details["shape"]],
        "dtype": np.dtype(details["dtype"]).name,
        **(quantization if scale else {}),
    }


def _calibration(images: np.ndarray | None) -> dict[str, Any] | None:
    if images is None:
        return None
    return {"images": len(images), "sha256": hashlib.sha256(images.tobytes()).hexdigest()}


def _versions() -> dict[str, str]:
    packages = ("keras_vit", "tensorflow", "keras", "tf_keras", "ai-edge-litert")
    return {name: version(name) for name in (*packages, "ai-edge-quantizer") if _installed(name)}


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _encode(array: np.ndarray) -> dict[str, Any]:
    # Raw bytes, little endian, row-major: readable in a few lines of any language.
    array = np.ascontiguousarray(array)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode(),
    }


def _decode(entry: dict[str, Any]) -> np.ndarray:
    dtypes = {"uint8": np.dtype("u1"), "float32": np.dtype("<f4")}
    try:
        raw = base64.b64decode(entry["base64"], validate=True)
        return np.frombuffer(raw, dtypes[entry["dtype"]]).reshape(entry["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"golden.json: expected dtype, shape and base64 that fit each other: {error!r}."
        ) from None
