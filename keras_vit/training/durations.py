"""Converts durations in any unit to steps: "60 epochs", "500 steps", "1e6 examples", "5%".

"10 epochs, at least 100 steps" is the longer of the two.
"""

from __future__ import annotations

import dataclasses
import string

from keras_vit._errors import UsageError

CHECKPOINT_EVERY = "5 minutes"  # unless a caller says otherwise
_OR_LONGER = ", at least "
_FEW = 10  # batches; without an incomplete one an epoch of few would lose many examples
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}


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
    text = duration.strip()
    for unit, steps in units.items():
        for ending in (unit, f"{unit}s"):
            if text.endswith(ending):
                try:
                    amount = float(text.removesuffix(ending))
                except ValueError:
                    continue
                if 0 <= amount < float("inf"):
                    is_epoch = unit == "epoch" and amount > 0
                    return max(round(amount * steps), int(is_epoch))
    raise UsageError(
        f"{field} must be a number and a unit, such as "
        + ", ".join(repr(f"5{'' if u == '%' else ' '}{u}{'' if u == '%' else 's'}") for u in units)
        + f". Received: {field}={duration!r}."
    )


@dataclasses.dataclass(frozen=True)
class Every:
    """How often checkpoints are written: after so many seconds or steps; neither for never."""

    seconds: float | None = None
    steps: int | None = None

    def is_due(self, seconds: float, steps: int) -> bool:
        """Whether a checkpoint is due, this long after the previous one."""
        return (self.seconds is not None and seconds >= self.seconds) or (
            self.steps is not None and steps >= self.steps
        )


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
    words = text.strip().removesuffix("s")
    unit = next((unit for unit in _SECONDS if words.endswith(unit)), None)
    try:
        amount = float(text.strip().rstrip(f"{string.ascii_letters}% "))
        if 0 < amount < float("inf") and unit is not None:
            return Every(seconds=amount * _SECONDS[unit])
        if amount > 0:
            counts = {"batch_size": batch_size, "num_examples": num_examples}
            return Every(steps=max(to_steps(text, total_steps=total_steps, **counts), 1))
    except ValueError:  # a UsageError is one
        pass
    raise UsageError(
        "checkpoint_every must be a number and a unit, such as '5 minutes', '1 epoch' or "
        f"'500 steps'. Received: checkpoint_every={text!r}."
    )
