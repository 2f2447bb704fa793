"""Principal components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Of the largest variance; what is smaller is rounding, and its direction means nothing.
_LEAST = 1e-12


class Components(NamedTuple):
    """The directions in which rows of numbers vary most.

    Attributes:
        directions: unit vectors, largest variance first, (count, features). The sign of a component
            is arbitrary; here the entry of the largest magnitude is positive.
        fractions: what fraction of the whole variance each of them has, (count,).
        mean: the mean row, (features,).
    """

    directions: np.ndarray
    fractions: np.ndarray
    mean: np.ndarray


def principal_components(rows: np.ndarray, count: int) -> Components:
    """The first `count` principal components of `rows` (n, features), or all if there are fewer."""
    rows = np.asarray(rows, np.float64)
    mean = rows.mean(axis=0)
    # The triangular factor has the same components, and at most `features` rows.
    factor = np.linalg.qr(rows - mean, mode="r")
    _, deviations, directions = np.linalg.svd(factor, full_matrices=False)
    variances = deviations**2
    kept = int((variances > _LEAST * variances[0]).sum()) if len(variances) else 0
    directions = directions[: min(count, kept)]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], axis=1)
    fractions = variances[: len(directions)] / (variances.sum() or 1)
    return Components(directions * np.sign(largest), fractions, mean)
