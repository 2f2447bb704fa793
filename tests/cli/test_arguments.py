"""Dataclasses as command lines: types, choices, groups, help, and errors that name flags."""

import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.cli import compare, export, fit
from keras_vit.cli._arguments import option, options_of, read, with_flags


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
    device: str | None = option(None, bare="any")
    """Where."""


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
    devices = [arguments("--device", *words).device for words in ([], ["--overwrite"], ["x"])]
    assert devices == ["any", "any", "x"]


def test_several_values_may_have_commas():
    for words in (["beta,a"], ["beta,", "a"], ["beta", "a,"], ["beta", ",a"]):
        assert arguments("--names", *words).names == ("beta", "a")
    assert arguments("a,b.png").files == (Path("a,b.png"),)


def test_defaults_may_depend_on_what_is_given():
    def defaults(given):
        kind = "two" if given.get("overwrite") else "one"
        return {"grid": (1, 1), "settings": Settings(rate=9, kind=kind)}

    assert arguments("--no-jit", defaults=defaults).settings == Settings(9, False, "one")
    found = arguments("--overwrite", "--grid", "4", "5", defaults=defaults)
    assert (found.grid, found.settings.kind) == ((4, 5), "two")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--siez 8", "unknown option --siez; did you mean --size?"),
        ("--nothing 8", "unknown option --nothing."),
        (
            "--quantize int8",
            "unknown option --quantize; it is an option of export, zero-shot, compress.",
        ),
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
        "--device [TEXT] Where.",
        "One of: a, beta, gamma. (default: a)",
        "The folder; default: here. ",
        "--no-jit Turns off the compiler.",
        "How fast; 5% is slow. (default: 0.1)",
        "settings: ",
    ):
        assert shown in text


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        (fit, "batch_size=0.", "--batch-size=0."),
        (fit, "seed must be small.", "--seed must be small."),
        (fit, "Received: jit=False and precision='x'.", "Received: --no-jit and --precision x."),
        (fit, "jit=False, was jit=True;", "--no-jit, was --jit;"),
        (fit, "remat=False, was remat=True;", "without --remat, was --remat;"),
        (fit, "leave out image_size.", "leave out --image-size."),
        (fit, "patch_size=4, model_name, my_seed=1", "patch_size=4, model_name, my_seed=1"),
        (fit, "the data and the model are gone", "the data and the model are gone"),
        (fit, "ViT_B16(weights='a')", "ViT_B16(weights='a')"),
        (fit, "a/batch_size/b: image_size.npz", "a/batch_size/b: image_size.npz"),
        (fit, "max_drop of another command", "max_drop of another command"),
        (fit, "use --batch-size", "use --batch-size"),
        (export, "pass representative_data, or", "pass --data, or"),
        (export, "representative_data is empty", "--data is empty"),
        (export, "min_runtime=2.14; max_drop", "--min-runtime=2.14; --max-drop"),
        (compare, "One of: depth, position_embedding.", "One of: depth, position_embedding."),
        (compare, "image_size? did you mean image_size?", "--image-size? did you mean image_size?"),
        (fit, "choose one of a, b or raise batch_size", "choose one of a, b or raise --batch-size"),
        (fit, "none (keras_vit.list_weights)", "none (an unknown name lists all)"),
    ],
)
def test_arguments_of_python_become_flags(command, message, expected):
    assert with_flags(message, command.Arguments) == expected


def test_the_help_of_export_begins_with_what_is_exported_and_how():
    names = [each.name for each in options_of(export.Arguments)]
    assert names.index("quantize") < names.index("images")
