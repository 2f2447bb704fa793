"""Data: image sources, preprocessing, augmentation, and the pipeline that feeds `fit`."""

from keras_vit.data.augmentation import AUGMENTATIONS
from keras_vit.data.folders import Skipped
from keras_vit.data.pipeline import evaluation_batches, load, training_batches
from keras_vit.data.preprocessing import preprocess, preprocess_image
from keras_vit.data.sources import (
    SOURCES,
    Source,
    digits,
    image_folder,
    open_source,
    skipped_summary,
    source_folder,
)
from keras_vit.data.split import Split, split_source

__all__ = [
    "AUGMENTATIONS",
    "SOURCES",
    "Skipped",
    "Source",
    "Split",
    "digits",
    "evaluation_batches",
    "image_folder",
    "load",
    "open_source",
    "preprocess",
    "preprocess_image",
    "skipped_summary",
    "source_folder",
    "split_source",
    "training_batches",
]
