"""What the JSON files of a bundle must say, as schemas of `_json`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from msgspec import Meta, Struct

from keras_vit._checks import MOST_CLASSES
from keras_vit._json import Lines, Positive, Side, Text
from keras_vit.deploy.judge.client_verdict import ClientVerdict
from keras_vit.deploy.judge.gpu import GpuRun
from keras_vit.deploy.judge.parity import Verdict
from keras_vit.tflite.file_inspection import Delegation
from keras_vit.tflite.gpu_compatibility import Finding

_Length = Annotated[int, Meta(ge=1, le=MOST_CLASSES)]  # of a tensor's dimension


class Quantization(Struct):
    """Scale and zero point of an integer tensor."""

    scale: float
    zero_point: Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]


class Tensor(Struct, kw_only=True):
    """A tensor in model.json."""

    shape: Annotated[list[_Length], Meta(min_length=1, max_length=8)]
    dtype: str
    quantization: Quantization | None = None


class Input(Tensor, kw_only=True):
    """The input in model.json."""

    shape: Annotated[list[Side], Meta(min_length=4, max_length=4)]
    height: Side
    width: Side
    crop: float | None
    interpolation: str
    mean: float | tuple[float, float, float]
    scale: float | tuple[float, float, float]
    channels: Literal["RGB", "grey"] = "RGB"


class Output(Tensor, kw_only=True):
    """The output in model.json."""

    kind: str
    classes: int | None = None
    meaning: str | None = None


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
    made_with: dict[str, str] = {}


class Array(Struct):
    """An array in golden.json."""

    dtype: Literal["uint8", "float32"]
    shape: Annotated[list[_Length], Meta(min_length=1, max_length=4)]
    base64: Annotated[str, Meta(description="as long as the file")]


class Tolerance(Struct):
    """How much a correct runner may differ."""

    tensor: float
    scores: float
    scores_half_precision: float | None = None


class Golden(Struct):
    """golden.json."""

    image: Array
    tensor: Array
    scores: Array
    tolerance: Tolerance
