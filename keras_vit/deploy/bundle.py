"""The bundle: model.tflite, model.json, labels.txt, golden.json. What an app needs, and no more."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from keras_vit import _files
from keras_vit._errors import UsageError
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.parity import Verdict
from keras_vit.deploy.runner import Runner
from keras_vit.specs import Preprocessing

FORMAT = 1


def write_bundle(
    folder: str | os.PathLike,
    content: bytes,
    verdict: Verdict,
    labels: tuple[str, ...],
    preprocessing: Preprocessing,
    golden_image: np.ndarray,
    model_name: str,
    parity_images: str,
) -> dict[str, Any]:
    """Checks and writes a bundle; a killed process leaves the old folder or the new one.

    Args:
        folder: the bundle.
        content: of model.tflite.
        verdict: its comparison with Keras; over its budget nothing is written.
        labels: the classes' names, in the order of the scores.
        preprocessing: how images become the input.
        golden_image: uint8 (h, w, 3) of any size; shrunk to 320 pixels, it stands in golden.json
            with the tensor and the scores it must give, so that any runner can be tested.
        model_name: for model.json.
        parity_images: where the images of the comparison came from, in words.

    Returns:
        What model.json says.

    Raises:
        ParityError: the verdict is over its budget.
        UsageError: the folder holds something that is no bundle.
    """
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "model.json").is_file():
        raise UsageError(f"{folder} is not empty and holds no bundle; choose another --out.")
    verdict.check()
    runner = Runner(content)
    golden_image = _bounded(golden_image)
    tensor = preprocess_image(golden_image, preprocessing)
    description = {
        "format": FORMAT,
        "model": model_name,
        "precision": verdict.precision,
        "input": _tensor(runner.input) | {"channels": "RGB", **preprocessing.to_dict()},
        "output": _tensor(runner.output) | {"kind": "logits", "classes": len(labels)},
        "runtime_floor": runtime_floor(content),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "operators": operators(content),
        "parity": {"images_from": parity_images, **dataclasses.asdict(verdict)},
    }
    with _files.replacing_folder(folder) as temporary:
        (temporary / "model.tflite").write_bytes(content)
        _files.write_text(temporary / "labels.txt", "".join(f"{label}\n" for label in labels))
        golden = {
            "format": FORMAT,
            "image": _encode(golden_image),
            "tensor": _encode(tensor),
            "scores": _encode(runner(tensor[None])[0]),
            "tolerance": {"tensor": 1e-6, "scores": 1e-3 * max(verdict.scale, 1e-3)},
        }
        _files.write_json(temporary / "golden.json", golden)
        _files.write_json(temporary / "model.json", description)
    return description


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


def operators(content: bytes) -> dict[str, int]:
    """How often each operator stands in a flatbuffer, by name.

    Raises:
        UsageError: one of them is not TFLite's own.
    """
    from ai_edge_litert import schema_py_generated as schema

    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    custom = [code.customCode for code in model.operatorCodes if code.customCode]
    if custom:
        raise UsageError(f"the model needs operators that are not TFLite's own: {custom}.")
    codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in model.operatorCodes]
    count = Counter(names[codes[op.opcodeIndex]] for g in model.subgraphs for op in g.operators)
    return dict(sorted(count.items()))


def runtime_floor(content: bytes) -> str:
    """The oldest TFLite runtime that runs a flatbuffer, as the converter wrote it there."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for entry in model.metadata or []:
        if entry.name == b"min_runtime_version":
            return bytes(model.buffers[entry.buffer].data).rstrip(b"\0").decode()
    return "unknown"


def _bounded(image: np.ndarray) -> np.ndarray:
    picture = Image.fromarray(image)
    picture.thumbnail((320, 320))
    return np.asarray(picture)


def _tensor(details: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": details["name"],
        "shape": [int(side) for side in details["shape"]],
        "dtype": np.dtype(details["dtype"]).name,
    }


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
