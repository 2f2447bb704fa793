"""How often the exporter's check passes good and bad files.

Simulates the scores of Keras and of int8 files with a known loss of accuracy, and checks them with
`keras_vit.deploy.compare(...).check()`, as an export does. "balanced" has ten classes and Keras is
right on 90% of the images; "90/10" has two classes and Keras is right on 95%. As measured in real
int8 files, a file differs from Keras only where two classes are nearly tied: besides its loss, it
changes equally many answers for the better and for the worse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from keras_vit import deploy
from keras_vit.deploy.precisions import PRECISIONS

# The fraction of images in each class, and the fraction that Keras gets right.
SETS = {"balanced": ((0.1,) * 10, 0.9), "90/10": ((0.9, 0.1), 0.95)}
# Measured on a ViT-Pico/4 on CIFAR-10 in int8: of 2,499 images, only Keras was right on 16 and only
# the file on 8, and scores differed by 0.02 of their standard deviation.
CHANGED, NOISE = 0.005, 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[100, 500, 5000])
    parser.add_argument("--trials", type=int, default=1000, help="of each figure (default: 1000)")
    parser.add_argument(
        "--precision", default="int8", choices=[p.name for p in PRECISIONS.values()]
    )
    parser.add_argument(
        "--max-drop", type=float, help="points of accuracy (default: the precision's own)"
    )
    arguments = parser.parse_args()
    header = f"{'set':10}{'file':22}" + "".join(f"{n:>9,} images" for n in arguments.images)
    print("files that pass", header, "-" * len(header), sep="\n")
    for name, kind, passed in rates(
        arguments.images, arguments.trials, arguments.precision, arguments.max_drop
    ):
        print(f"{name:10}{kind:22}" + "".join(f"{p:>16.1%}" for p in passed), flush=True)


def rates(
    images: list[int], trials: int, precision: str = "int8", max_drop: float | None = None
) -> Iterator[tuple[str, str, list[float]]]:
    """For each set and kind of file: the fraction of the trials that pass, by number of images."""
    for name, (fractions, right) in SETS.items():
        for kind, make in FILES.items():
            yield (
                name,
                kind,
                [
                    np.mean(
                        [
                            _passes(_trial(fractions, right, n, seed, make), precision, max_drop)
                            for seed in range(trials)
                        ]
                    )
                    for n in images
                ],
            )


def _passes(trial: tuple, precision: str, max_drop: float | None) -> bool:
    try:
        deploy.compare(precision, *trial).check(max_drop)
    except deploy.ParityError:
        return False
    return True


def _trial(
    fractions: tuple[float, ...], right: float, images: int, seed: int, make: Callable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keras' scores (n, classes), the file's, and the true classes (n,)."""
    generator = np.random.default_rng([seed, images])
    targets = generator.choice(len(fractions), images, p=fractions)
    named = np.where(
        generator.random(images) < right, targets, _another(targets, fractions, generator)
    )
    reference = generator.normal(0, 1, (images, len(fractions)))
    _put_first(reference, named)
    return make(reference, named, targets, generator)


def _worse(points: float) -> Callable:
    """A file whose true accuracy is lower by that many percentage points."""

    def make(reference, named, targets, generator):
        classes, correct = reference.shape[1], named == targets
        # The fractions of images that the file loses and gains.
        lost, gained = CHANGED + points / 100, CHANGED
        rate = np.where(correct, lost / correct.mean(), gained / max(1 - correct.mean(), 1e-9))
        changed = generator.random(len(named)) < rate
        other = np.where(correct, _another(named, (1,) * classes, generator), targets)
        rows = np.flatnonzero(changed)
        # A near tie, which the file decides differently.
        best = reference[rows, named[rows]]
        reference[rows, other[rows]] = best - NOISE / 2
        candidate = reference + generator.normal(0, NOISE, reference.shape)
        _put_first(candidate, np.where(changed, other, named))
        return reference, candidate, targets

    return make


def _constant(reference, named, targets, generator):
    """A file with Keras' mean scores for all images; the most frequent class has the largest."""
    row = reference.mean(axis=0)[None]
    _put_first(row, np.array([np.bincount(targets).argmax()]))
    return reference, np.repeat(row, len(reference), axis=0), targets


def _one_answer(reference, named, targets, generator):
    """A file with Keras' scores that decides all near ties for the most frequent class.

    Keras is nearly undecided on all images for which it predicts another class.
    """
    majority = np.bincount(targets).argmax()
    rows = named != majority
    reference[rows, majority] = reference[rows].max(-1) - NOISE / 2
    candidate = reference + generator.normal(0, NOISE / 10, reference.shape)
    candidate[rows, majority] = candidate[rows].max(-1) + NOISE / 2
    return reference, candidate, targets


def _shuffled(reference, named, targets, generator):
    """A file that gives each image the scores of another."""
    return reference, generator.permutation(reference), targets


FILES = {
    "equal": _worse(0.0),
    "2 points worse": _worse(2.0),
    "5 points worse": _worse(5.0),
    "10 points worse": _worse(10.0),
    "constant": _constant,
    "always one answer": _one_answer,
    "shuffled": _shuffled,
}


def _another(classes: np.ndarray, fractions: tuple, generator: np.random.Generator) -> np.ndarray:
    """A random different class for each class."""
    return (classes + generator.integers(1, len(fractions), len(classes))) % len(fractions)


def _put_first(scores: np.ndarray, classes: np.ndarray) -> None:
    """Exchanges the largest score (n, classes) of each row with that of a class, in place."""
    rows, best = np.arange(len(scores)), scores.argmax(-1)
    old = scores[rows, classes].copy()
    scores[rows, classes] = scores[rows, best]
    scores[rows, best] = old


if __name__ == "__main__":
    main()
