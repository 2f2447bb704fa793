"""The plan of a run: its sizes and lengths, known before the first step.

Durations are texts: "60 epochs", "500 steps", "1e6 examples", "5%". "10 epochs, at least 100 steps"
is the longer of the two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from keras_vit._errors import UsageError
from keras_vit.recipe import Recipe

CHECKPOINT_EVERY = "5 minutes"  # unless a caller says otherwise
_OR_LONGER = ", at least "
_FEW = 10  # batches; without an incomplete one an epoch of few would lose many examples
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
# Steps between two evaluations, which also save the weights, and in a long run. An epoch may
# have only one or two.
_FEWEST_STEPS, _FEWEST_OF_MANY = 10, 20
_MOST_LINES = 50  # of such a run, one for each evaluation


@dataclasses.dataclass(frozen=True)
class Plan:
    """The sizes and lengths of a run.

    Attributes:
        model: name of the model.
        image_size: its input, (height, width) in pixels.
        parameters, trainable: number of all parameters of what is trained, with the decoder of a
            masked autoencoder, and of those that change.
        examples, held_out: number of images for training and for evaluation.
        batch_size: images of a step, over all devices.
        steps: number of steps, a multiple of `steps_per_execution`.
        warmup: number of those in which the learning rate rises.
        period: number of steps between two evaluations.
        devices: number of devices.
        first_step: the step after which a resumed training goes on.
        accumulate: number of parts in which a batch is computed.
        memory: bytes on each device, see `Costs`; 0 if unknown.
        free: bytes that are free on each device; None if unknown.
        seconds: how long the steps and evaluations take, from timed steps; None if unknown.
        keeps_features: whether the features of the images are computed once, before the first step,
            and the steps train the head on them.
        too_large: why it does not fit into the free memory, and what would; "" if it fits.
    """

    model: str
    image_size: tuple[int, int]
    parameters: int
    trainable: int
    examples: int
    held_out: int
    batch_size: int
    steps: int
    warmup: int
    period: int
    devices: int = 1
    first_step: int = 0
    accumulate: int = 1
    memory: int = 0
    free: int | None = None
    seconds: float | None = None
    keeps_features: bool = False
    too_large: str = ""


def plan_of(recipe: Recipe, model: Any, examples: int, held_out: int, devices: int = 1) -> Plan:
    """The plan for a recipe, a model and numbers of images.

    Raises:
        UsageError: a duration cannot be read, or is less than one step; or the warmup is not
            shorter than the run.
    """
    executed = recipe.steps_per_execution
    steps = steps_of(recipe, examples)
    warmup = warmup_steps(recipe, steps, examples)
    if warmup >= steps:
        raise UsageError(
            f"warmup must be shorter than training. Received: warmup={recipe.warmup!r} and "
            f"duration={recipe.duration!r}, which are {warmup:,} and {steps:,} steps with "
            f"{examples:,} training images and batch_size={recipe.batch_size}; use a smaller "
            "batch_size, a longer duration or a shorter warmup."
        )
    # As many images are trained on as are held out, or evaluation would take much of the time.
    fewest = max(
        _FEWEST_STEPS,
        min(_FEWEST_OF_MANY, steps // _MOST_LINES),
        math.ceil(held_out / recipe.batch_size),
    )
    epoch = to_steps("1 epoch", batch_size=recipe.batch_size, num_examples=examples)
    period = min(_rounded_up(max(epoch, fewest), executed), steps)
    return Plan(
        model=model.name,
        image_size=model.image_size,
        examples=examples,
        held_out=held_out,
        batch_size=recipe.batch_size,
        steps=steps,
        warmup=warmup,
        period=period,
        devices=devices,
        **parameter_counts(model),
    )


def parameter_counts(model: Any) -> dict[str, int]:
    """The fields of a `Plan` about the parameters of a built `keras.Model`."""
    trainable = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    return {"parameters": model.count_params(), "trainable": trainable}


def steps_of(recipe: Recipe, examples: int) -> int:
    """The number of steps of a run on `examples` images."""
    return _rounded_up(total_steps(recipe, examples), recipe.steps_per_execution)


def total_steps(recipe: Recipe, examples: int) -> int:
    """The length of a run on `examples` images in steps, at least one."""
    steps = to_steps(recipe.duration, batch_size=recipe.batch_size, num_examples=examples)
    if steps < 1:
        raise UsageError(f"duration={recipe.duration!r} is less than one step of training.")
    return steps


def warmup_steps(recipe: Recipe, steps: int, examples: int) -> int:
    """The length of the warmup of a run of `steps` steps on `examples` images."""
    counts = {"batch_size": recipe.batch_size, "num_examples": examples}
    return to_steps(recipe.warmup, total_steps=steps, field="warmup", **counts)


def to_steps(
    duration: str,
    *,
    batch_size: int,
    num_examples: int,
    total_steps: int | None = None,
    field: str = "duration",
) -> int:
    """The number of training steps in a duration, rounded to the nearest integer.

    Args:
        duration: a number and a unit: epochs, steps, examples, or % of `total_steps`; or two of
            them with ", at least " between them.
        batch_size: examples in a step.
        num_examples: examples in an epoch. From ten batches on, only full ones count.
        total_steps: 100%; None if percentages are not allowed.
        field: the name of the setting, for the error.

    Raises:
        UsageError: the duration cannot be parsed, or is negative.
    """
    if _OR_LONGER in duration:
        counts = {"batch_size": batch_size, "num_examples": num_examples}
        both = duration.split(_OR_LONGER, 1)
        return max(to_steps(e, **counts, total_steps=total_steps, field=field) for e in both)
    batches = num_examples / batch_size
    units = {
        "epoch": batches if batches < _FEW else num_examples // batch_size,
        "step": 1.0,
        "example": 1.0 / batch_size,
    }
    if total_steps is not None:
        units["%"] = total_steps / 100
    amount, unit = _read(duration, units)
    if unit and 0 <= amount < math.inf:
        is_epoch = unit == "epoch" and amount > 0
        return max(round(amount * units[unit]), int(is_epoch))
    raise UsageError(
        f"{field} must be a number and a unit, such as "
        + ", ".join(repr(f"5{'' if u == '%' else ' '}{u}{'' if u == '%' else 's'}") for u in units)
        + f". Received: {field}={duration!r}."
    )


@dataclasses.dataclass(frozen=True)
class Every:
    """How often checkpoints are written: after `seconds` or after `steps`; by default never."""

    seconds: float = math.inf
    steps: float = math.inf

    def is_due(self, seconds: float, steps: int) -> bool:
        """Whether a checkpoint is due, this long after the previous one."""
        return seconds >= self.seconds or steps >= self.steps


NEVER = Every()


def interval(
    text: str, *, batch_size: int, num_examples: int, total_steps: int | None = None
) -> Every:
    """Reads "5 minutes", "30 seconds", "2 hours", or a duration in steps, examples or epochs.

    Args:
        text: the interval.
        batch_size, num_examples, total_steps: see `to_steps`.

    Raises:
        UsageError: the interval cannot be read, or is not positive.
    """
    counted = ("epoch", "step", "example", *(() if total_steps is None else "%"))
    amount, unit = _read(text, (*_SECONDS, *counted))
    if 0 < amount < math.inf and unit in _SECONDS:
        return Every(seconds=amount * _SECONDS[unit])
    if 0 < amount < math.inf and unit:
        counts = {"batch_size": batch_size, "num_examples": num_examples}
        return Every(steps=max(to_steps(text, total_steps=total_steps, **counts), 1))
    raise UsageError(
        "checkpoint_every must be a number and a unit, such as '5 minutes', '1 epoch' or "
        f"'500 steps'. Received: checkpoint_every={text!r}."
    )


def _rounded_up(steps: int, multiple: int) -> int:
    return -(-steps // multiple) * multiple


def _read(text: str, units: Iterable[str]) -> tuple[float, str]:
    """The amount and the unit of a text such as "5 epochs"; without a known unit it is ""."""
    text = text.strip().removesuffix("s")
    unit = next((unit for unit in units if text.endswith(unit)), "")
    try:
        return float(text.removesuffix(unit)), unit
    except ValueError:
        return 0.0, ""
