"""From a trained model to a file on a phone, checked on the way."""

from keras_vit.deploy.bundle.bundle import read_bundle, weights_sha256, write_bundle
from keras_vit.deploy.bundle.card import notes
from keras_vit.deploy.bundle.opened import OpenedBundle, open_bundle
from keras_vit.deploy.bundle.report import table, write_report
from keras_vit.deploy.convert.auto import choose_float_layers
from keras_vit.deploy.convert.converter import Converter, to_tflite
from keras_vit.deploy.convert.quantize import PRECISIONS, precision_of, quantizable_layers
from keras_vit.deploy.convert.saved_model import export_saved_model
from keras_vit.deploy.export import (
    CALIBRATED,
    check,
    export_tflite,
    judge,
    to_pixels,
)
from keras_vit.deploy.inspect.inspection import Inspection, inspect_file
from keras_vit.deploy.inspect.lint import lint
from keras_vit.deploy.inspect.runtimes import check_runtime, runtime_floor
from keras_vit.deploy.judge.blocks import first_difference, layer_differences
from keras_vit.deploy.judge.measure import Measured, latencies, measure
from keras_vit.deploy.judge.parity import ParityError, Verdict, compare
from keras_vit.deploy.judge.reference import expected_scores, predict
from keras_vit.deploy.runner import Runner

__all__ = [
    "CALIBRATED",
    "PRECISIONS",
    "Converter",
    "Inspection",
    "Measured",
    "OpenedBundle",
    "ParityError",
    "Runner",
    "Verdict",
    "check",
    "check_runtime",
    "choose_float_layers",
    "compare",
    "expected_scores",
    "export_saved_model",
    "export_tflite",
    "first_difference",
    "inspect_file",
    "judge",
    "latencies",
    "layer_differences",
    "lint",
    "measure",
    "notes",
    "open_bundle",
    "precision_of",
    "predict",
    "quantizable_layers",
    "read_bundle",
    "runtime_floor",
    "table",
    "to_pixels",
    "to_tflite",
    "weights_sha256",
    "write_bundle",
    "write_report",
]
