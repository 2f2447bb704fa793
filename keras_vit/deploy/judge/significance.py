"""Statistics: which losses of accuracy a limited number of images proves or excludes."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

# One-sided, for every claim: a file is refused only if the images prove that it is over its budget,
# and a loss counts as excluded only if they prove that. 95% is the convention.
CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(CONFIDENCE)  # 1.645
_MANY = 100_000  # trials from which a binomial distribution is taken for a normal one
# Of fewer images a bootstrap's bounds are wrong too often: in simulations 14 times of 100 for 5
# images, 8 times for 8, 4 to 8 times for 16 to 200.
FEWEST = 8
_RESAMPLES = 2000


def at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of `successes` or more in `trials` of a binomial distribution."""
    if successes <= 0:
        return 1.0
    if probability <= 0 or successes > trials:
        return 0.0
    if probability >= 1:
        return 1.0
    if trials > _MANY:  # pixels, for example
        deviation = math.sqrt(trials * probability * (1 - probability))
        return 1 - NormalDist(trials * probability, deviation).cdf(successes - 0.5)
    yes, no, factorial = math.log(probability), math.log1p(-probability), math.lgamma(trials + 1)
    logs = (
        factorial - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * yes + (trials - k) * no
        for k in range(successes, trials + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logs)))


def loss_score(lost: int, gained: int, images: int, loss: float) -> float:
    """Tango's score for the hypothesis that a file's accuracy is lower by `loss`.

    Both models classify the same images, so only images count that exactly one of them got right.
    The score is standard normal if the hypothesis is true, and large if the true loss is larger.

    Source: Tango, "Equivalence test and confidence interval for the difference in proportions for
    the paired-sample design", Statistics in Medicine 17 (1998); recommended for small counts by
    Fagerland, Lydersen, Laake, Statistics in Medicine 33 (2014).

    Args:
        lost: images that only the reference got right.
        gained: images that only the file got right.
        images: number of compared images.
        loss: the difference of the accuracies, in [0, 1].
    """
    deviation = _deviation(lost / images, gained / images, loss) * math.sqrt(images)
    difference = lost - gained - images * loss
    if deviation == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / deviation


def is_proven(lost: int, gained: int, images: int, loss: float) -> bool:
    """Whether the accuracy is lower by more than `loss` (in [0, 1]), with `CONFIDENCE`."""
    return loss < 1 and loss_score(lost, gained, images, loss) > _Z


def largest_loss(lost: int, gained: int, images: int) -> float:
    """The largest loss of accuracy, in [0, 1], that the images do not exclude with `CONFIDENCE`."""
    low, high = max(0.0, (lost - gained) / images), 1.0
    while high - low > 1e-6:  # the score falls as the loss grows
        middle = (low + high) / 2
        excluded = loss_score(lost, gained, images, middle) < -_Z
        low, high = (low, middle) if excluded else (middle, high)
    return high


def bounds_of(
    counts: np.ndarray, metric: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float] | None:
    """A bootstrap over images: between which bounds a metric of summed counts is.

    It is larger than the first bound with `CONFIDENCE`, and smaller than the second. One image
    fewer is drawn than there are, or the spread would be too small (Hesterberg, "Unbiasing the
    Bootstrap", 2004). It is paired if the counts of each image are those of two files.

    Args:
        counts: of each image (n, ...).
        metric: from sums over images (resamples, ...) to the metric (resamples,).

    Returns:
        The bounds; None for fewer than `FEWEST` images, which prove nothing.
    """
    count = len(counts)
    if count < FEWEST:
        return None
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(count - 1, np.full(count, 1 / count), _RESAMPLES)
    values = metric(np.tensordot(drawn, counts, 1))
    low, high = np.quantile(values, (1 - CONFIDENCE, CONFIDENCE))
    return float(low), float(high)


def images_needed(changed: float, loss: float) -> int | None:
    """How many images are needed to exclude a loss, for a file that loses nothing.

    Args:
        changed: fraction of images that only one of the two models got right.
        loss: the loss to exclude, in [0, 1].

    Returns:
        The number; None for a loss of 0, which cannot be excluded.
    """
    if loss <= 0:
        return None
    return math.ceil((_Z * _deviation(changed / 2, changed / 2, loss) / loss) ** 2)


def _deviation(lost: float, gained: float, loss: float) -> float:
    """Standard deviation of the score's numerator for one image; q21 is as in Tango's paper."""
    linear = (2 - lost + gained) * loss - lost - gained
    constant = -gained * loss * (1 - loss)
    q21 = (math.sqrt(max(linear**2 - 8 * constant, 0.0)) - linear) / 4
    return math.sqrt(max(2 * q21 + loss * (1 - loss), 0.0))
