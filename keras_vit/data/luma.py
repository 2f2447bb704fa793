"""Grey from RGB, in every array library, as Pillow computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def luma(pixels: Any, floor: Callable[[Any], Any] = np.floor) -> Any:
    """The luma of RGB levels 0 to 255, float32 (..., 3) to (..., 1), as Pillow rounds it.

    All sums are integers below 2**24, so that float32 is exact in every library.

    Args:
        pixels: an array or a tensor.
        floor: the function of its library.
    """
    red, green, blue = (pixels[..., i : i + 1] for i in range(3))
    return floor((red * 19595.0 + green * 38470.0 + blue * 7471.0 + 32768.0) / 65536.0)
