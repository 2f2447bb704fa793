"""The commands: `keras-vit fit`, `python -m keras_vit fit` or, in a clone, `python train/fit.py`.

Each module here is one command: it reads the arguments, calls the library and prints.
"""

from __future__ import annotations

import os
import sys

# Commands in the order of the work, with their scripts in a clone.
COMMANDS = {
    "fit": "train/fit.py",
    "sweep": "train/sweep.py",
    "compare": "train/compare.py",
    "transfer": "train/transfer.py",
    "evaluate": "train/evaluate.py",
    "fewshot": "train/fewshot.py",
    "profile": "train/profile_model.py",
    "predict": "train/predict.py",
    "inspect": "train/look_inside.py",
    "export": "export/to_tflite.py",
    "zero-shot": "export/zero_shot.py",
    "index": "export/index.py",
    "run": "export/run.py",
    "android": "export/to_android.py",
    "bench": "export/bench.py",
    "web": "export/to_web.py",
    "saved-model": "export/to_saved_model.py",
    "compress": "export/compress.py",
    "card": "export/hub_card.py",
    "convert-checkpoint": "export/convert_checkpoint.py",
}


def main(command: str | None = None) -> None:
    """Runs a command on the arguments of this process, and exits.

    Args:
        command: a name in `COMMANDS`; None if it is the first argument.
    """
    from keras_vit.cli import _program

    _program.run_command(command, sys.argv[1:])


def is_command() -> bool:
    """Whether this process runs one of the commands, and not a program of a user."""
    program = os.path.abspath(sys.argv[0] if sys.argv else "")
    folder, name = os.path.split(program)
    if name == "-m":  # Python is still searching for the module to run
        module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
        return module == "keras_vit"
    if program == os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py"):
        return True  # it runs the module
    clone, room = os.path.split(folder)
    # In a clone the library is next to the scripts, even if another copy of it is installed.
    library = os.path.join(clone, "keras_vit", "__init__.py")
    in_clone = f"{room}/{name}" in COMMANDS.values() and os.path.isfile(library)
    return in_clone or os.path.splitext(name)[0] in ("keras-vit", "keras-vit-script")
