"""The commands: `keras-vit fit`, `python -m keras_vit fit` or, in a clone, `python train/fit.py`.

Each module here is one command: it reads the arguments, calls the library and prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Commands in the order of the work, with their scripts in a clone.
COMMANDS = {
    "fit": "train/fit.py",
    "evaluate": "train/evaluate.py",
    "predict": "train/predict.py",
    "export": "export/to_tflite.py",
    "saved-model": "export/to_saved_model.py",
    "compress": "export/compress.py",
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
    program = Path(sys.argv[0] if sys.argv else "").absolute()
    if program.name == "-m":  # Python is still searching for the module to run
        module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
        return module == "keras_vit"
    is_script = f"{program.parent.name}/{program.name}" in COMMANDS.values()
    # In a clone the library is next to the scripts, even if another copy of it is installed.
    in_clone = is_script and (program.parents[1] / "keras_vit" / "__init__.py").is_file()
    return in_clone or program.stem in ("keras-vit", "keras-vit-script")
