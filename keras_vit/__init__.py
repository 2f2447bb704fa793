"""Vision Transformers for Keras, from pre-training to the phone.

>>> import keras_vit
>>> model = keras_vit.ViT_B16(num_classes=5)
"""

# First of all, Ctrl-C is one line in commands. Before this point Python itself starts, and shows a
# traceback; to keep that time short, these two modules import almost nothing.
from keras_vit._interrupts import exit_on_interrupt as _exit_on_interrupt
from keras_vit.cli import is_command as _is_command

if _is_command():
    _exit_on_interrupt()

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.1.0"

# Commands read their arguments before they import Keras.
if not _is_command():
    # Import everything: `keras.models.load_model` finds only classes that have been imported.
    from keras_vit._public import *  # noqa: F403
    from keras_vit._public import __all__ as _names

    __all__ = [*_names, "export_tflite"]  # noqa: F405 (see __getattr__)


def __getattr__(name: str) -> _Any:
    if name in ("data", "deploy", "evaluation", "training"):
        return _import_module(f"keras_vit.{name}")
    # Export needs TensorFlow and LiteRT. Models on other backends must work without them.
    if name == "export_tflite":
        return _import_module("keras_vit.deploy").export_tflite
    # In a command the public names are imported when the first of them is used.
    if not name.startswith("_"):
        public = _import_module("keras_vit._public")
        if name in public.__all__:
            return getattr(public, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
