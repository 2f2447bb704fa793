"""The progress of a run: lines that fit a terminal, few lines in a file."""

import types

import pytest

from keras_vit.cli import _progress
from keras_vit.cli._progress import ProgressPrinter, count, duration, planned, size

PLAN = types.SimpleNamespace(
    model="ViT-B_16", image_size=(224, 384), parameters=86_567_656, trainable=7_690,
    examples=2_000, held_out=500,
    batch_size=512, steps=12_000, first_step=0, devices=1, memory=3 * 2**29,
    accumulate=1, free=None, keeps_features=False,
)  # fmt: skip


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard output a terminal of so many columns."""

    def make(columns):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return make


def progress(step, metrics=None, evaluated=None):
    known = step > 1
    return types.SimpleNamespace(
        step=step, plan=PLAN, metrics=metrics, evaluated=evaluated, memory=3 * 2**30,
        images_per_second=1234.5 if known else None, seconds_left=5000.0 if known else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text_of", "number", "text"),
    [
        (duration, 0.4, "0 s"),
        (duration, 59.4, "59 s"),
        (duration, 200, "3 min 20 s"),
        (duration, 7500, "2 h 5 min"),
        (duration, 280_000, "3 d 5 h"),
        (count, 7690, "7,690"),
        (count, 86_567_656, "86.6 M"),
        (count, 17.6e9, "17.6 G"),
        (count, 5e12, "5.0 T"),
        (size, 2**20, "1.0 MiB"),
        (size, 3 * 2**30, "3.0 GiB"),
    ],
)
def test_durations_and_numbers_are_short(text_of, number, text):
    assert text_of(number) == text


def test_the_plan_says_model_parameters_and_steps(tmp_path):
    first, second, third = planned(PLAN, tmp_path).splitlines()
    size = "224 x 384 pixels"
    assert first.startswith(f"training ViT-B_16 at {size}, 86.6 M parameters (7,690 trained), to ")
    passes = "3,072 passes over the 2,000 training images; 500 are held out"
    assert second == f"12,000 steps of 512 images: {passes}"
    more = "what TensorFlow or JAX itself needs"
    assert third == f"memory: about 1.5 GiB, and {more}"
    parts = types.SimpleNamespace(**{**vars(PLAN), "accumulate": 64, "free": 2**32})
    *_, third = planned(parts, tmp_path).splitlines()
    expected = f"memory: about 1.5 GiB, 8 images at a time, and {more}; 4.0 GiB are free"
    assert third == expected
    once = planned(types.SimpleNamespace(**{**vars(PLAN), "keeps_features": True}), tmp_path)
    assert once.splitlines()[3:] == [
        "the features of the images are computed once; the steps train the head on them"
    ]


def test_a_clock_runs_while_the_first_step_is_compiled(clock, terminal, monkeypatch, capsys):
    terminal(80)
    printer = ProgressPrinter()
    ends, seconds = printer._compiled.wait, iter([1])  # one second passes, then it is compiled
    monkeypatch.setattr(printer._compiled, "wait", lambda _: not next(seconds, 0) and ends())
    printer.start_clock()
    printer(progress(1))
    assert printer._clock is None
    assert capsys.readouterr().out == "compiling the first step, 0 s\r\n"


@pytest.fixture
def shown(clock, capsys):
    """What a printer shows of states of training, some seconds after one another."""

    def show(printer, *states, seconds=1.0):
        for state in states:
            clock.now += seconds
            printer(state)
        return capsys.readouterr().out

    return show


def test_in_a_file_there_is_an_estimate_then_a_line_each_minute(shown):
    printer = ProgressPrinter()
    first, second, *others = shown(printer, *map(progress, range(1, 200))).splitlines()
    assert first == "about 1 h 23 min to go at 1,234 images/s; 3.0 GiB of memory"
    assert second == "step     65/12,000  1 h 23 min left  1,234 images/s  3.0 GiB"
    assert len(others) == 2
    line = shown(printer, progress(200, {"loss": 0.5, "accuracy": 0.25, "val_accuracy": 0.125}))
    assert line.startswith("step    200/12,000  loss 0.5000  accuracy 25.00%  held-out 12.50%  1 h")
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("speed", "text"), [(0.234, "0.23"), (2.34, "2.3"), (23.4, "23"), (2340.0, "2,340")]
)
def test_the_speed_of_a_slow_training_is_not_rounded_to_zero(shown, speed, text):
    state = types.SimpleNamespace(**{**vars(progress(3)), "images_per_second": speed})
    assert f" {text} images/s" in shown(ProgressPrinter(), state, seconds=61)


def test_a_long_evaluation_says_how_far_it_is(shown):
    printer = ProgressPrinter()
    printer._told = True
    states = [progress(390, evaluated=batch / 200) for batch in range(1, 131)]
    first, _ = shown(printer, *states).splitlines()
    assert first.startswith("step    390/12,000  30% of the evaluation  1 h 23 min left")


@pytest.mark.parametrize("columns", [200, 40, 20, 9])
def test_the_line_that_changes_fits_the_terminal(shown, terminal, columns):
    terminal(columns)
    printer = ProgressPrinter()
    out = shown(printer, *map(progress, range(1, 30)), seconds=0.5)
    changing = [line for line in out.split("\r") if line and "\n" not in line]
    assert len(changing) > 20
    assert max(map(len, changing)) < columns
    assert changing[-1].startswith("step     29/12,000"[: columns - 1])
    assert ("images/s" in changing[-1]) == (columns >= 200)
    assert ("left" in changing[-1]) == (columns >= 40)
    # An evaluation is shown as a whole, whatever the width.
    line = shown(printer, progress(30, {"loss": 0.5, "accuracy": 0.25}), seconds=0).rstrip()
    assert line.startswith("step     30/12,000  loss 0.5000  accuracy 25.00%")
    assert ("images/s" in line) == (columns >= 200)


def test_a_shorter_line_covers_a_longer_one(shown, terminal):
    terminal(200)
    printer = ProgressPrinter()
    printer._told = True
    # Nothing is known of the time at first.
    long, short, *_ = shown(printer, progress(5), progress(1)).split("\r")
    assert len(short) == len(long)
