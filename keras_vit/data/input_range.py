"""Finds images that were not preprocessed as the model needs, by their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_vit._errors import UsageError
from keras_vit.specs import Preprocessing

_Scaling = tuple[Any, Any]  # the mean and the scale of (x - mean) / scale, numbers or 3 of them
# Ways to scale pixels.
_SCALINGS: dict[str, _Scaling] = {
    "0 to 1": (0, 255),
    "-1 to 1": (127.5, 127.5),
    "ImageNet's mean 0 and deviation 1": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    "0 to 255": (0, 1),
}
# Resizing in floats, without rounding and clipping, leaves the range of the pixels at sharp edges.
_OVERSHOOT = 0.25
# How far the lowest and the highest value may be inside or outside of a range that is filled, as a
# fraction of it. Values that leave the model's range show another one if they span a quarter of it.
_INSIDE, _OUTSIDE, _SPANNED = 0.02, 0.15, 0.25
# The same for 0 to 1: inputs of bright pictures are in it too, but seldom near both ends.
_INSIDE_UNIT = 0.1
# Images that are looked at closely, and how far their levels may be from whole numbers.
_LOOKED_AT, _ROUNDING = 8, 0.02
# Images that were scaled before they were preprocessed have levels about 0, not only whole ones.
_BLACK = 4


def check_inputs(
    inputs: np.ndarray, preprocessing: Preprocessing | None, name: str = "inputs"
) -> None:
    """Checks that images (n, height, width, channels) can have been preprocessed in this way.

    Refused are values that leave the range of the preprocessing. Unless they are whole pixels under
    it, refused are also values that fill the range of another usual scaling or are whole pixels of
    it, and values that all stand for black, as those of images that were scaled before. Of constant
    images only the range is checked; without a preprocessing, nothing.

    Raises:
        UsageError: the values are of another scaling; the message says of which.
    """
    if preprocessing is None or not inputs.size:
        return
    least, most = float(inputs.min()), float(inputs.max())
    own = (preprocessing.mean, preprocessing.scale)
    low, high = _range(own)
    margin = _OVERSHOOT * (high - low)
    outside = least < low - margin or most > high + margin
    if not outside and (least == most or _are_whole(inputs, own)):
        return
    others = [name for name in _SCALINGS if not _is_near(_SCALINGS[name], low, high)]
    scaling = next((x for x in others if _is_scaled(inputs, least, most, x, outside)), None)
    of_scaling = trained = ""
    if scaling is not None:
        mean, scale = _SCALINGS[scaling]
        if preprocessing.channels == 1:
            mean, scale = (round(float(np.mean(each)), 3) for each in (mean, scale))
        of_scaling = f", as of pixels scaled to {scaling}"
        trained = (
            "; a model that was trained on such values needs its preprocessing first: "
            "model.preprocessing = dataclasses.replace(model.preprocessing, "
            f"mean={mean}, scale={scale})"
        )
    elif not outside:
        if np.abs(_levels(inputs, own)).max() >= _BLACK:
            return
        of_scaling = ", as of images that were scaled before they were preprocessed"
    raise UsageError(
        f"{name} must be preprocessed for the model, which takes values from {low:.3g} to "
        f"{high:.3g}. Received: {least:.3g} to {most:.3g}{of_scaling}; use "
        f"keras_vit.preprocess(images, model){trained}."
    )


def _range(scaling: _Scaling) -> tuple[float, float]:
    """The inputs of the levels 0 and 255."""
    mean, scale = scaling
    low, high = (level - np.asarray(mean) for level in (0, 255))
    return float((low / scale).min()), float((high / scale).max())


def _is_near(scaling: _Scaling, low: float, high: float) -> bool:
    """Whether a scaling has about the same range, as mean 128 and scale 128 have that of 127.5."""
    return bool(np.allclose(_range(scaling), (low, high), rtol=0, atol=_INSIDE * (high - low)))


def _is_scaled(inputs: np.ndarray, least: float, most: float, name: str, outside: bool) -> bool:
    low, high = _range(_SCALINGS[name])
    width = high - low
    if not low - _OUTSIDE * width <= least <= most <= high + _OUTSIDE * width:
        return False
    inside = (_INSIDE_UNIT if name == "0 to 1" else _INSIDE) * width
    fills = least < low + inside and most > high - inside
    spans = outside and most - least > _SPANNED * width
    return spans or fills or _are_whole(inputs, _SCALINGS[name])


def _are_whole(inputs: np.ndarray, scaling: _Scaling) -> bool:
    """Whether images are whole numbers from 0 to 255 that were scaled."""
    levels = _levels(inputs, scaling)
    nearest = np.clip(np.rint(levels), 0, 255)
    return bool(np.abs(levels - nearest).max() < _ROUNDING)


def _levels(inputs: np.ndarray, scaling: _Scaling) -> np.ndarray:
    """The pixels of some images that were scaled."""
    mean, scale = scaling
    some = inputs[:: -(-len(inputs) // _LOOKED_AT)].astype(np.float64)
    return some * np.asarray(scale) + np.asarray(mean)
