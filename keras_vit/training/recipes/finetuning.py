"""Recipes that start from pre-trained weights."""

from __future__ import annotations

import functools

from keras_vit.recipe import Preset, Recipe, preset

_FAMILY = "fine-tuning, from weights"
_TABLE_4 = "Dosovitskiy et al. 2021, table 4 (arXiv 2010.11929)"

# Table 4: SGD with momentum .9, cosine, batch 512, no weight decay, clipping at 1, 384 pixels.
# Warmup: 500 steps, 100 for 500-step runs. The crop is that of the official code.
_PAPER = Recipe(
    image_size=384,
    duration="500 steps",
    batch_size=512,
    optimizer="sgd",
    learning_rate=0.01,
    warmup="100 steps",
)

# A folder of some hundred photographs, on any computer. AdamW needs no learning rate of its own for
# each data set, and a batch of 32 enough steps in few passes.
_FOLDER = Recipe(
    image_size=224,
    duration="10 epochs, at least 100 steps",
    batch_size=32,
    learning_rate=5e-5,
    warmup="10%",
    augment="mild_crop_flip",
)


_folder = functools.partial(preset, _FOLDER, weights="augreg", family=_FAMILY)
_table_4 = functools.partial(
    preset,
    _PAPER,
    model="ViT_B16",
    weights="imagenet21k",
    source=_TABLE_4,
    evidence="published",
    family=_FAMILY,
    learning_rates=(0.001, 0.003, 0.01, 0.03),
)


_CIFAR = {"duration": "10000 steps", "warmup": "500 steps", "development": 0.02}

FINETUNING: dict[str, Preset] = {
    "finetune": _folder(
        model="ViT_Ti16",
        title="a folder of photographs",
        source="chosen here",
        expected="69% with 60 photographs of five kinds of fruit (DINOv2, S/16)",
        evidence="measured here",
        cost="10 passes; on 2 CPU cores S/16 trains on 5 to 10 images a second",
        learning_rates=(2e-5, 5e-5, 1e-4),
    ),
    "finetune-imagenet": _table_4(
        title="ImageNet-1k",
        expected="B/16 83.97%, L/16 85.15%, H/14 85.13%, B/32 81.28%, L/32 80.99%",
        cost="10.2 M images of 384 px",
        data="tfds:imagenet2012",
        duration="20000 steps",
        warmup="500 steps",
        learning_rate=0.03,
        learning_rates=(0.003, 0.01, 0.03, 0.06),
        development=0.01,
    ),
    "finetune-cifar10": _table_4(
        title="CIFAR-10",
        expected="B/16 98.95%, L/16 99.16%, H/14 99.27%, B/32 98.79%, L/32 99.13%",
        cost="5.1 M images of 384 px",
        data="tfds:cifar10",
        **_CIFAR,
    ),
    "finetune-cifar100": _table_4(
        title="CIFAR-100",
        expected="B/16 91.67%, L/16 93.44%, H/14 93.82%, B/32 91.97%, L/32 93.04%",
        cost="5.1 M images of 384 px",
        data="tfds:cifar100",
        **_CIFAR,
    ),
    "finetune-pets": _table_4(
        title="Oxford-IIIT Pets",
        expected="B/16 94.43%, L/16 94.73%, H/14 94.82%, B/32 93.02%, L/32 93.09%",
        cost="256,000 images of 384 px",
        data="tfds:oxford_iiit_pet",
    ),
    "finetune-flowers": _table_4(
        title="Oxford Flowers-102",
        expected="B/16 99.38%, L/16 99.61%, H/14 99.51%, B/32 99.11%, L/32 99.19%",
        cost="256,000 images of 384 px",
        data="tfds:oxford_flowers102",
    ),
    "finetune-vtab": _table_4(
        title="one of VTAB's 19 tasks, with 1,000 training images",
        expected="mean of 19, from JFT-300M: L/16 76.28%, H/14 77.63%",
        cost="1.3 M images of 384 px for each task",
        duration="2500 steps",
        warmup="500 steps",
        learning_rates=(0.01,),
    ),
    "finetune-cifar10-1000": _table_4(
        title="CIFAR-10, a cheap check of weights",
        expected="B/16 98.86% (98.59% after 500 steps)",
        cost="512,000 images of 384 px",
        source="README of google-research/vision_transformer",
        duration="1000 steps",
        warmup="100 steps",
        data="tfds:cifar10",
        development=0.02,
    ),
    "finetune-cifar10-100": _table_4(
        title="CIFAR-10, the cheapest check of weights",
        expected="B/32 97.7%",
        cost="51,200 images of 224 px",
        source="vit_jax.ipynb of google-research/vision_transformer",
        model="ViT_B32",
        duration="100 steps",
        warmup="5 steps",
        learning_rate=0.03,
        image_size=224,
        data="tfds:cifar10",
        development=0.02,
    ),
    "finetune-deit": _table_4(
        title="ImageNet-1k at 384 px, after the recipe deit",
        expected="B/16 83.1% in DeiT's paper (abstract), whose settings differ",
        cost="10.2 M images of 384 px",
        source="TensorFlow Model Garden, DeiT; Touvron et al. 2021 (arXiv 2012.12877)",
        data="tfds:imagenet2012",
        model="ViT_S16",
        weights="runs/imagenet2012/weights.npz",
        evidence="measured here: not yet",
        duration="20000 steps",
        warmup="500 steps",
        learning_rate=0.003,
    ),
    "tf_flowers": _table_4(
        title="five kinds of flowers, a fifth of 3,670 images held out",
        expected="B/16 95.6%, a ResNet 68.9% (settings of the table's Flowers row)",
        cost="256,000 images of 384 px",
        source="a published reproduction; settings of " + _TABLE_4,
        data="tfds:tf_flowers",
    ),
    # The features end in a LayerNorm, so a large learning rate is stable.
    "linear-probe": _folder(
        learning_rate=1e-2,
        weight_decay=0.0,
        freeze="body",
        model="ViT_B16",
        title="only the head is trained",
        source="chosen here",
        expected="below fine-tuning",
        cost="a third of fine-tuning a step: no backward pass of the body",
        learning_rates=(3e-3, 1e-2, 3e-2),
    ),
    "lora": _folder(
        learning_rate=1e-3,
        weight_decay=0.0,
        lora=8,
        model="ViT_B16",
        title="low-rank updates of the kernels and the head are trained",
        source="Hu et al. 2021 (arXiv 2106.09685) for the rank; the rest is chosen here",
        expected="near fine-tuning",
        cost="as fine-tuning; little memory for the optimiser",
        learning_rates=(3e-4, 1e-3, 3e-3),
    ),
}
