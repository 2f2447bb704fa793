"""Recipes that train without classes: the paper's masked patch prediction, and MAE."""

from __future__ import annotations

import dataclasses

from keras_vit.recipe import Recipe
from keras_vit.training.recipes.preset import Preset

_FAMILY = "self-supervised pre-training, random weights"
_PAPER = Recipe(
    image_size=224,
    duration="100000 steps",
    batch_size=4096,
    learning_rate=2e-4,
    warmup="10000 steps",
    weight_decay=0.0,
    dropout=0.0,
    loss="masked_colour",
)
# The decoder of He et al. 2022 (table 1, default settings), their table 8, and the longer of their
# two trainings.
_MAE = Recipe(
    image_size=224,
    duration="1600 epochs",
    batch_size=4096,
    learning_rate=2.4e-3,
    warmup="40 epochs",
    weight_decay=0.05,
    beta_2=0.95,
    clip_norm=0.0,
    dropout=0.0,
    position_embedding="sincos2d",
    augment="mild_crop_flip",
    loss="mae",
)
_CIFAR = {
    "image_size": 32,
    "duration": "20 epochs",
    "batch_size": 256,
    "warmup": "5%",
    "augment": "mild_crop_flip",
    "position_embedding": None,  # the model's, which fine-tuning has too
}

SELF_SUPERVISED_PRETRAINING: dict[str, Preset] = {
    "masked-patch": Preset(
        _PAPER,
        model="ViT_B16",
        data="tfds:jft_300m",
        title="masked patch prediction on JFT-300M, which is not public: prepare a set of your own "
        "by this name, or name another",
        source="Dosovitskiy et al. 2021, appendix B.1.2 (arXiv 2010.11929)",
        expected="B/16 79.9% on ImageNet after 1M steps, fine-tuned; about as good after 100,000",
        evidence="published",
        cost="410 M images of 224 px",
        family=_FAMILY,
    ),
    "mae": Preset(
        _MAE,
        model="ViT_B16",
        data="tfds:imagenet2012",
        title="a masked autoencoder on ImageNet-1k",
        source="He et al. 2022, table 8 (arXiv 2111.06377)",
        expected="B/16 83.6% on ImageNet after 1,600 epochs, fine-tuned",
        evidence="published",
        cost="2.1 G images of 224 px, of which the encoder sees a quarter",
        family=_FAMILY,
    ),
    "masked-patch-cifar10": Preset(
        dataclasses.replace(_PAPER, learning_rate=2e-3, **_CIFAR),
        model="ViT_Pico4",
        data="cifar10",
        title="masked patch prediction on CIFAR-10",
        source="chosen here",
        expected="fine-tuned on 1% of the labels 36.8%, from random weights 32.8%",
        evidence="measured here",
        cost="1.0 M images of 32 px",
        family=_FAMILY,
    ),
    "mae-cifar10": Preset(
        dataclasses.replace(
            _MAE, learning_rate=2e-3, decoder_dim=64, decoder_depth=2, decoder_heads=4, **_CIFAR
        ),
        model="ViT_Pico4",
        data="cifar10",
        title="a masked autoencoder on CIFAR-10",
        source="chosen here",
        expected="fine-tuned on 1% of the labels 40.0%, from random weights 32.8%",
        evidence="measured here",
        cost="1.0 M images of 32 px",
        family=_FAMILY,
    ),
}
