"""Converts durations in any unit to steps: "60 epochs", "500 steps", "1e6 examples", "5%"."""

from __future__ import annotations

from keras_vit._errors import UsageError


def to_steps(
    duration: str, *, batch_size: int, num_examples: int, total_steps: int | None = None
) -> int:
    """The number of training steps in a duration, rounded to the nearest integer.

    Args:
        duration: a number and a unit: epochs, steps, examples, or % of `total_steps`.
        batch_size: examples in a step.
        num_examples: examples in an epoch; only full batches of them count.
        total_steps: 100%; None if percentages are not allowed.

    Raises:
        UsageError: the duration cannot be parsed, or is negative.
    """
    units = {
        "epoch": max(num_examples // batch_size, 1),
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
                    return round(amount * steps)
    raise UsageError(
        "a duration is a number and a unit, such as "
        + ", ".join(repr(f"5{'' if u == '%' else ' '}{u}{'' if u == '%' else 's'}") for u in units)
        + f". Received: {duration!r}."
    )
