"""From a trained model to a file on a phone, checked on the way."""

from keras_vit.deploy.benchmark import latencies
from keras_vit.deploy.bundle import read_bundle, write_bundle
from keras_vit.deploy.convert import PRECISIONS, precision_of, to_tflite
from keras_vit.deploy.export import export_tflite, predict
from keras_vit.deploy.parity import ParityError, Verdict, compare
from keras_vit.deploy.runner import Runner
from keras_vit.deploy.saved_model import export_saved_model

__all__ = [
    "PRECISIONS",
    "ParityError",
    "Runner",
    "Verdict",
    "compare",
    "export_saved_model",
    "export_tflite",
    "latencies",
    "precision_of",
    "predict",
    "read_bundle",
    "to_tflite",
    "write_bundle",
]
