"""The plan of a training: its sizes and lengths, known before the first step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from keras_vit._errors import UsageError
from keras_vit.recipe import Recipe
from keras_vit.training.durations import to_steps
from keras_vit.training.settings import total_steps, warmup_steps

# Steps between two evaluations, which also save the weights, and in a long training. An epoch may
# have only one or two.
_FEWEST_STEPS, _FEWEST_OF_MANY = 10, 20
_MOST_LINES = 50  # of such a training, one for each evaluation


@dataclasses.dataclass(frozen=True)
class Plan:
    """The sizes and lengths of a training.

    Attributes:
        model: name of the model.
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
        too_large: why it does not fit into the free memory, and what would; "" if it fits.
    """

    model: str
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
    too_large: str = ""


def plan_of(recipe: Recipe, model: Any, examples: int, held_out: int, devices: int = 1) -> Plan:
    """The plan for a recipe, a model and numbers of images.

    Raises:
        UsageError: a duration cannot be read, or is less than one step; or the warmup of so many
            images is not shorter than their training.
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
    """The number of steps of a training on so many images."""
    return _rounded_up(total_steps(recipe, examples), recipe.steps_per_execution)


def _rounded_up(steps: int, multiple: int) -> int:
    return -(-steps // multiple) * multiple
