"""Training: recipes as data, and the training loop."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "classes": ["balanced_weights", "imbalance_warning"],
        "fit": ["check_settings", "train"],
        "recipes": ["PRESETS", "RECIPES", "Preset", "Recipe", "default_recipe"],
    },
)
