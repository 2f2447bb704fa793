"""Scenes with known masks, without a download: scikit-learn's digits on textures.

Each scene has one digit of 20 to 26 pixels, bright and of a random colour, on smooth noise with
stripes. Training and test scenes have different digits.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from keras_vit._errors import naming_install
from keras_vit.data.masks import Masks, sets_of
from keras_vit.data.source import InMemory, Source

SIZE = 32  # pixels
_COUNTS = {"train": 4000, "test": 500}
_TEST_DIGITS = 450  # of the 1,797
_DIGIT = (20, 26)  # pixels
_INK = 0.4  # from this part of a digit's colour on, a pixel is the digit's


def scenes() -> Source:
    """4,000 scenes for training and 500 for testing, each with the class of every pixel.

    The classes are "background" and "0" to "9".
    """
    with naming_install("the scenes need scikit-learn"):
        from sklearn.datasets import load_digits
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.images))
    parts = {"train": order[_TEST_DIGITS:], "test": order[:_TEST_DIGITS]}
    images, masks, ids, splits = [], [], [], {}
    for seed, (split, count) in enumerate(_COUNTS.items()):
        rng, start = np.random.default_rng(seed), len(ids)
        for i in range(count):
            which = rng.choice(parts[split])
            image, mask = _scene(rng, data.images[which] / 16, data.target[which] + 1)
            images.append(image)
            masks.append(mask)
            ids.append(f"scenes/{split}/{i:04d}")
        splits[split] = np.arange(start, len(ids))
    labels = ("background", *map(str, data.target_names))
    stacked = np.stack(masks)  # (n, SIZE, SIZE)
    sets = sets_of(stacked, len(labels))
    return Source(
        name="scenes",
        labels=labels,
        ids=tuple(ids),
        targets=sets.rarest,
        image=InMemory(np.stack(images)),
        splits=splits,
        annotations=Masks(stacked.__getitem__, sets),
    )


def _scene(
    rng: np.random.Generator, digit: np.ndarray, target: int
) -> tuple[np.ndarray, np.ndarray]:
    """An image, uint8 (SIZE, SIZE, 3), and its mask, uint8 (SIZE, SIZE).

    Args:
        rng: draws all that is random.
        digit: how much colour its pixels have, from 0 to 1, (8, 8).
        target: its class.
    """
    image, mask = _background(rng), np.zeros((SIZE, SIZE), np.uint8)
    side = int(rng.integers(_DIGIT[0], _DIGIT[1] + 1))
    top, left = rng.integers(0, SIZE - side + 1, 2)
    ink = np.clip(_resized(digit, side), 0, 1)
    box = slice(top, top + side), slice(left, left + side)
    colour = 0.7 + 0.3 * rng.random(3)
    image[box] += (colour - image[box]) * ink[..., None]
    mask[box][ink > _INK] = target
    return np.rint(image * 255).astype(np.uint8), mask


def _background(rng: np.random.Generator) -> np.ndarray:
    """Smooth noise with stripes, from 0 to 1 (SIZE, SIZE, 3)."""
    coarse = rng.random((*rng.integers(2, 7, 2), 3))
    smooth = np.stack([_resized(coarse[..., i], SIZE) for i in range(3)], axis=-1)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    angle, waves = rng.random() * np.pi, rng.integers(2, 7)
    stripes = 0.5 + 0.5 * np.sin(2 * np.pi * waves * (x * np.cos(angle) + y * np.sin(angle)))
    noise = rng.normal(0, 0.03, smooth.shape)
    return np.clip(0.15 + 0.45 * smooth + 0.15 * stripes[..., None] * rng.random(3) + noise, 0, 1)


def _resized(values: np.ndarray, side: int) -> np.ndarray:
    """Values (height, width) as a square, with smooth transitions."""
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize((side, side), Image.Resampling.BICUBIC))
