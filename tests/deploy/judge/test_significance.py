"""Statistics: binomial tails, Tango's interval for paired outcomes, numbers of images."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from keras_vit.deploy.judge.significance import (
    at_least,
    bounds_of,
    images_needed,
    is_proven,
    largest_loss,
    loss_score,
)


@pytest.mark.parametrize("trials", [8, 100_000])
@pytest.mark.parametrize("probability", [0.0, 0.03, 0.5, 0.9, 1.0])
def test_the_tail_is_that_of_the_binomial_distribution(trials, probability):
    for successes in (*range(9), trials // 2, trials, trials + 1):
        expected = binom.sf(successes - 1, trials, probability)
        assert at_least(successes, trials, probability) == pytest.approx(expected, rel=1e-9)


def test_the_tail_of_many_trials_is_nearly_that_of_the_binomial_distribution():
    for successes in (49_000, 49_900, 50_000, 50_300, 51_000):
        expected = binom.sf(successes - 1, 1_000_000, 0.05)
        assert at_least(successes, 1_000_000, 0.05) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("count", [8, 200])
def test_a_bootstrap_has_the_bounds_of_a_mean(count, rng):
    values = rng.normal(size=count)
    counts = np.stack([values, np.ones(count)], 1)  # summed: n times the mean, and n
    low, high = bounds_of(counts, lambda sums: sums[:, 0] / sums[:, 1])
    width = 1.645 * values.std(ddof=1) / math.sqrt(count)
    assert low == pytest.approx(values.mean() - width, abs=0.12 * width)
    assert high == pytest.approx(values.mean() + width, abs=0.12 * width)
    assert bounds_of(counts[:7], lambda sums: sums[:, 0]) is None


def likeliest(lost, gained, images, loss):
    """The score, with the most likely probabilities under the hypothesis found on a grid."""
    q21 = np.linspace(1e-9, (1 - loss) / 2, 2_000_001)[1:-1]
    q12, rest = q21 + loss, 1 - 2 * q21 - loss
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = lost * np.log(q12) + gained * np.log(q21)
        likelihood += (images - lost - gained) * np.log(rest)
    best = q21[np.nanargmax(likelihood)]
    return (lost - gained - images * loss) / math.sqrt(images * (2 * best + loss * (1 - loss)))


@pytest.mark.parametrize(
    ("lost", "gained", "images", "loss"),
    [(10, 3, 100, 0.005), (4, 2, 359, 0.015), (30, 12, 500, 0.1), (1, 1, 50, 0.3)],
)
def test_the_score_uses_the_most_likely_probabilities(lost, gained, images, loss):
    expected = likeliest(lost, gained, images, loss)
    assert loss_score(lost, gained, images, loss) == pytest.approx(expected, rel=1e-3)


def test_the_interval_equals_the_published_one_and_for_no_loss_the_score_is_mcnemars():
    # Fagerland, Lydersen, Laake (2014), airway hyper-responsiveness before and after transplants:
    # 1 and 7 of 21 changed; Tango's interval at 95%, two-sided: -0.517 to -0.026.
    for end, score in ((-0.517, 1.96), (-0.026, -1.96)):
        assert loss_score(1, 7, 21, end) == pytest.approx(score, abs=0.01)
    assert loss_score(10, 4, 100, 0.0) == pytest.approx(6 / math.sqrt(14))
    assert loss_score(0, 0, 100, 0.0) == 0


@pytest.mark.parametrize(
    ("lost", "gained", "images", "proven"),
    [
        *((1, 0, 100, False), (3, 0, 100, False), (4, 0, 100, True), (10, 0, 100, True)),
        *((10, 10, 100, False), (0, 10, 100, False), (1, 0, 1, False), (20, 0, 5000, False)),
    ],
)
def test_one_lost_image_does_not_prove_half_a_point_and_ten_do(lost, gained, images, proven):
    assert is_proven(lost, gained, images, 0.005) is proven
    assert not is_proven(images, 0, images, 1.0)  # no loss is larger than everything


@pytest.mark.parametrize(
    ("lost", "gained", "images"), [(0, 0, 1), (0, 0, 100), (4, 2, 359), (16, 8, 2499)]
)
def test_at_the_largest_loss_the_score_reaches_the_confidence(lost, gained, images):
    found = largest_loss(lost, gained, images)
    assert loss_score(lost, gained, images, found) == pytest.approx(-1.645, abs=2e-3)
    assert found > (lost - gained) / images
    assert largest_loss(images, 0, images) == 1


@pytest.mark.parametrize(("changed", "loss"), [(0.0, 0.005), (0.01, 0.005), (0.05, 0.015)])
def test_the_number_of_images_needed_excludes_the_loss(changed, loss):
    needed = images_needed(changed, loss)
    for images, excluded in ((needed + 1, True), (0.95 * needed, False)):
        flips = changed / 2 * images
        assert (largest_loss(flips, flips, images) <= loss) is excluded
    assert images_needed(changed, 0.0) is None


def test_false_proofs_occur_in_less_than_five_percent_of_draws():
    generator = np.random.default_rng(0)
    for images, rate in ((100, 0.02), (500, 0.01), (500, 0.1)):
        draws = generator.multinomial(images, [rate, rate, 1 - 2 * rate], 4000)
        refused = np.mean([is_proven(*draw[:2], images, 0.0) for draw in draws.tolist()])
        assert refused < 0.06, (images, rate)
        assert np.mean([is_proven(*d[:2], images, 0.005) for d in draws.tolist()]) < 0.05
