"""Compares the scores of an exported file with the Keras model's, and judges them by a budget."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np

from keras_vit._checks import not_negative
from keras_vit._errors import UsageError
from keras_vit._json import Amount, Text
from keras_vit.deploy.graph.graph_options import scores_classes
from keras_vit.deploy.judge import significance
from keras_vit.deploy.precisions import DEFAULT_DROP, Budget, precision_named
from keras_vit.deploy.reference_scores import (
    ALL_SAME,
    SAME,
    ParityError,
    check_scale,
    rows_of,
    scale_of,
    variation_of,
)
from keras_vit.labels import answer_scores
from keras_vit.neighbours import NEIGHBOURS, nearest, shares, unit

# For each class: of the images that Keras assigns to it, the fraction that the file must assign to
# it too. Below a half, the file misses the class more often than not. A file is refused only if
# chance does not explain a smaller fraction. The smallest of D's classes: 97%, in int4 92%.
CLASS_AGREEMENT = 0.5
# In half precision on the CPU. It was measured like the budgets in `precisions`: D: 100%, 0.0010,
# 0.0004. R: 100%, 0.0010, 0.0015.
HALF_PRECISION = Budget(0.99, 2e-2, 1e-2, None)
# Scores of two classes that differ by less than this fraction of the scale are a tie. The order of
# summation in float32 changes scores by at most 2e-6 of the scale (C and D in `precisions`).
_TIE = 1e-5
# Of fewer images, the nearest ones are most of them.
_FEWEST = 4 * NEIGHBOURS
# Of feature maps, so many patches are looked up among each other.
_PATCHES = 2000


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How an exported model compares with Keras on the same inputs.

    Attributes:
        precision: the name of a `Precision`, or "half precision".
        images: number of images.
        agreement: fraction of the comparisons in which both predict the same class; None for
            features.
        max_difference: largest |difference| of any score.
        scale: half of the difference between the Keras model's largest and smallest score.
        cosine: smallest cosine of the two score vectors of a comparison; 0 if only one of them is
            zero or if one is not finite. None if all of Keras' scores are zero, or of one score.
        error: root mean square difference of the scores, as a fraction of the standard deviation of
            Keras' scores over the images (of one image: over its scores).
        comparisons: number of compared score vectors: one for each image or, if every token has
            scores, one for each token. None: the number of images.
        recall: of features, the part of each image's ten nearest others by Keras' that are also
            among the ten nearest by the file's; of feature maps, the same of 2,000 of the patches.
            None for classes and for fewer than 40 images or patches.
        accuracy, keras_accuracy: accuracies of the file and of Keras; None without labels. Those of
            features are of the vote of the ten nearest other images (`neighbours.shares`).
        majority: fraction of the images that belong to the most frequent class.
        lost, gained: images that only Keras, or only the file, got right.
        keras_classes, file_classes: how many different classes Keras and the file predict; None
            for features.
        weakest_class: the class of Keras' predictions on which the file agrees least clearly:
            {"class", "comparisons", "agreed"}; None for features.
        informed: whether Keras is more accurate than always predicting the most frequent class, by
            more than chance explains. Otherwise accuracy is not used: there is none to lose.
        rewritten: whether the graph was rewritten for speed; otherwise it was converted as it is.
        note: why the graph was not rewritten; "" if it was.
    """

    precision: str
    images: Amount
    agreement: float | None
    max_difference: float
    scale: float
    cosine: float | None
    error: float = 0.0
    comparisons: int | None = None
    accuracy: float | None = None
    keras_accuracy: float | None = None
    majority: float | None = None
    lost: int | None = None
    gained: int | None = None
    informed: bool = False
    rewritten: bool = True
    keras_classes: int | None = None
    file_classes: int | None = None
    weakest_class: dict[str, int] | None = None
    note: Text = ""
    recall: float | None = None

    def __str__(self) -> str:
        figures = [f"{self.images:,} images"]
        if self.accuracy is not None:
            figures.append(f"accuracy {self.accuracy:.2%} (Keras {self.keras_accuracy:.2%})")
        if self.agreement is not None:
            figures.append(f"the class of Keras on {self.agreement:.2%}")
        if self.recall is not None:
            what = "images" if self.comparisons in (None, self.images) else "patches"
            figures.append(f"{self.recall:.2%} of Keras' {NEIGHBOURS} nearest {what}")
        difference, scale = f"{self.max_difference:.2g}", f"{self.scale:.2g}"
        figures.append(f"largest difference of a score {difference} on a scale of {scale}")
        if self.keras_classes == 1 < self.images:
            figures.append("and Keras names one class only, so agreement proves little")
        return f"{self.precision}: {', '.join(figures)}"

    @property
    def drop(self) -> float | None:
        """Accuracy lost, in percentage points; None without labels."""
        return None if self.accuracy is None else 100 * (self.keras_accuracy - self.accuracy)

    @property
    def largest_drop(self) -> float | None:
        """The images exclude a larger drop than this, in points, with a confidence of 95%."""
        if self.lost is None:
            return None
        return 100 * significance.largest_loss(self.lost, self.gained, self.images)

    def images_needed(self, max_drop: float | None = None) -> int | None:
        """How many images are needed to exclude a drop of more than `max_drop` points.

        This assumes a file that loses nothing and changes as many predictions as this one. None
        without labels or if no loss is allowed.
        """
        if self.lost is None:
            return None
        changed = (self.lost + self.gained) / self.images
        return significance.images_needed(changed, min(self.allowed_drop(max_drop) / 100, 0.99))

    def allowed_drop(self, max_drop: float | None = None) -> float:
        """Points of accuracy that may be lost: `max_drop`, or the budget's if it is None."""
        if max_drop is not None:
            return not_negative("max_drop", max_drop)
        drop = precision_named(self.precision).budget.drop
        return DEFAULT_DROP if drop is None else drop

    def check(self, max_drop: float | None = None, budget: Budget | None = None) -> None:
        """Raises `ParityError` if a budget is exceeded.

        The budget limits disagreements with Keras' classes and differences from its scores. For
        each class that Keras predicts, the file must also agree on at least half of the images: a
        file that always predicts one class is refused, even if the other classes are rare.
        If labels are known and accuracy is used (see `informed`), a quantised file is also refused
        if the images prove that it loses more than `max_drop` points; in return, `max_drop` percent
        more disagreements are allowed. Proven means: chance explains it in fewer than 5 of 100
        cases.

        Args:
            max_drop: points of accuracy; None for the precision's own limit, `Budget.drop`.
            budget: None for the budget of the precision.
        """
        check_scale(self.scale, self.comparisons or self.images)
        if not np.isfinite(self.max_difference):
            raise ParityError(f"the {self.precision} file gives scores that are not finite.")
        budget, allowed = budget or precision_named(self.precision).budget, 0.0
        if self.informed and budget.drop is not None:
            allowed = self.allowed_drop(max_drop)
            self.check_drop(allowed)
        self._check_agreement(max(0.0, budget.agreement - allowed / 100))
        self._check_classes()
        self._check_scores(budget)

    def check_drop(self, max_drop: float) -> None:
        """Raises `ParityError` if the images prove a loss of more than `max_drop` points."""
        if significance.is_proven(self.lost, self.gained, self.images, max_drop / 100):
            raise ParityError(
                f"the {self.precision} file may lose {max_drop:g} points of accuracy. Received: "
                f"{self.drop:.2f} ({self.keras_accuracy:.2%} to {self.accuracy:.2%}); of "
                f"{self.images:,} images only Keras is right on {self.lost:,} and only the file on "
                f"{self.gained:,}, which proves a larger loss than allowed "
                f"({significance.CONFIDENCE:.0%} confidence)."
            )

    def notes(self, max_drop: float | None = None) -> list[str]:
        """Why the graph was not rewritten, and which loss of accuracy the images exclude."""
        graph = [f"converted as it is, without exact rewrites: {self.note}"] if self.note else []
        return graph + self.accuracy_notes(max_drop)

    def accuracy_notes(self, max_drop: float | None = None) -> list[str]:
        """Sentences that say which loss of accuracy the images exclude; none without labels."""
        if self.lost is None:  # older files have the accuracies alone
            return []
        if not self.informed:
            return [
                f"not judged: Keras is right on {self.keras_accuracy:.2%} of {self.images:,} "
                "images, not clearly more than always naming the most frequent class "
                f"({self.majority:.2%}); agreement and scores are judged instead"
            ]
        excluded = (
            f"a drop of up to {self.largest_drop:.2f} points cannot be excluded on "
            f"{self.images:,} images ({significance.CONFIDENCE:.0%} confidence)"
        )
        needed, allowed = self.images_needed(max_drop), self.allowed_drop(max_drop)
        exact = precision_named(self.precision).budget.drop is None
        if exact or self.largest_drop <= allowed or needed is None or needed <= self.images:
            return [excluded]
        return [
            f"{excluded}: too few to exclude more than {allowed:g}, which takes about {needed:,} "
            "even if nothing is lost"
        ]

    def to_dict(self, max_drop: float | None = None) -> dict[str, Any]:
        """The fields and the properties that are derived from them, as plain JSON values."""
        return dataclasses.asdict(self) | {
            "drop": self.drop,
            "largest_drop": self.largest_drop,
            "max_drop": self.allowed_drop(max_drop),
            "images_needed": self.images_needed(max_drop),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """The inverse of `to_dict`; a field that an older file lacks has its default.

        Raises:
            UsageError: only some of the figures that need labels are known.
        """
        verdict = msgspec.convert(values, cls)
        labelled = ("accuracy", "keras_accuracy", "majority", "lost", "gained")
        known = tuple(name for name in labelled if getattr(verdict, name) is not None)
        if known not in ((), labelled[:2], labelled):  # older files have the first two
            raise UsageError(
                f"expected all of {', '.join(labelled)}, or none. Received: {', '.join(known)}."
            )
        return verdict

    def _check_agreement(self, agreement: float) -> None:
        if self.agreement is None:
            return
        count = self.comparisons or self.images
        differing = round((1 - self.agreement) * count)
        # On few images, one or two near ties may be decided differently by chance.
        chance = significance.at_least(differing, count, 1 - agreement)
        if chance >= 1 - significance.CONFIDENCE:
            return
        tokens = f" tokens of {self.images:,}" if count != self.images else ""
        raise ParityError(
            f"the {self.precision} file must agree with Keras on {agreement:.1%} of "
            f"{count:,}{tokens} images. Received: {self.agreement:.1%}."
        )

    def _check_classes(self) -> None:
        if self.agreement in (None, 1.0) or self.weakest_class is None:
            return
        if self.file_classes == 1 < self.keras_classes:
            raise ParityError(
                f"the {self.precision} file predicts the same class for all {self.images:,} "
                f"images, while Keras predicts {self.keras_classes} classes."
            )
        count, agreed = self.weakest_class["comparisons"], self.weakest_class["agreed"]
        chance = significance.at_least(count - agreed, count, 1 - CLASS_AGREEMENT)
        if chance < 1 - significance.CONFIDENCE:
            raise ParityError(
                f"the {self.precision} file must agree with Keras on at least "
                f"{CLASS_AGREEMENT:.0%} of the images of each class. Received: {agreed} of {count} "
                f"for class {self.weakest_class['class']}."
            )

    def _check_scores(self, budget: Budget) -> None:
        if math.isinf(self.error):
            raise ParityError(ALL_SAME)
        if not self.error <= budget.error:
            raise ParityError(
                f"the scores of the {self.precision} file must vary between images as Keras' do, "
                f"with an error of at most {budget.error:g} of their standard deviation over "
                f"{self.images:,} images. Received: {self.error:.3g} (1 means the same scores for "
                "all images)."
            )
        if not self.max_difference <= budget.difference * self.scale:
            raise ParityError(
                f"the scores of the {self.precision} file may differ from Keras' by at most "
                f"{budget.difference * self.scale:.3g}, {budget.difference:g} of their scale. "
                f"Received: {self.max_difference:.3g}."
            )


def compare(
    precision: str,
    reference: np.ndarray,
    candidate: np.ndarray,
    targets: np.ndarray | None = None,
    output: str = "logits",
) -> Verdict:
    """Compares scores (n, ..., classes) of a file with those of its model.

    Args:
        precision: precision of the file: the name of a `Precision`.
        reference: the Keras model's scores.
        candidate: the file's scores for the same inputs.
        targets: the true classes (n,), of a single score 0 and 1; None if unknown. They are not
            used if each token has scores, because they are classes of images.
        output: what the arrays are, as `GraphOptions.output`.

    Raises:
        UsageError: the precision is unknown, the shapes differ, or a target is not a class.
    """
    reference, candidate = np.asarray(reference), np.asarray(candidate)
    targets = None if targets is None else np.asarray(targets)
    precision_named(precision)
    if reference.shape != candidate.shape or reference.ndim < 2 or not reference.size:
        raise UsageError(
            "expected scores (n, ..., classes) of the same inputs. Received: reference "
            f"{reference.shape}, candidate {candidate.shape}."
        )
    expected, actual = rows_of(reference), rows_of(candidate)
    scale = scale_of(expected)
    targets = targets if reference.ndim == 2 else None
    if not scores_classes(output):
        found = {"agreement": None}
        if output == "feature_map":
            places = np.linspace(0, len(expected) - 1, min(len(expected), _PATCHES)).astype(int)
            found |= _neighbours(expected[places], actual[places], None)
        elif reference.ndim == 2:
            found |= _neighbours(expected, actual, targets)
    else:
        answers = [answer_scores(rows, output == "logits") for rows in (expected, actual)]
        agree = _agree(*answers, _TIE * scale)
        found = {"agreement": float(agree.mean())} | _classes(*answers, agree)
        found |= {} if targets is None else _accuracies(*answers, targets)
    return Verdict(
        precision=precision,
        images=len(reference),
        max_difference=float(np.abs(actual - expected).max()),
        scale=scale,
        cosine=_cosine(expected, actual),
        error=_error(expected, actual, scale),
        comparisons=len(expected),
        **found,
    )


def _error(expected: np.ndarray, actual: np.ndarray, scale: float) -> float:
    variation = variation_of(expected)
    if variation <= SAME * scale:
        return math.inf
    return float(np.sqrt(np.mean((actual - expected) ** 2))) / variation


def _agree(expected: np.ndarray, actual: np.ndarray, tie: float) -> np.ndarray:
    """Whether the class that is predicted is Keras', or one that is as probable for Keras."""
    chosen = np.take_along_axis(expected, actual.argmax(-1)[:, None], -1)[:, 0]
    return chosen >= expected.max(-1) - tie


def _cosine(expected: np.ndarray, actual: np.ndarray) -> float | None:
    if expected.shape[-1] == 1:
        return None  # a single score has no direction but its sign, which agreement counts
    lengths = [np.linalg.norm(rows, axis=-1) for rows in (expected, actual)]
    both_zero = (lengths[0] == 0) & (lengths[1] == 0)  # equal, but without a defined cosine
    norms = lengths[0] * lengths[1]
    directed = np.isfinite(norms) & (norms > 0)
    dots = (expected * actual).sum(-1)
    cosines = np.divide(dots, norms, out=np.zeros_like(norms), where=directed)[~both_zero]
    return float(cosines.min()) if len(cosines) else None


def _classes(expected: np.ndarray, actual: np.ndarray, agree: np.ndarray) -> dict[str, Any]:
    named = expected.argmax(-1)
    counts = np.bincount(named, minlength=expected.shape[-1])
    agreed = np.bincount(named[agree], minlength=expected.shape[-1])
    classes = np.flatnonzero(counts)
    weakest = min(
        classes,
        key=lambda c: significance.at_least(counts[c] - agreed[c], counts[c], 1 - CLASS_AGREEMENT),
    )
    return {
        "keras_classes": len(classes),
        "file_classes": len(np.unique(actual.argmax(-1))),
        "weakest_class": {
            "class": int(weakest),
            "comparisons": int(counts[weakest]),
            "agreed": int(agreed[weakest]),
        },
    }


def _neighbours(
    expected: np.ndarray, actual: np.ndarray, targets: np.ndarray | None
) -> dict[str, Any]:
    """What the nearest other images or patches are by Keras' features and by the file's."""
    if len(expected) < _FEWEST or not np.isfinite(actual).all():
        return {}
    rows = [unit(each) for each in (expected, actual)]
    found = [nearest(each, each, NEIGHBOURS, themselves=True) for each in rows]
    same = [len(np.intersect1d(*each)) for each in zip(found[0][1], found[1][1], strict=True)]
    recall = {"recall": float(np.mean(same) / NEIGHBOURS)}
    if targets is None:
        return recall
    _check_targets(targets, len(expected))
    votes = [shares(cosines, targets[near], int(targets.max()) + 1) for cosines, near in found]
    return recall | _accuracies(*votes, targets)


def _accuracies(expected: np.ndarray, actual: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    count, classes = expected.shape
    _check_targets(targets, count)
    if not 0 <= targets.min() <= targets.max() < classes:
        raise UsageError(
            f"labels must be 0 to {classes - 1}. Received: {targets.min()} to {targets.max()}."
        )
    keras, file = (rows.argmax(-1) == targets for rows in (expected, actual))
    majority = float(np.bincount(targets).max() / count)
    chance = significance.at_least(int(keras.sum()), count, majority)
    return {
        "accuracy": float(file.mean()),
        "keras_accuracy": float(keras.mean()),
        "majority": majority,
        "lost": int((keras & ~file).sum()),
        "gained": int((file & ~keras).sum()),
        "informed": chance < 1 - significance.CONFIDENCE,
    }


def _check_targets(targets: np.ndarray, count: int) -> None:
    if targets.shape != (count,) or targets.dtype.kind not in "iu":
        raise UsageError(
            f"expected {count} labels, integers. Received: {targets.dtype} {targets.shape}."
        )
