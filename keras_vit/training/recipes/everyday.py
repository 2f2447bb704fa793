"""Recipes for small data, from random weights."""

from __future__ import annotations

import functools

from keras_vit.recipe import Preset, preset, settings

_preset = functools.partial(preset, evidence="measured here", family="small data, random weights")

EVERYDAY: dict[str, Preset] = {
    # Tuned by experiments; `make demo` prints the accuracy.
    "digits": _preset(
        settings((32, "40 epochs", 128, 3e-3), augment="shift"),
        model="ViT_Pico4",
        data="digits",
        title="scikit-learn's handwritten digits",
        source="tuned here",
        expected="98.3%",
        cost="about a minute on 2 CPU cores",
        learning_rates=(1e-3, 3e-3, 1e-2),
    ),
    # Half an epoch of warmup is enough at this learning rate. Boxes of at least half of the area,
    # because crops of 5% of a 32-pixel image show nothing.
    "cifar10": _preset(
        settings((32, "40 epochs", 128, 2e-3), augment="mild_crop_flip"),
        model="ViT_Pico4",
        data="cifar10",
        title="CIFAR-10 in an hour on two CPU cores",
        source="chosen here",
        expected="69.6%",
        cost="2.0 M images of 32 px: 43 minutes on 2 CPU cores",
        learning_rates=(1e-3, 2e-3, 4e-3),
        development=0.02,
    ),
    # A small ResNet is as good as a ViT, in half the time: docs/evidence-training.md.
    "scratch": _preset(
        settings((64, "20 epochs, at least 1000 steps", 32, 3e-3)),
        model="BiT_R8x1",
        title="a folder of photographs",
        source="chosen here",
        expected="BiT-R8x1 69% with 427 photographs of five kinds of fruit, 56% with 60",
        cost="two to five minutes on 2 CPU cores, for up to 1,600 photographs",
        learning_rates=(1e-3, 3e-3, 1e-2),
    ),
}
