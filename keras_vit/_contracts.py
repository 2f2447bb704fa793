"""The JSON files that rooms meet through, as schemas: what each must have, of which type and size.

`_json.check` reads these. Fields that are not listed are left to their readers; fields with a
default may be absent, because files of older versions lack them. CONTRIBUTING.md says what the
files mean.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from keras_vit import _json
from keras_vit._checks import LONGEST_LABEL, LONGEST_SIDE, MOST_CLASSES, ONE_LINE

Line = Annotated[str, Meta(max_length=LONGEST_LABEL, pattern=ONE_LINE)]
Text = Annotated[str, Meta(max_length=10_000, pattern=r"\A[^\0]*\Z")]  # such as a path
# Keras takes the slash in a layer's name for a folder.
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=ONE_LINE.replace("^", "^/"))]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Side = Annotated[int, Meta(ge=1, le=LONGEST_SIDE)]
Length = Annotated[int, Meta(ge=1, le=MOST_CLASSES)]  # of a tensor's dimension
Sides = Annotated[list[Side], Meta(min_length=2, max_length=2)]
Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
Three = Annotated[list[Number], Meta(min_length=3, max_length=3)]
Lines = Annotated[list[Line], Meta(max_length=MOST_CLASSES)]
Figures = dict[Line, Number]


class Stem(Struct):
    """`ResNetStem`, whose constructor checks the values."""

    stages: list[int] = []
    width: Number = 1


class ViT(Struct):
    """`ViTSpec`, whose constructor checks the values."""

    patch_size: int
    hidden_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    pooling: Line = "token"
    representation_dim: int | None = None
    position_embedding: Line = "learned"
    gelu: Line = "tanh"
    layer_norm_eps: Number = 1e-6
    dropout: Number = 0
    attention_dropout: Number = 0
    drop_path: Number = 0
    stem: Stem | None = None
    in_channels: int = 3


class ResNet(Struct):
    """`ResNetSpec`, whose constructor checks the values."""

    layers: list[int]
    width: int = 1
    in_channels: int = 3


class Pixels(Struct):
    """`Preprocessing`, whose constructor checks the values."""

    height: Side
    width: Side
    crop: Number | None = None
    interpolation: Line = "bilinear"
    mean: Number | Three = 127.5
    scale: Number | Three = 127.5
    channels: int = 3


class RunSpec(Struct):
    """spec.json of a run folder."""

    model: Name
    spec: dict[Line, Any]
    num_classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    image_size: Sides
    preprocessing: Pixels
    weights: Text = ""


class Settings(Struct):
    """The settings in a run's recipe.json, those of `training.Recipe`, which checks their values.

    A run that was trained before there was a setting does not have it.
    """

    image_size: Side | Sides = UNSET
    interpolation: Line | None = None
    in_channels: int | None = None
    duration: Line = UNSET
    batch_size: Count = UNSET
    accumulate: Count | None = UNSET
    optimizer: Line = UNSET
    learning_rate: Number = UNSET
    schedule: Line = UNSET
    end_learning_rate: Number = UNSET
    warmup: Line = UNSET
    weight_decay: Number | None = None
    momentum: Number = UNSET
    beta_2: Number = UNSET
    layer_decay: Number = UNSET
    clip_norm: Number = UNSET
    ema: Number = UNSET
    loss: Line = UNSET
    masked: Number | None = None
    decoder_dim: Count = UNSET
    decoder_depth: Count = UNSET
    decoder_heads: Count = UNSET
    label_smoothing: Number = UNSET
    class_weights: Line = UNSET
    augment: Line = UNSET
    mixup: Number = UNSET
    cutmix: Number = UNSET
    erase: Number = UNSET
    dropout: Number | None = None
    drop_path: Number = UNSET
    position_embedding: Line | None = None
    overrides: Line = UNSET
    representation: bool = UNSET
    head_bias: Number = UNSET
    held_out: Number = UNSET
    sampling: Line = UNSET
    freeze: Line = UNSET
    lora: Count = UNSET
    distillation: Line = UNSET
    distillation_token: bool = UNSET
    distillation_weight: Number | None = None
    temperature: Number = UNSET
    precision: Line = UNSET
    remat: bool = UNSET
    steps_per_execution: Count = UNSET
    jit: bool | None = UNSET
    seed: Count = UNSET


class Teacher(Struct):
    """What a run's recipe.json says of the teacher."""

    name: Line
    sha256: Line


class RunRecipe(Struct):
    """recipe.json of a run folder."""

    data: Text
    recipe: Settings
    model: Line | None = None
    weights: Text | None = None
    teacher: Teacher | None = None
    checkpoint_every: Line | None = None
    keep_checkpoints: Count | None = None
    preset: Line | None = None
    versions: dict[Line, Line] = {}


class RunSplit(Struct):
    """split.json of a run folder."""

    train: Annotated[list[Text], Meta(min_length=1)]
    held_out: Annotated[list[Text], Meta(min_length=1)]
    rule: Text = ""
    targets_sha256: Line | None = None


class Record(Struct):
    """A line of a run's metrics.jsonl; figures of a diverged training may be NaN or infinite."""

    step: Count
    epoch: Count = 0
    seconds: float = 0
    loss: float | None = None
    accuracy: float | None = None
    val_loss: float | None = None
    val_accuracy: float | None = None


class Comment(Struct):
    """What `save_weights` stores in a file of weights."""

    spec: dict[Line, Any]
    num_classes: Annotated[int, Meta(ge=0, le=MOST_CLASSES)] = 0
    image_size: Sides | Side | None = None
    preprocessing: Pixels = None
    labels: Lines | None = None


class State(Struct):
    """What a training checkpoint says of itself."""

    step: Count
    names: list[Line]
    seconds: Annotated[float, Meta(ge=0, le=1e12)] = 0


class Trial(Struct):
    """result.json of a finished trial."""

    settings: dict[Line, Any]
    result: dict[Line, Any]


class Quantization(Struct):
    """Scale and zero point of an integer tensor."""

    scale: Number
    zero_point: int


class Tensor(Struct):
    """A tensor in a bundle's model.json."""

    shape: Annotated[list[Length], Meta(min_length=1, max_length=8)]
    dtype: Line
    quantization: Quantization | None = None


class Input(Tensor, kw_only=True):
    """The input in a bundle's model.json."""

    shape: Annotated[list[Side], Meta(min_length=4, max_length=4)]
    height: Side
    width: Side
    crop: Number | None
    interpolation: Line
    mean: Number | Three
    scale: Number | Three
    channels: Literal["RGB", "grey"] = "RGB"


class Output(Tensor, kw_only=True):
    """The output in a bundle's model.json."""

    kind: Line
    classes: Count | None = None
    meaning: Line | None = None


class Bundle(Struct):
    """model.json of a bundle: what is needed to run it."""

    model: Line
    precision: Line
    sha256: Line
    input: Input
    output: Output


class Verdict(Struct):
    """The comparison with Keras in model.json, of a model whose labels are unknown."""

    images: Annotated[int, Meta(ge=1, le=1 << 53)]
    precision: Line = ""
    images_from: Line = ""
    comparisons: Count | None = None
    agreement: Number | None = None
    max_difference: Number | None = None
    scale: Number | None = None
    cosine: Number | None = None
    error: Number | None = None
    accuracy: Number | None = None
    keras_accuracy: Number | None = None
    largest_drop: Number | None = None
    max_drop: Number | None = None
    rewritten: bool = True
    note: Text = ""


class Proof(Verdict, kw_only=True):
    """The same with labels, on which the accuracy was counted."""

    precision: Line
    comparisons: Count | None
    agreement: Number | None
    max_difference: Number
    scale: Number
    cosine: Number | None
    error: Number
    accuracy: Number
    keras_accuracy: Number
    majority: Number
    lost: Count
    gained: Count
    informed: bool
    max_drop: Number
    rewritten: bool
    keras_classes: Count | None
    file_classes: Count | None
    weakest_class: Figures | None


class Undelegated(Struct):
    """An operator that XNNPACK leaves to LiteRT."""

    operator: Line
    reason: Line
    layer: Line


class Delegation(Struct):
    """Which operators XNNPACK takes."""

    nodes: Count
    delegated: Count
    partitions: Count
    undelegated: list[Undelegated]


class Finding(Struct):
    """A problem on GPU delegates."""

    operator: Line
    layers: Lines
    reason: Text
    effect: Literal["refused", "wrong", "imprecise", "slow"]
    delegates: list[Line]


class HalfPrecision(Struct):
    """The comparison in half precision."""

    problem: Text
    max_difference: Number = 0
    scale: Annotated[float, Meta(gt=0)] = 1
    accuracy: Number | None = None


class HalfSums(Struct):
    """A file in emulated half precision."""

    sums: Line
    problem: Text
    images: Count
    max_difference: Number | None = None


class GpuRun(Struct):
    """A file on a GPU."""

    device: Line
    problem: Text
    images: Count = 0
    scale: Annotated[float, Meta(gt=0)] = 1
    allowed: Number = 0
    max_difference: Number | None = None
    block: Line = ""
    half_precision: list[HalfSums] = []


class ClientVerdict(Struct):
    """What a client makes of a file."""

    client: Line
    images: Count = 0
    accuracy: Number | None = None
    own_accuracy: Number | None = None
    agreement: Number | None = None
    version: Line | None = None
    ran: Count = 0
    difference: Number | None = None


class Calibration(Struct):
    """The images that ranges were measured on."""

    images: Count
    sha256: Line


class Described(Bundle, kw_only=True):
    """model.json of a bundle: what cards and tables say of it."""

    bytes: Count
    parity: Verdict  # or `Proof`
    parameters: Count | None = None
    weights_sha256: Line | None = None
    runtime_floor: Line = ""
    delegation: Delegation | None = None
    gpu: list[Finding] | None = None
    gpu_run: GpuRun | None = None
    float_layers: Lines = []
    chosen_on: Line | None = None
    blocks: Figures | None = None
    calibration: Calibration | None = None
    half_precision: HalfPrecision | None = None
    client: ClientVerdict | None = None
    made_with: dict[Line, Line] = {}


class Array(Struct):
    """An array in golden.json."""

    dtype: Literal["uint8", "float32"]
    shape: Annotated[list[Length], Meta(min_length=1, max_length=4)]
    base64: str


class Tolerance(Struct):
    """How much a correct runner may differ."""

    tensor: Number
    scores: Number
    scores_half_precision: Number = 0


class Golden(Struct):
    """golden.json of a bundle."""

    image: Array
    tensor: Array
    scores: Array
    tolerance: Tolerance


class FloatLayers(Struct):
    """recipe.json that `auto` writes into a bundle."""

    base: Line
    model: Line
    chosen_on: Line | None
    float_layers: Lines
    sensitivity: Figures


class Latency(Struct):
    """A measured latency in table.json."""

    threads: Count
    median_ms: Number
    p90_ms: Number
    runs: Count


class Measurement(Struct):
    """What was measured of a file, in table.json."""

    bytes: Count
    compressed_bytes: Count
    load_s: Number
    before_bytes: Count | None
    peak_bytes: Count | None
    latency: list[Latency]


class Row(Struct):
    """A row of table.json."""

    precision: Line
    bytes: Count
    accuracy: Number | None
    agreement: Number | None
    max_difference: Number | None
    latency_ms: Number | None
    name: Line = ""
    sha256: Line = ""
    measured: Measurement | None = None


class ReportedClass(Struct):
    """The figures of a class in report.json."""

    label: Line
    precision: Number
    recall: Number
    f1: Number
    support: Count


class Report(Struct):
    """report.json of a run's report."""

    images: Count
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    classes: list[ReportedClass]


class Table(Struct):
    """table.json of a folder of bundles."""

    machine: Line
    images: Count
    rows: list[Row]


def check_model(content: dict[str, Any], place: str, fix: str = "") -> None:
    """Checks the "spec" of a run or of a comment in weights, of a ViT or of a ResNet.

    Raises:
        UsageError: a field is absent or has another type.
    """
    schema = ResNet if "layers" in content["spec"] else ViT
    _json.check(content["spec"], place, schema, fix, root="$.spec")


def check_parity(description: dict[str, Any], place: str) -> None:
    """Checks the "parity" of a model.json.

    Raises:
        UsageError: a field is absent or has another type.
    """
    schema = Verdict if description["parity"].get("lost") is None else Proof
    _json.check(description["parity"], place, schema, root="$.parity")
