"""Data: image sources, preprocessing, augmentation, and the pipeline that feeds `fit`."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "augmentation": ["AUGMENTATIONS", "Augmentation"],
        "folders": ["Skipped"],
        "mask_folders": ["mask_folder"],
        "masks": ["Masks"],
        "picture_folders": ["image_folder"],
        "pipeline": ["evaluation_batches", "training_batches"],
        "preprocessing": ["load", "preprocess", "preprocess_image"],
        "repeated_pictures": ["repeats_warning"],
        "source": ["Encoded", "InMemory", "Source", "as_answered"],
        "sources": [
            "SOURCES", "Opener", "check_present", "check_source", "digits", "for_task",
            "open_source", "skipped_summary", "source_folder", "source_name",
        ],
        "split": ["Split", "development_split", "split_source", "split_summary", "subset"],
        "vtab_tasks": ["VTAB", "VtabTask"],
    },
)  # fmt: skip
