"""Fine-tuning that makes a trained model's file smaller, with tensorflow-model-optimization."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "bundles": ["compress_bundles"],
        "exporting": ["compressed_file"],
        "fine_tuning": ["FineTuning", "fine_tuning_of"],
        "methods": ["METHODS", "Compressed", "Compression", "compress"],
        "stored": ["StoredKernel", "stored_kernels", "summary"],
    },
)
