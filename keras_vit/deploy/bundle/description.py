"""Reads the JSON files of a bundle, model.json and golden.json; their schemas."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from keras_vit import _files
from keras_vit._checks import MOST_CLASSES
from keras_vit._errors import UsageError, shown
from keras_vit._json import Lines, Positive, Side, Text
from keras_vit.deploy.judge.client_verdict import ClientVerdict
from keras_vit.deploy.judge.gpu import GpuRun
from keras_vit.deploy.judge.verdict import Verdict
from keras_vit.encoder.ops import HeadActivation
from keras_vit.tflite.file_inspection import Delegation
from keras_vit.tflite.gpu_compatibility import Finding

FORMAT = 1
# The names of an input's channels in model.json.
CHANNELS = {1: "grey", 3: "RGB"}
_MOST_GOLDEN = 1 << 30  # a picture and the tensor of `MOST_PIXELS` pixels, in base64
_Length = Annotated[int, Meta(ge=1, le=MOST_CLASSES)]  # of a tensor's dimension


class Quantization(Struct):
    """Scale and zero point of an integer tensor."""

    scale: float
    zero_point: Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]


class TensorDescription(Struct, kw_only=True):
    """A tensor in model.json."""

    shape: Annotated[list[_Length], Meta(min_length=1, max_length=8)]
    dtype: str
    quantization: Quantization | None = None


class Input(TensorDescription, kw_only=True):
    """The input in model.json."""

    shape: Annotated[list[Side], Meta(min_length=4, max_length=4)]
    height: Side
    width: Side
    crop: float | None
    interpolation: str
    mean: float | tuple[float, float, float]
    scale: float | tuple[float, float, float]
    channels: Literal["RGB", "grey"] = "RGB"


class Output(TensorDescription, kw_only=True):
    """The output in model.json."""

    kind: str
    classes: int | None = None
    activation: HeadActivation | None = None
    exclusive: bool | None = None
    meaning: str | None = None
    normalized: bool | None = None


class Bundle(Struct, kw_only=True):
    """model.json: what is needed to run a bundle."""

    model: str
    precision: str
    sha256: str
    input: Input
    output: Output


@dataclasses.dataclass(frozen=True)
class Parity(Verdict):
    """The comparison with Keras in model.json."""

    images_from: str = ""
    largest_drop: float | None = None
    max_drop: Annotated[float, Meta(ge=0, le=1e30)] | None = None


class Calibration(Struct):
    """The images that ranges were measured on."""

    images: int
    sha256: str


class Half(Struct):
    """The comparison in half precision; without figures if the file does not run in it."""

    problem: Text
    max_difference: float = 0.0
    scale: Positive = 1.0
    accuracy: float | None = None
    mean_iou: float | None = None


class Described(Bundle, kw_only=True):
    """model.json: what cards and tables say of a bundle."""

    bytes: int
    parity: Parity
    parameters: int | None = None
    weights_sha256: str | None = None
    runtime_floor: str = ""
    delegation: Delegation | None = None
    gpu: list[Finding] | None = None
    gpu_run: GpuRun | None = None
    float_layers: Lines = []
    chosen_on: str | None = None
    blocks: dict[str, float] | None = None
    calibration: Calibration | None = None
    half_precision: Half | None = None
    client: ClientVerdict | None = None
    zero_shot: ZeroShot | None = None
    made_with: dict[str, str] = {}


class ZeroShot(Struct):
    """How a head was made of texts."""

    templates: Annotated[list[Text], Meta(max_length=MOST_CLASSES)]
    tower_sha256: str | None = None


class Array(Struct):
    """An array in golden.json."""

    dtype: Literal["uint8", "float32"]
    shape: Annotated[list[_Length], Meta(min_length=1, max_length=4)]
    base64: Annotated[str, Meta(description="as long as the file")]


class Tolerance(Struct):
    """How much a correct runner may differ.

    `scores` of a class map, and `pixels` of scores of masks, is the fraction of the pixels that may
    have another class.
    """

    tensor: float
    scores: float
    scores_half_precision: float | None = None
    pixels: float | None = None


class Golden(Struct):
    """The content of golden.json."""

    image: Array
    tensor: Array
    scores: Array
    tolerance: Tolerance


def read_bundle(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A bundle's model.json and its golden arrays: image, tensor, scores.

    Raises:
        UsageError: a file is missing or has a newer format, or model.json describes another
            model.tflite.
    """
    folder = Path(folder)
    description = _files.read_json(folder / "model.json", format=FORMAT, schema=Bundle)
    model = folder / "model.tflite"
    if not model.is_file():
        raise UsageError(f"{folder} is not a complete bundle: model.tflite is missing.")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    if digest != description["sha256"]:
        raise UsageError(
            f"{model} is not the file that model.json describes: expected sha256 "
            f"{description['sha256'][:12]}... Received: {digest[:12]}...; export it again."
        )
    return description, read_golden(folder)[0]


def read_golden(folder: Path) -> tuple[dict[str, np.ndarray], Tolerance]:
    """The arrays of a bundle's golden.json, image, tensor and scores, and their tolerance.

    Raises:
        UsageError: it is missing, has a newer format, a field has another type, the shape of an
            array does not fit its bytes, or the image is not uint8 RGB.
    """
    file = folder / "golden.json"
    golden = _files.read_record(file, Golden, format=FORMAT, most_bytes=_MOST_GOLDEN)
    names = ("image", "tensor", "scores")
    arrays = {name: _decode(getattr(golden, name), file) for name in names}
    image = arrays["image"]
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise UsageError(
            f"{file}: $.image must be uint8 (height, width, 3). "
            f"Received: {image.dtype} {image.shape}; export it again."
        )
    return arrays, golden.tolerance


def _decode(entry: Array, file: Path) -> np.ndarray:
    try:
        raw = base64.b64decode(entry.base64, validate=True)
        return np.frombuffer(raw, np.dtype(entry.dtype).newbyteorder("<")).reshape(entry.shape)
    except ValueError as error:
        raise UsageError(
            f"{file}: expected dtype, shape and base64 that fit each other. "
            f"Received: {shown(error)}; export it again."
        ) from None
