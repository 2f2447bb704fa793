"""Recipes that train from random weights: on small data, and on large data sets.

On large ones with classes the paper's, big_vision's, DeiT's and AugReg's; without classes the
paper's masked patch prediction, and MAE.

A row has the columns of `recipe.preset`: model, data, image size, duration, batch size, learning
rate, warmup, weight decay, augmentation.
"""

from __future__ import annotations

import functools
import itertools

from keras_vit.recipe import Preset, preset

_small = functools.partial(preset, evidence="measured here", family="small data, random weights")
_preset = functools.partial(preset, evidence="published", family="pre-training, random weights")
_masked = functools.partial(_preset, family="self-supervised pre-training, random weights")
_IMAGENET = ("tfds:imagenet2012", 224)
_TABLE_3 = "Dosovitskiy et al. 2021, table 3 (arXiv 2010.11929)"

EVERYDAY: dict[str, Preset] = {
    # Tuned by experiments; `make demo` prints the accuracy.
    "digits": _small(
        ("ViT_Pico4", "digits", 32, "40 epochs", 128, 3e-3),
        augment="shift",
        title="scikit-learn's handwritten digits",
        source="tuned here",
        expected="98.3%",
        cost="about a minute on 2 CPU cores",
        learning_rates=(1e-3, 3e-3, 1e-2),
    ),
    # Half an epoch of warmup is enough at this learning rate. Boxes of at least half of the area,
    # because crops of 5% of a 32-pixel image show nothing.
    "cifar10": _small(
        ("ViT_Pico4", "cifar10", 32, "40 epochs", 128, 2e-3),
        augment="mild_crop_flip",
        title="CIFAR-10 in an hour on two CPU cores",
        expected="69.6%",
        cost="2.0 M images of 32 px: 43 minutes on 2 CPU cores",
        learning_rates=(1e-3, 2e-3, 4e-3),
        development=0.02,
    ),
    "cifar10-camera": _small(
        ("BiT_R8x1", "cifar10", 64, "20 epochs", 128, 2e-3),
        augment="mild_crop_flip",
        crop=1.0,
        label_smoothing=0.1,
        title="CIFAR-10 for a camera: the Android app's model",
        expected="84.1%",
        cost="1.0 M images of 64 px: 97 minutes on 2 busy CPU cores",
        learning_rates=(1e-3, 2e-3, 4e-3),
        development=0.02,
    ),
    # A small ResNet is as good as a ViT, in half the time: docs/evidence-training.md.
    "scratch": _small(
        ("BiT_R8x1", None, 64, "20 epochs, at least 1000 steps", 32, 3e-3),
        title="a folder of photographs",
        expected="BiT-R8x1 69% with 427 photographs of five kinds of fruit, 56% with 60",
        cost="two to five minutes on 2 CPU cores, for up to 1,600 photographs",
        learning_rates=(1e-3, 3e-3, 1e-2),
    ),
    "scenes": _small(
        ("ViT_Pico4", "scenes", 32, "30 epochs", 32, 2e-3),
        task="segmentation",
        head_cells=4,
        augment="shift",
        title="digits on textures: the class of each pixel",
        expected="88% mean IoU",
        cost="three minutes on 2 CPU cores",
    ),
    "segmentation-scratch": _small(
        ("ViT_Pico4", None, 64, "20 epochs, at least 1000 steps", 32, 2e-3),
        task="segmentation",
        head_cells=4,
        augment="mild_crop_flip",
        title="a folder of photographs with masks",
        expected="90% mean IoU with 48 tiles of a micrograph (cell nuclei)",
        cost="five minutes on 2 CPU cores, for up to 1,600 photographs",
    ),
}

# Table 3: Adam with decoupled weight decay times the learning rate, batch 4096, 10,000 steps of
# warmup, 224 pixels, one hidden layer in the head (section 3.1).
_PAPER = {"dropout": 0.0, "representation": True}
# Section B.1 and the official configurations: multi-label data sets.
_MULTI_LABEL = {
    **_PAPER,
    "loss": "sigmoid",
    "head_bias": -10.0,
    "schedule": "linear",
    "end_learning_rate": 1e-5,
}


def _jft(models: str, model: str, learning_rate: float, epochs: int, expected: str, cost: str = ""):
    return _preset(
        (model, "tfds:jft_300m", 224, f"{epochs} epochs", 4096, learning_rate, "10000 steps", 0.1),
        **_MULTI_LABEL,
        title=f"{models} on JFT-300M, which is not public: prepare a set of your own by this name",
        source=_TABLE_3,
        expected=f"{expected}, fine-tuned on ImageNet",
        cost=cost or f"{0.303 * epochs:.1f} G images of 224 px",
    )


def _imagenet21k(models: str, model: str, epochs: int, expected: str) -> Preset:
    return _preset(
        (model, "tfds:imagenet21k", 224, f"{epochs} epochs", 4096, 1e-3, "10000 steps", 0.03),
        **_MULTI_LABEL | {"dropout": 0.1},
        title=f"{models} on ImageNet-21k",
        source=_TABLE_3,
        expected=f"{expected}, fine-tuned on ImageNet",
        cost=f"{0.0142 * epochs:.1f} G images of 224 px",
    )


def _s16(epochs: int, expected: str, hours: int) -> Preset:
    # big_vision's 1e-4 is multiplied by the schedule but not by the peak learning rate of 1e-3, so
    # the weight decay is 0.1.
    return _preset(
        ("ViT_S16_gap", *_IMAGENET, f"{epochs} epochs", 1024, 1e-3, "10000 steps", 0.1),
        augment="randaugment_2_10",
        mixup=0.2,
        position_embedding="sincos2d",
        representation=True,
        title=f"a plain S/16 on ImageNet-1k, {epochs} epochs",
        source="Beyer et al. 2022 (arXiv 2205.01580); big_vision, vit_s16_i1k",
        expected=expected,
        cost=f"{1.28 * epochs:,.0f} M images: {hours} hours of a TPUv3 core at 592 images/s",
    )


_deit = functools.partial(
    _preset,
    ("ViT_S16", *_IMAGENET, "300 epochs", 1024, 0.002, "5 epochs", 0.05, "randaugment_deit"),
    clip_norm=0.0,
    label_smoothing=0.1,
    drop_path=0.1,
    mixup=0.8,
    cutmix=1.0,
)
_MASKED = {"dropout": 0.0, "loss": "masked_colour"}
# The decoder of He et al. 2022 (table 1, default settings), their table 8, and the longer of their
# two runs.
_MAE = {"beta_2": 0.95, "clip_norm": 0.0, "dropout": 0.0, "loss": "mae"}

PRETRAINING: dict[str, Preset] = {
    "s16-i1k-90ep": _s16(90, "S/16 76.5%", 54),
    "s16-i1k-300ep": _s16(300, "S/16 80%", 180),
    "deit": _deit(
        representation=True,
        title="DeiT's recipe on ImageNet-1k, 300 epochs, without distillation",
        source="TensorFlow Model Garden; Touvron et al. 2021 (arXiv 2012.12877)",
        expected="Ti/16 73.4%, S/16 79.4%, B/16 81.8%",
        cost="384 M images of 224 px",
    ),
    "deit-distilled": _deit(
        distillation="hard",
        distillation_token=True,
        title="DeiT's recipe with a distillation token; it needs --teacher",
        source="Touvron et al. 2021 (arXiv 2012.12877), section 4; settings of the recipe deit",
        expected="Ti/16 74.5%, S/16 81.2%, B/16 83.4%, taught by a RegNetY-16GF",
        cost="384 M images of 224 px, and those through the teacher",
    ),
    "pretrain-i1k": _preset(
        ("ViT_B16", *_IMAGENET, "300 epochs", 4096, 3e-3, "10000 steps", 0.3),
        **_PAPER | {"dropout": 0.1},
        title="all models on ImageNet-1k",
        source=_TABLE_3,
        expected="B/16 77.91%, L/16 76.53%, B/32 73.38%, L/32 71.16%, fine-tuned at 384 px",
        cost="384 M images of 224 px",
    ),
    "pretrain-i21k-B": _imagenet21k("B/16, B/32", "ViT_B16", 90, "B/16 83.97%, B/32 81.28%"),
    "pretrain-i21k-L": _imagenet21k("L/16, L/32", "ViT_L16", 90, "L/16 85.15%, L/32 80.99%"),
    "pretrain-i21k-L-30ep": _imagenet21k("L/16, L/32", "ViT_L16", 30, "below 90 epochs"),
    "pretrain-jft-B": _jft(
        "B/16, B/32, R50+B/16, R50+B/32", "ViT_B16", 8e-4, 7, "B/16 84.15%, B/32 80.73%"
    ),
    "pretrain-jft-L_32": _jft("L/32", "ViT_L32", 6e-4, 7, "L/32 84.37%"),
    "pretrain-jft-L_16-7ep": _jft("L/16, R50+L/16", "ViT_L16", 4e-4, 7, "below 14 epochs"),
    "pretrain-jft-L_16": _jft(
        "L/16, R50+L/16", "ViT_L16", 4e-4, 14, "L/16 87.76% at 512 px", "680 TPUv3-core-days"
    ),
    "pretrain-jft-H_14": _jft(
        "H/14", "ViT_H14", 3e-4, 14, "H/14 88.55% at 518 px", "2,500 TPUv3-core-days"
    ),
    "pretrain-jft-R50_L_32": _jft(
        "R50+L/32", "R50_ViT_L32", 2e-4, 7, "in the paper's figure 5: near L/16"
    ),
    "masked-patch": _masked(
        ("ViT_B16", "tfds:jft_300m", 224, "100000 steps", 4096, 2e-4, "10000 steps", 0.0),
        **_MASKED,
        title="masked patch prediction on JFT-300M, which is not public: prepare a set of your own "
        "by this name, or name another",
        source="Dosovitskiy et al. 2021, appendix B.1.2 (arXiv 2010.11929)",
        expected="B/16 79.9% on ImageNet after 1M steps, fine-tuned; about as good after 100,000",
        cost="410 M images of 224 px",
    ),
    "mae": _masked(
        ("ViT_B16", *_IMAGENET, "1600 epochs", 4096, 2.4e-3, "40 epochs", 0.05, "mild_crop_flip"),
        **_MAE,
        position_embedding="sincos2d",
        title="a masked autoencoder on ImageNet-1k",
        source="He et al. 2022, table 8 (arXiv 2111.06377)",
        expected="B/16 83.6% on ImageNet after 1,600 epochs, fine-tuned",
        cost="2.1 G images of 224 px, of which the encoder sees a quarter",
    ),
    "masked-patch-cifar10": _masked(
        ("ViT_Pico4", "cifar10", 32, "20 epochs", 256, 2e-3, "5%", 0.0, "mild_crop_flip"),
        **_MASKED,
        title="masked patch prediction on CIFAR-10",
        expected="fine-tuned on 1% of the labels 36.8%, from random weights 32.8%",
        evidence="measured here",
        cost="1.0 M images of 32 px",
    ),
    "mae-cifar10": _masked(
        ("ViT_Pico4", "cifar10", 32, "20 epochs", 256, 2e-3, "5%", 0.05, "mild_crop_flip"),
        **_MAE,
        decoder_dim=64,
        decoder_depth=2,
        decoder_heads=4,
        title="a masked autoencoder on CIFAR-10",
        expected="fine-tuned on 1% of the labels 40.0%, from random weights 32.8%",
        evidence="measured here",
        cost="1.0 M images of 32 px",
    ),
}

# AugReg's grid (Steiner et al. 2021, arXiv 2106.10270, section 3), with the names of the published
# files: 'i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0'.
# name: RandAugment's layers and magnitude, mixup's alpha.
_AUGMENTATION = {
    "none": (0, 0, 0.0),
    "light1": (2, 0, 0.0),
    "light2": (2, 10, 0.2),
    "medium1": (2, 15, 0.2),
    "medium2": (2, 15, 0.5),
    "strong1": (2, 20, 0.5),
    "strong2": (2, 20, 0.8),
}
# Data set and epochs: data, millions of images.
_DATA = {
    ("i1k", 300): ("tfds:imagenet2012", 1.28),
    ("i21k", 30): ("tfds:imagenet21k", 14.2),
    ("i21k", 300): ("tfds:imagenet21k", 14.2),
}


def _augreg(name: str, epochs: int, augmentation: str, decay: float, dropout: float) -> Preset:
    data, millions = _DATA[name, epochs]
    layers, magnitude, mixup = _AUGMENTATION[augmentation]
    many = name == "i21k"
    return _preset(
        ("ViT_S16", data, 224, f"{epochs} epochs", 4096, 1e-3, "10000 steps", decay),
        dropout=dropout,
        drop_path=dropout,  # in the last block
        augment=f"randaugment_{layers}_{magnitude}" if layers else "crop_flip",
        mixup=mixup,
        **({"loss": "sigmoid", "head_bias": -10.0} if many else {}),
        title=f"AugReg on {'ImageNet-21k' if many else 'ImageNet-1k'}, {epochs} epochs",
        source="Steiner et al. 2021 (arXiv 2106.10270)",
        expected="in AugReg's index, for the file of this name",
        cost=f"{millions * epochs:,.0f} M images of 224 px",
        family="AugReg's grid, random weights",
    )


AUGREG: dict[str, Preset] = {
    f"augreg-{name}-{epochs}ep-lr_0.001-aug_{augmentation}-wd_{decay}-do_{rate}-sd_{rate}": _augreg(
        name, epochs, augmentation, decay, rate
    )
    for (name, epochs), augmentation, decay, rate in itertools.product(
        _DATA, _AUGMENTATION, (0.1, 0.03), (0.0, 0.1)
    )
}
