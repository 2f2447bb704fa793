"""The table of precisions, with everything about each of them.

It imports nothing heavy, so that commands can use it for their help texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import Literal, get_args

from keras_vit._errors import UsageError, did_you_mean

# How an operator is quantised: not at all; float16 weights; 8- or 4-bit weights and activation
# ranges that are measured while the file runs ("dynamic"); or integers with activation ranges that
# were measured before ("static").
Kind = Literal[
    "float", "float16", "dynamic8", "dynamic8_per_tensor", "dynamic4", "static8", "static16"
]
Rules = tuple[tuple[str, Kind], ...]
# The operators that have kernels: Dense layers and convolutions.
PRODUCTS = ("FULLY_CONNECTED", "CONV_2D")
# The operators of norms from the squares to RSQRT. The squares of tokens differ by more than int16
# holds: those of some would be zero. And LiteRT's RSQRT on int16 is a coarse table.
NORM_STATISTICS = "norm statistics"
# Number of kernel inputs that share a scale in int4.
BLOCK = 32
# Points of accuracy that a file may lose if its precision does not set another limit.
DEFAULT_DROP = 0.5


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much a file may differ from its Keras model.

    Attributes:
        agreement: the smallest fraction of images on which both predict the same class.
        difference: the largest difference of any score, as a fraction of the scores' scale; it
            limits the error on a single image.
        error: the root mean square difference of the scores, as a fraction of the variation of
            Keras' scores over the images. A file with the same scores for all n images has at
            least sqrt((n - 1) / n), 0.71 for two images; one that shuffles images has about 1.4.
        drop: points of accuracy that the file may lose by default; None if only scores are judged.
    """

    agreement: float
    difference: float
    error: float
    drop: float | None = DEFAULT_DROP


@dataclasses.dataclass(frozen=True)
class Precision:
    """A way to quantise a model.

    Attributes:
        quantize: the value of the argument `quantize`: "none", "int8".
        rules: operators ("*" for all, or `NORM_STATISTICS`) and how they are quantised; later rules
            override earlier.
        budget: how much a file may differ from Keras.
        help: a short description for lists of choices.
        summary: a longer description for the model card.
        name: name of the bundle's folder; "" for the same as `quantize`.
        runtime: the oldest runtime for such files; None if it depends on the operators.
        older: the first runtime that runs such a file, and the rules for those before it; None if
            they have no other rules.
        base: the precision that this one starts from, and then keeps layers in float that lose too
            much accuracy; None if no layers are chosen.
        trainable: whether quantisation-aware training supports it.

    Raises:
        UsageError: a rule has a kind that is none of `Kind`.
    """

    quantize: str
    rules: Rules
    budget: Budget
    help: str
    summary: str
    name: str = ""
    runtime: str | None = None
    older: tuple[str, Rules] | None = None
    base: str | None = None
    trainable: bool = False

    def __post_init__(self):
        object.__setattr__(self, "name", self.name or self.quantize)
        for operator, kind in self.rules:
            if kind not in get_args(Kind):
                raise UsageError(
                    f"{self.quantize}: unknown kind {kind!r} for {operator}; "
                    f"{did_you_mean(kind, get_args(Kind))}"
                )

    @property
    def is_float(self) -> bool:
        """Whether all computation is in floating point."""
        return all(kind in ("float", "float16") for _, kind in self.rules)

    @property
    def is_for_npus(self) -> bool:
        """Whether all operators compute in integers, but for named exceptions."""
        return self.kind("*").startswith("static")

    @property
    def calibrated(self) -> bool:
        """Whether ranges of activations must be measured on images."""
        return any(kind.startswith("static") for _, kind in self.rules)

    def kind(self, operator: str) -> Kind:
        """How an operator is quantised: the last rule that applies to it."""
        kinds = [kind for name, kind in self.rules if name in ("*", operator)]
        return kinds[-1] if kinds else "float"

    def choosing_float_layers(self, quantize: str, help: str, summary: str) -> Precision:
        """The same precision, but layers stay in float that lose too much accuracy."""
        words = {"quantize": quantize, "name": quantize, "help": help, "summary": summary}
        return dataclasses.replace(self, base=self.quantize, trainable=False, **words)


def _products(kind: Kind) -> Rules:
    return tuple((operator, kind) for operator in PRODUCTS)


# The budgets were measured on two trained ViT-Pico/4: "D" on 359 held-out digits, which it knows
# well (99.4% right), and "C" on 2,499 held-out pictures of CIFAR-10, most of which are near ties to
# it (48.4% right after ten epochs on 10,000). Good files of both must pass; about twice C's
# disagreement is allowed. "R" is a B/16 with random weights, whose scores vary little from image to
# image (24 coarse images). The allowed errors let R pass in int8 and are below those of files that
# always give the same scores.
_INT8 = Precision(
    "int8",
    _products("static8"),
    # C: 97.2% to 98.2% with two sets of calibration images, 0.10, 0.022. D: 99.4%, 0.08, 0.017.
    # R: 91.7%, 0.05, 0.17; with outlier channels 87.5%, 0.05, 0.31.
    Budget(0.95, 0.5, 0.4),
    "Dense layers and convolutions in int8 with measured ranges",
    "Dense layers and convolutions in int8 with measured ranges; attention's products, "
    "softmax, GELU, norms and the residual stream stay float",
    trainable=True,
)
_ROWS = (
    Precision(
        "none",
        (),
        # C: 100%, 2e-6, 5e-7. The same arithmetic: only the order of summation may differ.
        Budget(1.0, 1e-4, 1e-3, None),
        "float32",
        "weights and arithmetic in float32",
        name="float32",
    ),
    Precision(
        "float16",
        (("*", "float16"),),
        # C: 99.9%, 0.0011, 0.0004. D: 100%, 0.0009, 0.0003.
        Budget(0.99, 2e-2, 1e-2, None),
        "weights in half precision",
        "weights in half precision, arithmetic as the processor supports it",
    ),
    Precision(
        "dynamic",
        _products("dynamic8"),
        # C: 98.8%, 0.028, 0.012. D: 100%, 0.024, 0.009. R: 91.7%, 0.039, 0.14.
        Budget(0.97, 0.2, 0.4),
        "int8 weights, activations quantised while it runs (runtime 2.17)",
        "weights in int8, activations quantised per token while it runs; a scale for each channel "
        "needs runtime 2.17, for older ones each kernel gets one scale",
        older=("2.17.0", _products("dynamic8_per_tensor")),
        trainable=True,
    ),
    _INT8,
    Precision(
        "int8-full",
        (("*", "static8"),),
        # C: 95.1%, 0.16, 0.051. D: 99.7%, 0.15, 0.041.
        Budget(0.90, 0.5, 0.5),
        "int8 throughout, for microcontrollers and NPUs",
        "everything in int8, including input and output: for microcontrollers and NPUs without "
        "other types; a ViT loses most of its accuracy unless it was trained for it",
    ),
    Precision(
        "int16x8",
        (("*", "static16"), *((name, "float") for name in ("INPUT", "OUTPUT", NORM_STATISTICS))),
        # D: 100%, 0.032, 0.010. "F", a ViT-Ti/16 trained on photographs: 100%, 0.003, 0.004. The
        # same weights as in dynamic, and finer activations.
        Budget(0.97, 0.2, 0.4),
        "int16 activations, int8 weights, float input and output: for NPUs",
        "weights in int8, activations in int16, input and output in float: for NPUs; slow on CPUs",
        runtime="LiteRT 1.3.0",
    ),
    Precision(
        "int4",
        (*_products("dynamic8"), ("FULLY_CONNECTED", "dynamic4")),
        # C: 89.8%, 0.23, 0.105, 0.96 points lost. D: 98.3%, 0.28, 0.095, 0.56 points lost.
        Budget(0.80, 0.8, 0.6, 1.5),
        f"Dense kernels in int4, in blocks of {BLOCK}",
        f"Dense kernels in int4, with one scale for {BLOCK} inputs (in int8 if {BLOCK} does not "
        "divide the number of inputs), activations as in dynamic",
        runtime="LiteRT 2.1.0",
        trainable=True,
    ),
    _INT8.choosing_float_layers(
        "auto",
        "int8 with as few float layers as max_drop needs",
        "int8, with as few layers in float as its budget needs",
    ),
)
# By the value of `quantize`.
PRECISIONS: dict[str, Precision] = {row.quantize: row for row in _ROWS}


def precision_of(quantize: str | None) -> Precision:
    """The precision with that value of `quantize`; None means "none".

    Raises:
        UsageError: there is none.
    """
    if (quantize or "none") not in PRECISIONS:
        raise UsageError(
            f"unknown quantize={quantize!r}; {did_you_mean(str(quantize), PRECISIONS)}"
        )
    return PRECISIONS[quantize or "none"]


def check_calibration(precision: Precision, calibration: Sized | None) -> None:
    """Raises a `UsageError` if ranges must be measured and there are no images."""
    if precision.calibrated and not (calibration is not None and len(calibration)):
        others = [n for n, row in PRECISIONS.items() if not (row.is_float or row.calibrated)]
        raise UsageError(
            f"{precision.name} needs images to measure ranges on: pass representative_data, or "
            f"choose {' or '.join(others)}, which need none."
        )


def precision_named(name: str) -> Precision:
    """The precision with that `name`.

    Raises:
        UsageError: there is none.
    """
    by_name = {row.name: row for row in PRECISIONS.values()}
    if name not in by_name:
        raise UsageError(f"precision must be one of {', '.join(by_name)}. Received: {name!r}.")
    return by_name[name]
