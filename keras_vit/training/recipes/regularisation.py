"""AugReg's grid of regularisation, as data (Steiner et al. 2021, arXiv 2106.10270, section 3).

The names are those of the published files: 'i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0'.
"""

from __future__ import annotations

import itertools

from keras_vit.recipe import Preset, preset, settings

# name: RandAugment's layers and magnitude, mixup's alpha.
AUGMENTATION = {
    "none": (0, 0, 0.0),
    "light1": (2, 0, 0.0),
    "light2": (2, 10, 0.2),
    "medium1": (2, 15, 0.2),
    "medium2": (2, 15, 0.5),
    "strong1": (2, 20, 0.5),
    "strong2": (2, 20, 0.8),
}
WEIGHT_DECAY = (0.1, 0.03)
# Dropout, and stochastic depth in the last block.
DROPOUT = ((0.0, 0.0), (0.1, 0.1))
# Data set and epochs: data, millions of images.
DATA = {
    ("i1k", 300): ("tfds:imagenet2012", 1.28),
    ("i21k", 30): ("tfds:imagenet21k", 14.2),
    ("i21k", 300): ("tfds:imagenet21k", 14.2),
}


def _row(
    name: str, epochs: int, augmentation: str, decay: float, rates: tuple[float, float]
) -> Preset:
    data, millions = DATA[name, epochs]
    layers, magnitude, mixup = AUGMENTATION[augmentation]
    many = name == "i21k"
    return preset(
        settings((224, f"{epochs} epochs", 4096, 1e-3, "10000 steps", decay)),
        dropout=rates[0],
        drop_path=rates[1],
        augment=f"randaugment_{layers}_{magnitude}" if layers else "crop_flip",
        mixup=mixup,
        loss="sigmoid" if many else "softmax",
        head_bias=-10.0 if many else 0.0,
        model="ViT_S16",
        data=data,
        title=f"AugReg on {'ImageNet-21k' if many else 'ImageNet-1k'}, {epochs} epochs",
        source="Steiner et al. 2021 (arXiv 2106.10270)",
        expected="in AugReg's index, for the file of this name",
        evidence="published",
        cost=f"{millions * epochs:,.0f} M images of 224 px",
        family="AugReg's grid, random weights",
    )


AUGREG: dict[str, Preset] = {
    f"augreg-{name}-{epochs}ep-lr_0.001-aug_{augmentation}-wd_{decay}-do_{do}-sd_{sd}": _row(
        name, epochs, augmentation, decay, (do, sd)
    )
    for (name, epochs), augmentation, decay, (do, sd) in itertools.product(
        DATA, AUGMENTATION, WEIGHT_DECAY, DROPOUT
    )
}
