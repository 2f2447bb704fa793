"""Dataclasses as command lines: types, choices, groups, help, and errors in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.cli._arguments import option, read


@dataclasses.dataclass(frozen=True)
class Settings:
    """A group of options."""

    rate: float = 0.1
    """How fast; 5% is slow."""
    jit: bool = True
    """the compiler."""
    kind: Literal["one", "two"] = "one"
    """Which kind."""


@dataclasses.dataclass(frozen=True)
class Base:
    """Options of several commands."""

    out: Path | None = None
    """The folder; default: here."""


@dataclasses.dataclass(frozen=True)
class Arguments(Base):
    """Options of a command."""

    files: tuple[Path, ...] = option((), positional="FILE")
    """What is read."""
    size: int | tuple[int, int] | None = option(None, check=_checks.positive_integer)
    """One number or two."""
    grid: tuple[int, int] | None = None
    """Two numbers."""
    names: tuple[str, ...] = option(("a",), choices=("a", "beta", "gamma"))
    """Some names."""
    overwrite: bool = False
    """Replace."""
    settings: Settings = Settings()


def arguments(*words, defaults=None):
    return read(Arguments, words, defaults, "keras-vit do", "Does it.")


def test_a_line_becomes_the_dataclass():
    line = "a.png --size 8 --names beta a --grid 2 3 --rate 1e-3 --no-jit b.png --out x --overwrite"
    settings = Settings(rate=1e-3, jit=False)
    expected = Arguments(
        Path("x"), (Path("a.png"), Path("b.png")), 8, (2, 3), ("beta", "a"), True, settings
    )
    assert arguments(*line.split()) == expected
    assert arguments() == Arguments()
    assert arguments("--size", "8", "16").size == (8, 16)
    assert arguments("--rate=-1").settings.rate == -1


def test_several_values_may_have_commas():
    for words in (["beta,a"], ["beta,", "a"], ["beta", "a,"], ["beta", ",a"]):
        assert arguments("--names", *words).names == ("beta", "a")
    assert arguments("a,b.png").files == (Path("a,b.png"),)


def test_defaults_may_depend_on_what_is_given():
    def defaults(given):
        kind = "two" if given.get("overwrite") else "one"
        return {"grid": (1, 1), "settings": Settings(rate=9, kind=kind)}

    assert arguments("--jit" if False else "--no-jit", defaults=defaults).settings == Settings(
        9, False, "one"
    )
    found = arguments("--overwrite", "--grid", "4", "5", defaults=defaults)
    assert (found.grid, found.settings.kind) == ((4, 5), "two")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--siez 8", "unknown option --siez; did you mean --size?"),
        ("--nothing 8", "unknown option --nothing."),
        ("--quantize int8", "unknown option --quantize; it is an option of export, compress."),
        ("--jit", "unknown option --jit; did you mean --no-jit?"),
        ("--size", "--size: expected at least one argument."),
        ("--size 1 2 3", "--size takes 1 value or 2. Received: 1 2 3."),
        ("--size big", "--size: expected an integer. Received: 'big'."),
        ("--rate fast", "--rate: expected a number. Received: 'fast'."),
        ("--grid 1", "--grid: expected 2 arguments."),
        ("--names bet", "--names: unknown value 'bet'; did you mean beta?"),
        ("--names a,bet", "--names: unknown value 'bet'; did you mean beta?"),
        ("--names ,", "--names: unknown value ','; choose one of a, beta, gamma."),
        ("--names x", "--names: unknown value 'x'; choose one of a, beta, gamma."),
        ("--kind three", "--kind: unknown value 'three'; choose one of one, two."),
        ("--overwrite=yes", "--overwrite: ignored explicit argument 'yes'."),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(line, message):
    with pytest.raises(UsageError) as raised:
        arguments(*line.split())
    assert str(raised.value) == f"{message} --help lists the options."


def test_a_value_out_of_range_names_the_option():
    with pytest.raises(UsageError, match="--size must be a positive integer. Received: --size=0"):
        arguments("--size", "8", "0")


@pytest.mark.parametrize("columns", [60, 120])
def test_help_shows_choices_and_defaults_within_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as stop:
        arguments("--overwrite", "--help", "--bogus")  # a mistake is no reason to hide help
    assert stop.value.code == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert max(map(len, out.splitlines())) <= columns
    text = " ".join(out.split())
    for shown in (
        "usage: keras-vit do FILE ... [options]",
        "Does it.",
        "--size N [N] One number or two. (default: none)",
        "--grid N N",
        "One of: a, beta, gamma. (default: a)",
        "The folder; default: here. ",
        "--no-jit Turns off the compiler.",
        "How fast; 5% is slow. (default: 0.1)",
        "settings: ",
    ):
        assert shown in text
