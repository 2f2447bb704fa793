"""Writes bundles, all that an app needs: model.tflite, model.json, labels.txt, golden.json."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from keras_vit import _files
from keras_vit._checks import PICTURE_CHANNELS
from keras_vit._errors import RefusedError, UsageError
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.deploy.bundle.description import CHANNELS, FORMAT, Bundle
from keras_vit.deploy.bundle.gallery import FOLDER as GALLERY
from keras_vit.deploy.convert.metadata import meaning
from keras_vit.deploy.judge.judged_file import JudgedFile
from keras_vit.deploy.resolve import About, Resolved
from keras_vit.deploy.sample_images import to_pixels
from keras_vit.labels import write_labels
from keras_vit.tflite.compiled_model import predict_in_half_precision
from keras_vit.tflite.flatbuffer import MappedFile, mapped
from keras_vit.tflite.phone_records import FOLDER as PHONES
from keras_vit.tflite.processes import release_memory
from keras_vit.tflite.runner import Runner, changed_pixels, difference_of

# Whose versions model.json states.
_PACKAGES = ("keras_vit", "tensorflow", "keras", "tf_keras", "ai-edge-litert", "ai-edge-quantizer")

# Images to run in half precision for the tolerance of a file for NPUs.
_FEW = 32


def write_bundle(
    folder: str | os.PathLike,
    judged: JudgedFile,
    picture: np.ndarray,
    max_drop: float | None = None,
) -> dict[str, Any]:
    """Checks and writes a bundle. A killed process leaves either the old folder or the new one.

    A gallery stays if the older bundle made the same vectors of pictures.

    Args:
        folder: the folder to write.
        judged: the file; nothing is written if it is over its budget.
        picture: uint8 (height, width, 3) of any size. It is shrunk to 320 pixels and stored in
            golden.json with the expected tensor and scores, so that any runner can be tested.
        max_drop: points of accuracy that the file may lose: see `Verdict.check`.

    Returns:
        The content of model.json.

    Raises:
        ParityError: the file is over its budget.
        UsageError: the folder holds something other than a bundle.
    """
    folder, made, about = Path(folder), judged.made, judged.made.about
    _files.check_replaceable(folder, "bundle")
    judged.verdict.check(max_drop)
    blocks, _ = judged.differences  # before this process loads the file too
    runner = Runner(made.content)
    thumbnail = Image.fromarray(picture)
    thumbnail.thumbnail((320, 320))
    picture = np.asarray(thumbnail)
    tensor = preprocess_image(picture, about.preprocessing)
    if about.options.input == "uint8":
        tensor = to_pixels(tensor, about.preprocessing)
    description = _description(judged, blocks, runner, max_drop)
    scores, step = runner(tensor[None])[0], runner.output["quantization"][0]
    del runner  # half precision runs in another process, which loads the file too
    release_memory()
    golden = {
        "format": FORMAT,
        "image": _encode(picture),
        "tensor": _encode(tensor),
        "scores": _encode(scores),
        "tolerance": _tolerances(judged, step, tensor, scores),
    }
    with _files.replacing_folder(folder) as temporary:
        shutil.copyfile(made.content, temporary / "model.tflite")
        if about.options.scores_classes:
            write_labels(temporary / "labels.txt", about.class_names)
        _files.write_json(temporary / "golden.json", golden)
        if made.recipe is not None:
            _files.write_json(temporary / "recipe.json", made.recipe)
        _files.write_json(temporary / "model.json", description)
        if (folder / PHONES).is_dir():  # each record says of which file it is
            shutil.copytree(folder / PHONES, temporary / PHONES)
        if (folder / GALLERY).is_dir() and _gives_the_same(folder, description):
            shutil.copytree(folder / GALLERY, temporary / GALLERY, symlinks=True)
    return description


def _gives_the_same(folder: Path, description: dict[str, Any]) -> bool:
    """Whether an older bundle makes the same vectors of pictures as the one that is described."""
    try:
        older = _files.read_json(folder / "model.json", format=FORMAT, schema=Bundle)
    except UsageError:
        return False
    stored = json.loads(json.dumps(description))  # as lists
    return all(older[field] == stored[field] for field in ("sha256", "input", "output"))


def _description(
    judged: JudgedFile, blocks: dict[str, float], runner: Runner, max_drop: float | None
) -> dict[str, Any]:
    """The content of model.json."""
    made, about = judged.made, judged.made.about
    preprocessing = about.preprocessing.to_dict()
    preprocessing["channels"] = CHANNELS[about.preprocessing.channels]
    del preprocessing["pad"]  # no file has it
    if about.options.input == "uint8":
        # The file scales pixels itself; these values let a runner apply them without effect.
        preprocessing |= {"mean": 0.0, "scale": 1.0}
    inspection = judged.inspection.to_dict()
    delegation = {k: inspection.pop(k) for k in ("nodes", "delegated", "partitions", "undelegated")}
    return {
        "format": FORMAT,
        "model": about.name,
        "parameters": about.parameters,
        "weights_sha256": about.weights_sha256,
        "precision": made.precision.name,
        "input": _tensor(runner.input) | preprocessing,
        "output": _tensor(runner.output) | _output(about),
        **({"zero_shot": about.zero_shot} if about.zero_shot else {}),
        "runtime_floor": inspection.pop("runtime"),
        "bytes": len(made.content),
        "sha256": hashlib.sha256(mapped(made.content)).hexdigest(),
        **inspection,
        "delegation": delegation,
        "float_layers": list(made.float_layers),
        "chosen_on": made.recipe and made.recipe.get("chosen_on"),
        "blocks": blocks,
        "calibration": _calibration(made.calibration),
        "parity": {"images_from": judged.reference.images_from, **judged.verdict.to_dict(max_drop)},
        "gpu_run": msgspec.json.decode(msgspec.json.encode(judged.gpu)),
        "half_precision": judged.half and judged.half.to_dict(),
        "client": judged.client and judged.client.to_dict(),
        "made_with": _versions(),
        **(made.earlier or {}),
    }


def _output(about: About) -> dict[str, Any]:
    """What the output is; explained where its probabilities are sigmoids."""
    kind, classes, activation = about.options.output, len(about.class_names), about.activation
    if not about.options.scores_classes:
        return {"kind": kind, **({} if about.options.is_map else {"normalized": about.normalized})}
    output = {"kind": kind, "classes": classes}
    if activation is None:
        return output
    output |= {"activation": activation, "exclusive": activation == "softmax" or classes == 1}
    words = {"meaning": meaning(kind, classes, activation)}
    return output | (words if activation == "sigmoid" else {})


def _tolerances(
    judged: JudgedFile, step: float, tensor: np.ndarray, scores: np.ndarray
) -> dict[str, float]:
    """How much the tensor and the scores of a correct runner may differ from the golden ones.

    Args:
        step: of an integer output; 0 for floats.
    """
    # A step of an integer output may be rounded either way.
    least = max(judged.score_tolerance, 1.5 * step)
    tolerances = {"tensor": 1e-6, "scores": least}
    changed, gives_scores = [judged.most_changed_pixels], scores.ndim == 3
    half = judged.half and judged.half.verdict
    if half is not None:
        # Processors differ in half precision, and this picture may be harder than those compared.
        found = predict_in_half_precision(judged.content, tensor[None])
        own = difference_of(found, scores[None])
        changed += [2 * changed_pixels(found, scores[None])] if gives_scores else []
        tolerances["scores_half_precision"] = 2 * max(least, half.max_difference, own)
    elif judged.made.precision.is_for_npus:
        half_changed = _changed_by_half_precision(judged.made.float_file, judged.reference.inputs)
        if np.isfinite(half_changed):
            tolerances["scores_half_precision"] = 2 * max(least, half_changed)
    if judged.made.about.options.output == "scores":
        tolerances["pixels"] = max(changed)
    return tolerances


def _changed_by_half_precision(content: MappedFile, inputs: np.ndarray) -> float:
    """The largest change of a score of a float file; NaN if it does not run in half precision.

    It stands for how NPUs round, which nobody states: they compute in half precision what is float
    in a file, and round integers in their own ways.
    """
    few = inputs[:_FEW]
    try:
        half = predict_in_half_precision(content, few)
    except RefusedError:
        return np.nan
    return difference_of(half, Runner(content).predict(few))


def check_bundles(resolved: Resolved) -> None:
    """Raises a `UsageError` if bundles cannot describe a model."""
    channels = resolved.input_shape[-1]
    if channels not in PICTURE_CHANNELS:
        raise UsageError(
            "a bundle is for pictures, of 1 channel or 3. Received: a model that reads "
            f"{channels}; use export_tflite."
        )
    if resolved.about.preprocessing is None:
        raise UsageError(
            "a bundle needs the preprocessing of the model. Received: a model without one; pass "
            "preprocessing=keras_vit.Preprocessing(height, width, ...)."
        )


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
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _encode(array: np.ndarray) -> dict[str, Any]:
    # Raw bytes, little endian and row-major, are easy to read in any language.
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode(),
    }
