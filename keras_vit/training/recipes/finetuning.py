"""Recipes that start from pre-trained weights.

A row has the columns of `recipe.preset`: model, data, image size, duration, batch size, learning
rate, warmup, weight decay, augmentation.
"""

from __future__ import annotations

import functools
from typing import Any

from keras_vit.recipe import Preset, preset

_preset = functools.partial(preset, family="fine-tuning, from weights")
_TABLE_4 = "Dosovitskiy et al. 2021, table 4 (arXiv 2010.11929)"

# Table 4: SGD with momentum .9, cosine, batch 512, no weight decay, clipping at 1, 384 pixels.
# Warmup: 500 steps, 100 for 500-step runs. The crop is that of the official code.
_PIXELS, _BATCH = 384, 512

# A folder of some hundred photographs, on any computer. AdamW needs no learning rate of its own for
# each data set, and a batch of 32 enough steps in few passes.
_FOLDER = (None, 224, "10 epochs, at least 100 steps", 32, 5e-5, "10%", None, "mild_crop_flip")
_folder = functools.partial(_preset, weights="augreg")


def _table_4(
    title: str, data: str | None, expected: str, steps: int = 500, warmup: int = 100, **fields: Any
) -> Preset:
    """A row of table 4, or one with its settings; `fields` replace these."""
    images = steps * _BATCH
    count = f"{images:,}" if images < 1e6 else f"{images / 1e6:.1f} M"
    described = {
        "weights": "imagenet21k",
        "source": _TABLE_4,
        "evidence": "published",
        "cost": f"{count} images of {fields.get('image_size', _PIXELS)} px",
        "learning_rates": (0.001, 0.003, 0.01, 0.03),
    }
    row = ("ViT_B16", data, _PIXELS, f"{steps} steps", _BATCH, 0.01, f"{warmup} steps")
    return _preset(row, optimizer="sgd", title=title, expected=expected, **described | fields)


def _models(accuracies: str) -> str:
    """The accuracies of a row in per cent, with the models of the columns."""
    columns = zip(("B/16", "L/16", "H/14", "B/32", "L/32"), accuracies.split(), strict=True)
    return ", ".join(f"{model} {accuracy}%" for model, accuracy in columns)


def _cifar(title: str, data: str, accuracies: str) -> Preset:
    return _table_4(title, data, _models(accuracies), steps=10000, warmup=500, development=0.02)


FINETUNING: dict[str, Preset] = {
    "finetune": _folder(
        ("ViT_Ti16", *_FOLDER),
        title="a folder of photographs",
        expected="69% with 60 photographs of five kinds of fruit (DINOv2, S/16)",
        evidence="measured here",
        cost="10 passes; on 2 CPU cores S/16 trains on 5 to 10 images a second",
        learning_rates=(2e-5, 5e-5, 1e-4),
    ),
    "finetune-imagenet": _table_4(
        "ImageNet-1k",
        "tfds:imagenet2012",
        _models("83.97 85.15 85.13 81.28 80.99"),
        steps=20000,
        warmup=500,
        learning_rate=0.03,
        learning_rates=(0.003, 0.01, 0.03, 0.06),
        development=0.01,
    ),
    "finetune-cifar10": _cifar("CIFAR-10", "tfds:cifar10", "98.95 99.16 99.27 98.79 99.13"),
    "finetune-cifar100": _cifar("CIFAR-100", "tfds:cifar100", "91.67 93.44 93.82 91.97 93.04"),
    "finetune-pets": _table_4(
        "Oxford-IIIT Pets", "tfds:oxford_iiit_pet", _models("94.43 94.73 94.82 93.02 93.09")
    ),
    "finetune-flowers": _table_4(
        "Oxford Flowers-102", "tfds:oxford_flowers102", _models("99.38 99.61 99.51 99.11 99.19")
    ),
    "finetune-vtab": _table_4(
        "one of VTAB's 19 tasks, with 1,000 training images",
        None,
        "mean of 19, from JFT-300M: L/16 76.28%, H/14 77.63%",
        steps=2500,
        warmup=500,
        cost="1.3 M images of 384 px for each task",
        learning_rates=(0.01,),
    ),
    "finetune-cifar10-1000": _table_4(
        "CIFAR-10, a cheap check of weights",
        "tfds:cifar10",
        "B/16 98.86% (98.59% after 500 steps)",
        steps=1000,
        source="README of google-research/vision_transformer",
        development=0.02,
    ),
    "finetune-cifar10-100": _table_4(
        "CIFAR-10, the cheapest check of weights",
        "tfds:cifar10",
        "B/32 97.7%",
        steps=100,
        warmup=5,
        learning_rate=0.03,
        image_size=224,
        source="vit_jax.ipynb of google-research/vision_transformer",
        model="ViT_B32",
        development=0.02,
    ),
    "finetune-deit": _table_4(
        "ImageNet-1k at 384 px, after the recipe deit",
        "tfds:imagenet2012",
        "B/16 83.1% in DeiT's paper (abstract), whose settings differ",
        steps=20000,
        warmup=500,
        learning_rate=0.003,
        source="TensorFlow Model Garden, DeiT; Touvron et al. 2021 (arXiv 2012.12877)",
        model="ViT_S16",
        weights="runs/imagenet2012/weights.npz",
        evidence="measured here: not yet",
    ),
    "tf_flowers": _table_4(
        "five kinds of flowers, a fifth of 3,670 images held out",
        "tfds:tf_flowers",
        "B/16 95.6%, a ResNet 68.9% (settings of the table's Flowers row)",
        source=f"a published reproduction; settings of {_TABLE_4}",
    ),
    # The features end in a LayerNorm, so a large learning rate is stable. Without augmentation and
    # dropout they are the same in each step, and are computed once.
    "linear-probe": _folder(
        ("ViT_B16", *_FOLDER),
        duration="10 epochs, at least 1000 steps",
        learning_rate=1e-2,
        weight_decay=0.0,
        augment="none",
        dropout=0.0,
        freeze="body",
        title="only the head is trained",
        expected="68% with 60 photographs of five kinds of fruit (DINOv2, S/14)",
        evidence="measured here",
        cost="one pass over the pictures, then seconds",
        learning_rates=(3e-3, 1e-2, 3e-2),
    ),
    "segmentation": _folder(
        ("ViT_S16", *_FOLDER),
        task="segmentation",
        augment="zoom_flip",
        title="a folder of photographs with masks",
        expected="90% mean IoU with 48 tiles of a micrograph (cell nuclei; DINOv2, S/14)",
        evidence="measured here",
        cost="10 passes; on 2 CPU cores S/14 trains on 3 to 5 images a second",
    ),
    "lora": _folder(
        ("ViT_B16", *_FOLDER),
        learning_rate=1e-3,
        weight_decay=0.0,
        lora=8,
        title="low-rank updates of the kernels and the head are trained",
        source="Hu et al. 2021 (arXiv 2106.09685) for the rank; the rest is chosen here",
        expected="64% with 60 photographs of five kinds of fruit (DINOv2, S/14)",
        evidence="measured here",
        cost="as fine-tuning; little memory for the optimiser",
        learning_rates=(3e-4, 1e-3, 3e-3),
    ),
}
