"""Ctrl-C is handled before a command imports anything that takes time."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def imported(*words):
    """The modules that a process imports, in the order in which their imports end."""
    line = [sys.executable, "-X", "importtime", *words]
    errors = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    return [line.rpartition("|")[2].strip() for line in errors.splitlines() if "|" in line]


def test_ctrl_c_is_handled_before_anything_else_is_imported():
    names = imported("train/fit.py", "--help")
    early = names[: names.index("keras_vit._interrupts") + 1]
    own = {"__future__", "atexit", "keras_vit._interrupts"}
    assert set(early) - set(imported("-c", "")) <= own


def test_ctrl_c_that_a_library_swallows_still_ends_the_command():
    program = """
import os, signal, time
from keras_vit import _interrupts
from keras_vit.cli import _program

with _program._one_line_errors(""):
    _interrupts.raise_on_interrupt()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    except:
        pass
    time.sleep(30)
    print("went on")
"""
    ended = run(program)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.endswith("\ninterrupted.\n")


def test_ctrl_c_after_the_work_does_not_end_python_without_a_word():
    program = """
import os, signal
from keras_vit import _interrupts

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)
        print("still there", flush=True)

_interrupts.exit_on_interrupt()
_late = Late()  # Python has given up its handlers when it deletes this
"""
    ended = run(program)
    assert (ended.returncode, ended.stdout) == (0, "still there\n"), ended.stderr


def test_ctrl_c_ends_what_python_still_does_after_the_work():
    program = """
import atexit, os, signal, time
from keras_vit import _interrupts

@atexit.register
def imported_later():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
    print("went on")

_interrupts.exit_on_interrupt(code=0, message="")
"""
    ended = run("from keras_vit import _interrupts\n_interrupts.exit_on_interrupt()" + program)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def run(program):
    program = f"import sys; sys.argv = ['keras-vit']\n{program}"  # a command imports Keras late
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    )  # fmt: skip
