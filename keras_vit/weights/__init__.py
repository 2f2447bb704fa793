"""Reads weights into built models, and writes them. Nothing here builds a model."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        ".encoder.positions": ["resample_positions"],
        "catalogue": ["find_weights", "list_weights", "named_weights"],
        "checkpoint": ["Checkpoint", "open_checkpoint"],
        "download": ["fetch"],
        "hub_download": ["fetch_folder"],
        "loading": ["Loaded", "load_weights"],
        "names": ["WeightName", "parameter_count", "weight_names"],
        "published_weights": ["PublishedWeights"],
        "resampling": ["fold_channels", "resample_patches"],
        "saving": ["save_weights"],
    },
)
