"""Random augmentation for training, as a table of its kinds.

An augmentation first takes a picture, or a part of it, at the model's input size; then it may
change the pixels. The functions themselves are in `geometry.py`, `randaugment.py` and
`colour.py`. All randomness comes from a seed, so that an example depends only on the seed of
the run and on its position, and never on threads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """A kind of augmentation: a row of `AUGMENTATIONS`.

    Attributes:
        help: what it does, in a few words.
        area: the smallest fraction of a picture that a random box keeps, of aspect 3/4 to 4/3; None
            for the whole picture, resized as for evaluation.
        margin: the whole picture is resized to this many times the model's input size, and a random
            part of the input size is taken; None for no such part.
        zoom: the smallest and the largest multiple of the input size that the whole picture is
            resized to; a random part of the input size is taken, or the rest is grey. None for no
            such part.
        shift: whether the picture is shifted, rotated and zoomed a little.
        flip: whether half of the images are mirrored.
        pixels: a TensorFlow function of a uint8 image (height, width, 3) and a seed (2,) that
            returns another one.
        moves: whether `pixels` moves some, which masks could not follow.
    """

    help: str
    area: float | None = None
    margin: float | None = None
    zoom: tuple[float, float] | None = None
    shift: bool = False
    flip: bool = False
    pixels: Callable[[Any, Any], Any] | None = None
    moves: bool = False


def _rand_augment(image: Any, seed: Any, **settings: Any) -> Any:
    from keras_vit.data.randaugment import rand_augment

    return rand_augment(image, seed, **settings)


def _three_augment(image: Any, seed: Any) -> Any:
    from keras_vit.data.colour import three_augment

    return three_augment(image, seed)


# The "inception crop" of big_vision and of the official fine-tuning code keeps 5% or more.
_SMALLEST = 0.05
# (layers, magnitude): big_vision's S/16 has (2, 10), AugReg the others.
_RAND_AUGMENT = ((2, 0), (2, 10), (2, 15), (2, 20))

AUGMENTATIONS: dict[str, Augmentation] = {
    "none": Augmentation("nothing"),
    "shift": Augmentation("moves, rotates and zooms a little and does not mirror", shift=True),
    "mild_crop_flip": Augmentation(
        "mirrors and keeps at least half of the area", area=0.5, flip=True
    ),
    "crop_flip": Augmentation("mirrors and keeps at least 5%", area=_SMALLEST, flip=True),
    # 448 pixels for an input of 384; the operations are big_vision's `resize` and `random_crop`.
    "resize_crop_flip": Augmentation(
        "mirrors and keeps 6/7 of the height and of the width", margin=7 / 6, flip=True
    ),
    # mmsegmentation's usual range, in which DINOv2's heads were trained too.
    "zoom_flip": Augmentation(
        "mirrors, zooms by 0.5 to 2 and takes a part of the input size, with grey around what is "
        "smaller",
        zoom=(0.5, 2.0),
        flip=True,
    ),
    **{
        f"randaugment_{layers}_{magnitude}": Augmentation(
            f"crop_flip and {layers} operations of magnitude {magnitude}",
            area=_SMALLEST,
            flip=True,
            pixels=functools.partial(_rand_augment, layers=layers, magnitude=magnitude),
            moves=True,
        )
        for layers, magnitude in _RAND_AUGMENT
    },
    "randaugment_deit": Augmentation(
        "mirrors, keeps at least 8% and has 2 operations of magnitude 9 as in Model Garden's DeiT: "
        "no Cutout, and moves by a tenth",
        area=0.08,
        flip=True,
        pixels=functools.partial(
            _rand_augment, layers=2, magnitude=9, translate=10, without=["Cutout"]
        ),
        moves=True,
    ),
    "three_augment": Augmentation(
        "DeiT III's crop_flip with grey, solarise or blur, and colour jitter",
        area=0.08,
        flip=True,
        pixels=_three_augment,
    ),
}
