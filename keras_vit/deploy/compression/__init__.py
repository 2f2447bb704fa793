"""Fine-tuning that makes a trained model's file smaller, with tensorflow-model-optimization."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "compressed_bundles": ["compress_bundles", "compressed_file"],
        "file_kernels": ["StoredKernel", "stored_kernels", "summary"],
        "fine_tuning": ["FineTuning", "fine_tuning_of"],
        "methods": ["METHODS", "Compressed", "Compression", "compress"],
    },
)
