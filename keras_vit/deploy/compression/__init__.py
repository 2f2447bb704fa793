"""Fine-tuning that makes a trained model's file smaller, with tensorflow-model-optimization."""

from keras_vit.deploy.compression.bundles import compress_bundles
from keras_vit.deploy.compression.exporting import compressed_file
from keras_vit.deploy.compression.fine_tuning import FineTuning
from keras_vit.deploy.compression.methods import METHODS, Compressed, Compression, compress
from keras_vit.deploy.compression.stored import StoredKernel, stored_kernels, summary

__all__ = [
    "METHODS",
    "Compressed",
    "Compression",
    "FineTuning",
    "StoredKernel",
    "compress",
    "compress_bundles",
    "compressed_file",
    "stored_kernels",
    "summary",
]
