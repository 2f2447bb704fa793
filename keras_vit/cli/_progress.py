"""The plan and the progress of training on the terminal, or in a file.

They are printed without rich: importing `rich.progress` here would add about a quarter to the time
of `fit --help`, and lines in a log file must be plain.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_vit.cli._printing import table

_SECONDS = 0.2  # between two updates of the line on a terminal
_LOGGED = 60.0  # between two lines in a file, if no evaluation comes first
_COSTS = ("parameters", "flops", "held")  # of a layer


def planned(plan: Any, out: Path) -> str:
    """What will be trained, in three lines, from a `training.Plan`."""
    of = "" if plan.trainable == plan.parameters else f" ({count(plan.trainable)} trained)"
    epochs = plan.steps * plan.batch_size / plan.examples
    start = f", from step {plan.first_step:,}" if plan.first_step else ""
    devices = f" on {plan.devices} devices" if plan.devices > 1 else ""
    each = " on each device" if plan.devices > 1 else ""
    free = "" if plan.free is None else f"; {size(plan.free)} are free"
    at_once = plan.batch_size // plan.devices // plan.accumulate
    parts = (
        f", {at_once} image{'' if at_once == 1 else 's'} at a time" if plan.accumulate > 1 else ""
    )
    height, width = plan.image_size
    once = (
        "\nthe features of the images are computed once; the steps train the head on them"
        if plan.keeps_features
        else ""
    )
    return (
        f"training {plan.model} at {height} x {width} pixels, {count(plan.parameters)} parameters"
        f"{of}{devices}, to {out}\n"
        f"{plan.steps:,} steps of {plan.batch_size} images{start}: {_times(epochs)} passes over "
        f"the {plan.examples:,} training images; {plan.held_out:,} are held out\n"
        f"memory{each}: about {size(plan.memory)}{parts}, and what TensorFlow or JAX itself needs"
        f"{free}{once}"
    )


def previewed(plan: Any, costs: Any, recipe: Any, out: Path) -> str:
    """What training will do and cost, from a `training.Plan`, its `Costs` and `Recipe`."""
    rate, end = recipe.learning_rate, recipe.end_learning_rate
    falls = {
        "cosine": f"falls to {end:g} as a cosine",
        "linear": f"falls to {end:g} as a line",
        "constant": "stays",
    }[recipe.schedule]
    parts = {
        "parameters": costs.parameters,
        "gradients": costs.gradients,
        recipe.optimizer: costs.optimizer,
        "activations (estimated)": costs.activations,
    }
    devices = "" if plan.devices == 1 else f" of each of {plan.devices} devices"
    of = ", ".join(f"{name} {size(value)}" for name, value in parts.items())
    total = costs.step_flops * plan.steps
    if plan.keeps_features:
        total += costs.forward_flops * (plan.examples + plan.held_out)
    warmup = f"{plan.warmup:,} step{'' if plan.warmup == 1 else 's'}"
    return (
        f"{planned(plan, out)}\n\n{profile_table(costs.layers)}\n\n"
        f"learning rate: rises to {rate:g} in {warmup}, then {falls}\n"
        f"operations: {_flop(costs.forward_flops)} forward for an image, "
        f"{_flop(costs.step_flops)} in a step, {_flop(total)} in all\n"
        f"of the memory{devices}: {of}"
    )


def _flop(number: int) -> str:
    """ "17.6 GFLOP", "7,690 FLOP"."""
    text = count(number)
    return f"{text}FLOP" if text[-1].isalpha() else f"{text} FLOP"


def profile_table(layers: Sequence[Any]) -> str:
    """The parameters, operations and activations of layers, `models.profile.LayerCost`."""

    def row(name: str, of: Sequence[Any]) -> list[str]:
        parameters, flops, held = (sum(getattr(layer, cost) for layer in of) for cost in _COSTS)
        return [name, f"{parameters:,}", f"{flops / 1e6:,.1f}", f"{4 * held / 2**20:,.2f}"]

    header = ["layer, for one image", "parameters", "MFLOP forward", "MiB of activations"]
    return table(header, [*(row(layer.name, [layer]) for layer in layers), row("all", layers)])


class ChangingLine:
    """What is shown while something lasts: on a terminal a line that changes, never longer than it.

    Elsewhere it is a new line each minute.
    """

    def __init__(self):
        self.is_live = sys.stdout.isatty()
        self._width = 0
        self._printed = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last line was printed long ago."""
        return time.monotonic() - self._printed > (_SECONDS if self.is_live else _LOGGED)

    def fitting(self, parts: Sequence[str]) -> str:
        """The first part, and those after it that fit on the same line of a terminal."""
        line = parts[0]
        for part in parts[1:]:
            if self.is_live and len(line) + 2 + len(part) > _columns():
                break
            line += f"  {part}"
        return line

    def show(self, text: str) -> None:
        """Prints a text that the next one replaces."""
        text = text[: _columns()] if self.is_live else text
        self._print(text, "\r" if self.is_live else "\n", len(text) if self.is_live else 0)

    def keep(self, text: str) -> None:
        """Prints a text that stays."""
        self._print(text, "\n", 0)

    def clear(self) -> None:
        """Removes the text that was shown last."""
        if self._width:
            self._print("", "\r", 0)

    def _print(self, text: str, end: str, width: int) -> None:
        print(text.ljust(self._width), end=end)
        self._width, self._printed = width, time.monotonic()


class ProgressPrinter:
    """Prints a line for each evaluation, and between them where training is.

    After the first steps a line says how long it will take. It is a context that ends its clock.
    """

    def __init__(self, judged_on: str = "held-out"):
        self._judged_on = judged_on  # images
        self._clock: threading.Thread | None = None
        self._compiled = threading.Event()
        self._line = ChangingLine()
        self._first: tuple[int, float] | None = None  # the first step, and when it ended
        self._told = False

    def __enter__(self) -> ProgressPrinter:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_clock()

    def __call__(self, progress: Any) -> None:
        """Prints a `training.Progress`."""
        self._end_clock()
        now = time.monotonic()
        self._first = self._first or (progress.step, now)
        if progress.metrics is not None:
            first = f"{_place(progress)}  {_metrics(progress.metrics, self._judged_on)}"
            self._line.keep(self._line.fitting([first, *_state(progress)]))
        elif not self._told and self._is_settled(progress, now):
            self._line.keep(_estimate(progress))
            self._told = True
        elif self._line.is_due():
            self._line.show(self._line.fitting([_now(progress), *_state(progress)]))

    def start_clock(self, doing: str = "compiling the first step") -> None:
        """Says what is done before the first step, and on a terminal how long already."""
        if not self._line.is_live:
            print(doing)
            return
        start = time.monotonic()

        def run() -> None:
            while not self._compiled.wait(1.0):
                text = f"{doing}, {duration(time.monotonic() - start)}"
                print(text[: _columns()], end="\r")

        self._clock = threading.Thread(target=run, daemon=True)
        self._clock.start()

    def _end_clock(self) -> None:
        """Ends the clock, when the first step is made or the run has ended before."""
        self._compiled.set()
        if self._clock is not None:
            self._clock.join()
            self._clock = None
            print()

    def _is_settled(self, progress: Any, now: float) -> bool:
        from keras_vit.training.run import is_enough

        step, since = self._first
        return is_enough(progress.step - step, now - since) and progress.seconds_left is not None


class CountPrinter:
    """Prints how many images, or texts, are done and, of an evaluation, the accuracy so far."""

    def __init__(self, counted: str = "images"):
        self._counted = counted
        self._line = ChangingLine()
        self._start = time.monotonic()
        self._first = 0  # images in the first batch, whose time is mostly compilation

    def __call__(self, done: int, count: int, right: int | None = None) -> None:
        """Prints the number of images so far, of all, and of those that were recognised."""
        now = time.monotonic()
        if not self._first:
            self._first, self._start = done, now
        if done == count:
            self._line.clear()
        elif self._line.is_due():
            text = f"{done:,} of {count:,} {self._counted}"
            text += "" if right is None else f", {right / done:.2%} so far"
            if done > self._first:
                left = (now - self._start) / (done - self._first) * (count - done)
                text += f", {duration(left)} left"
            self._line.show(text)


def print_saving(step: int) -> None:
    """Prints that the state is being saved, which takes seconds for a large model."""
    print(f"\nsaving the state after step {step}; Ctrl-C ends without it")


def duration(seconds: float) -> str:
    """Seconds as "45 s", "3 min 20 s", "2 h 5 min" or "3 d 4 h"."""
    minutes, seconds = divmod(round(seconds), 60)
    if not minutes:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def size(number: float) -> str:
    """Bytes as "3.2 MiB" or "1.5 GiB"."""
    return f"{number / 2**30:.1f} GiB" if number >= 2**29 else f"{number / 2**20:.1f} MiB"


def count(number: float) -> str:
    """A large number as "86.6 M" or "1.3 G"."""
    for power, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= power:
            return f"{number / power:.1f} {unit}"
    return f"{number:,.0f}"


def _estimate(progress: Any) -> str:
    return (
        f"about {duration(progress.seconds_left)} to go at "
        f"{_speed(progress)}; {size(progress.memory)} of memory"
    )


def _place(progress: Any) -> str:
    steps = f"{progress.plan.steps:,}"
    return f"step {progress.step:>{len(steps)},}/{steps}"


def _now(progress: Any) -> str:
    """Where training is between two evaluations, or in one."""
    done = progress.evaluated
    return _place(progress) + ("" if done is None else f"  {done:.0%} of the evaluation")


def _metrics(metrics: dict[str, float], judged_on: str) -> str:
    name, text = ("mean_iou", "mean IoU") if "mean_iou" in metrics else ("accuracy", "accuracy")
    labels = {name: text, f"val_{name}": judged_on, f"ema_val_{name}": "average"}
    shown = [f"{label} {metrics[name]:.2%}" for name, label in labels.items() if name in metrics]
    shown += [
        f"{name.removeprefix('fewshot_')}-shot {value:.2%}"
        for name, value in metrics.items()
        if name.startswith("fewshot_")
    ]
    if "val_accuracy" not in metrics and "val_loss" in metrics:
        shown.insert(0, f"{judged_on} {metrics['val_loss']:.4f}")
    return "  ".join([f"loss {metrics['loss']:.4f}", *shown])


def _state(progress: Any) -> list[str]:
    """Time left, speed and memory, the most important first."""
    if progress.images_per_second is None:
        return []
    left = [f"{duration(progress.seconds_left)} left"] if progress.seconds_left else []
    return [*left, _speed(progress), size(progress.memory)]


def _speed(progress: Any) -> str:
    number = progress.images_per_second
    return f"{number:,.{2 if number < 1 else 1 if number < 10 else 0}f} images/s"


def _columns() -> int:
    """The width of the terminal without its last column, after which some begin a new line."""
    return shutil.get_terminal_size().columns - 1


def _times(number: float) -> str:
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"
