"""How commands end: exit codes, one line for a user's mistake, a traceback for a bug."""

import dataclasses
import errno
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import keras_vit
from keras_vit._errors import DiskFullError, MissingPackageError, RefusedError, UsageError
from keras_vit.cli import COMMANDS, _program, is_command, main

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Arguments:
    """None of its own."""


@pytest.fixture
def ended(monkeypatch, capsys):
    """Runs a command that raises an error: (exit code, standard error)."""

    def end(error, *words):
        def command(arguments):
            raise error

        monkeypatch.setattr(sys, "argv", ["/usr/bin/keras-vit", "fit", *words])
        monkeypatch.setattr(_program, "is_command", lambda: False)  # it would end this process
        with pytest.raises(SystemExit) as stop:
            _program.run(command, Arguments, "Does it.", "fit", words)
        return stop.value.code, capsys.readouterr().err

    return end


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("wrong.", ["and a list"]), 2, "wrong."),
        (RefusedError("over its budget"), 3, "over its budget"),
        (MissingPackageError("needs X: pip install x"), 2, "needs X: pip install x"),
        (DiskFullError("out could not be written"), 2, "out could not be written"),
        (
            FileNotFoundError(2, "No such file", "a"),
            2,
            "a: No such file (--traceback shows where).",
        ),
        (
            OSError(errno.EFBIG, "File too large"),
            2,
            f"a temporary file in {tempfile.gettempdir()} could not be written: File too large; "
            "make room or set TMPDIR to another disk.",
        ),
        (PermissionError(13, "Denied", "x"), 2, "x: Denied (--traceback shows where)."),
        (
            ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow"),
            2,
            "this command needs TensorFlow: pip install 'keras_vit[tensorflow]'",
        ),
    ],
)
def test_a_known_mistake_is_one_line(ended, error, code, line):
    assert ended(error) == (code, f"keras-vit fit: {line}\n")
    found, shown = ended(error, "--traceback")
    assert found == code
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith(f"keras-vit fit: {line}\n")


class ResourceExhaustedError(Exception):
    """As TensorFlow's, which is no OSError either."""


class XlaRuntimeError(RuntimeError):
    """As JAX's."""


@pytest.mark.parametrize(
    "error",
    [
        ResourceExhaustedError("OOM when allocating tensor"),
        XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
        MemoryError(),
        TypeError("int() argument"),
        ValueError("shapes"),
        OSError("without a file"),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        ImportError("libcuda.so.1: undefined symbol"),
        ModuleNotFoundError("No module named 'keras_vit.nothing'", name="keras_vit.nothing"),
    ],
)
def test_any_other_error_keeps_its_traceback(ended, error):
    with pytest.raises(type(error)):
        ended(error)


def test_a_pipe_has_each_line_at_once(monkeypatch):
    pipe, seen = io.BytesIO(), []
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))

    def command(arguments):
        print("step 1")
        seen.append(pipe.getvalue())

    _program.run(command, Arguments, "Does it.", words=[])
    assert seen == [b"step 1\n"]


def test_a_command_does_its_work_without_standard_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it if the descriptor is closed
    done = []
    _program.run(lambda arguments: done.append(print("step 1")), Arguments, "Does it.", words=[])
    assert done == [None]


def test_an_interrupt_is_one_line_that_may_say_what_was_saved(ended):
    assert ended(KeyboardInterrupt()) == (130, "\ninterrupted.\n")
    saved = KeyboardInterrupt("runs/a holds the weights so far")
    assert ended(saved) == (130, "\ninterrupted; runs/a holds the weights so far.\n")


@pytest.mark.parametrize(
    ("program", "spelled"),
    [
        ("/usr/bin/keras-vit", "keras-vit fit"),
        ("C:/Scripts/keras-vit.exe", "keras-vit fit"),
        ("/lib/keras_vit/__main__.py", "python -m keras_vit fit"),
        ("export/to_tflite.py", "python train/fit.py"),
        ("train/fit.py", "python train/fit.py"),
    ],
)
def test_hints_name_a_command_as_the_user_started_this_one(monkeypatch, program, spelled):
    monkeypatch.setattr(sys, "argv", [program])
    assert _program.spelled("fit") == spelled


@pytest.fixture
def answered(monkeypatch, capsys):
    """Runs keras-vit with some words: (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["keras-vit", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_overview_lists_the_commands(answered, words):
    code, out, _ = answered(*words)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for name in COMMANDS:
        assert f"\n  {name} " in out


def test_an_unknown_command_suggests_the_nearest(answered):
    error = "keras-vit: there is no command 'evalute'; did you mean evaluate?\n"
    assert answered("evalute") == (2, "", error)


def test_the_version_is_that_of_the_library(answered):
    assert answered("--version") == (0, f"{keras_vit.__version__}\n", "")


def test_a_process_is_a_command_only_if_it_runs_one(monkeypatch, tmp_path):
    for folder in ("clone/train", "clone/keras_vit", "own/train"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "clone/keras_vit/__init__.py").touch()
    for program, original, expected in (
        ("/usr/bin/keras-vit", (), True),
        ("keras-vit.exe", (), True),
        ("-m", ("-m", "keras_vit"), True),
        ("-m", ("-mkeras_vit",), True),
        ("-m", ("-m", "pytest"), False),
        (Path(keras_vit.__file__).with_name("__main__.py"), (), True),
        (tmp_path / "own/keras_vit/__main__.py", (), False),
        (tmp_path / "clone/train/fit.py", (), True),
        (tmp_path / "clone/train/mine.py", (), False),
        (tmp_path / "own/train/fit.py", (), False),
        ("", (), False),
        ("-c", ("-c",), False),
    ):
        monkeypatch.setattr(sys, "argv", [str(program), "--help"])
        monkeypatch.setattr(sys, "orig_argv", ["python", *original, "--help"])
        assert is_command() is expected, program


def test_a_reader_that_has_seen_enough_ends_the_command_silently():
    command = [sys.executable, ROOT / "train/fit.py", "--recipes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
