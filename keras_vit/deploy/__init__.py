"""From a trained model to a file on a phone, checked on the way.

Nothing is imported before it is used: most names need TensorFlow or LiteRT.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

_MODULES = {
    "bundle.bundle": ("About", "read_bundle", "write_bundle"),
    "bundle.card": ("notes",),
    "bundle.opened": ("OpenedBundle", "open_bundle"),
    "bundle.report": ("table", "write_report"),
    "convert.auto": ("choose_float_layers",),
    "convert.converter": ("Converter", "to_tflite"),
    "convert.quantize": ("quantizable_layers",),
    "convert.saved_model": ("export_saved_model",),
    "export": ("Bundles", "export_bundles", "export_tflite"),
    "images": ("CALIBRATED", "to_pixels"),
    "inspect.inspection": ("Inspection", "inspect_file"),
    "inspect.lint": ("lint",),
    "inspect.runtimes": ("check_runtime", "runtime_floor"),
    "judge.blocks": ("first_difference", "layer_differences"),
    "judge.files": ("JudgedFile", "MadeFile", "check", "judge_file"),
    "judge.measure": ("Measured", "latencies", "measure"),
    "judge.parity": ("ParityError", "Verdict", "compare"),
    "judge.reference": ("Reference", "expected_scores", "predict"),
    "precisions": ("PRECISIONS", "Precision", "precision_of"),
    "resolve": ("Resolved", "resolve", "weights_sha256"),
    "runner": ("Runner",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
