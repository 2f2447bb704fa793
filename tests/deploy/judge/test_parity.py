"""Judging files: which ones pass, which are refused, and what the images prove."""

import dataclasses
import json
import math
import re
from contextlib import nullcontext

import numpy as np
import pytest

from keras_vit import UsageError, deploy
from keras_vit.deploy import ParityError, Verdict, compare
from keras_vit.deploy.judge.verdict import HALF_PRECISION
from keras_vit.deploy.reference_scores import check_reference

SCORES = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
BUDGETS = {precision.name: precision.budget for precision in deploy.PRECISIONS.values()}
PRECISIONS = list(BUDGETS)


def scores_for(named, classes=10, seed=0):
    """Scores that vary between images; the largest of each row is that of its predicted class."""
    named = np.asarray(named)
    scores = np.random.default_rng(seed).uniform(-2, 2, (len(named), classes))
    scores[np.arange(len(named)), named] = 3 + np.random.default_rng(seed).random(len(named))
    return scores


def near_ties(named, wrong, classes=10):
    """Scores that name these classes, and those of a file that names the next ones where wrong."""
    reference = scores_for(named, classes)
    rows, others = np.flatnonzero(wrong), (named[wrong] + 1) % classes
    candidate, best = reference.copy(), reference[wrong].max(axis=-1)
    reference[rows, others] = best - 0.01
    candidate[rows, others] = best + 0.01
    return reference, candidate


def by_classes(precision, named, wrong, classes=10):
    """The verdict on near ties without their scores."""
    found = compare(precision, *near_ties(named, wrong, classes))
    return dataclasses.replace(found, max_difference=0.0, error=0.0)


@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_one_score_is_judged_as_that_of_two_classes(output, rng):
    targets = np.arange(200) % 2
    logits = rng.normal(4.0 * targets - 2)[:, None]
    noisy = logits + rng.normal(0, 0.3, logits.shape)
    if output == "logits":
        one = logits, noisy
        two = [np.concatenate([np.zeros_like(z), z], axis=1) for z in one]
    else:
        one = [1 / (1 + np.exp(-z)) for z in (logits, noisy)]
        two = [np.concatenate([1 - p, p], axis=1) for p in one]
    actual, expected = (compare("int8", *scores, targets, output) for scores in (one, two))
    own = dict.fromkeys(("max_difference", "scale", "cosine", "error"))
    assert actual.to_dict() | own == expected.to_dict() | own
    assert actual.informed
    assert actual.agreement < 1
    assert actual.cosine is None
    with pytest.raises(UsageError, match="labels must be 0 to 1. Received: 1 to 2"):
        compare("int8", *one, targets + 1, output)


def test_a_file_that_always_says_not_is_refused():
    logits = np.resize([-3.0, -2.0, 2.0, 3.0], 100)[:, None]
    found = compare("int8", logits, -np.abs(logits))
    with pytest.raises(ParityError, match="agree with Keras on"):
        found.check()
    with pytest.raises(ParityError, match="predicts the same class for all 100 images"):
        dataclasses.replace(found, agreement=0.99).check()


def test_a_verdict_is_printed_as_a_line():
    changed = np.add(SCORES, [[0, 0.25, 0], [0, 0, 0]])
    assert str(compare("int8", SCORES, changed, np.array([2, 1]))) == (
        "int8: 2 images, accuracy 50.00% (Keras 50.00%), the class of Keras on 100.00%, "
        "largest difference of a score 0.25 on a scale of 1"
    )
    same = str(compare("int8", SCORES[[0, 0]], SCORES[[0, 0]] + [[0], [0.01]]))
    assert same.endswith(", and Keras names one class only, so agreement proves little")


def test_counts_agreement_difference_and_accuracy():
    found = compare("float32", SCORES, [[1.0, 2.0, 3.5], [1.0, 2.0, 1.5]], [2, 0])
    assert (found.agreement, found.max_difference, found.scale) == (0.5, 2.0, 1.0)
    assert (found.accuracy, found.keras_accuracy, found.drop) == (0.5, 1.0, 50.0)
    assert (found.lost, found.gained, found.majority) == (1, 0, 0.5)
    assert 0.7 < found.cosine < 0.9
    # Root mean square of 0.5, 2, 0.5 and three zeros, by the spread of -1, 0 and 1 over two images.
    assert found.error == pytest.approx(math.sqrt(4.5 / 6) / math.sqrt(4 / 3))


@pytest.mark.parametrize("right", [0.5, 0.8, 0.9, 0.93, 0.97, 1.0])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_constant_and_shuffled_files_are_refused_on_imbalanced_labels(precision, right):
    generator = np.random.default_rng(3)
    targets = (generator.random(400) < 0.1).astype(int)
    named = np.where(generator.random(400) < right, targets, 1 - targets)
    reference = scores_for(named, 2)
    constant = np.repeat(reference[named == 0][:1], 400, axis=0)
    assert compare(precision, reference, constant, targets).accuracy == pytest.approx(0.9, abs=0.03)
    for candidate in (constant, generator.permutation(reference)):
        for labels, max_drop in ((targets, None), (targets, 10.0), (targets, 100.0), (None, None)):
            with pytest.raises(ParityError):
                compare(precision, reference, candidate, labels).check(max_drop)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_constant_file_is_refused_on_two_images_too(precision):
    reference = scores_for([0, 0])  # Keras and the file predict one class for both
    with pytest.raises(ParityError, match="must vary between images as Keras' do"):
        compare(precision, reference, [reference.mean(axis=0)] * 2).check()


def lost(precision, count, images, gained=0):
    """A verdict: Keras alone is right on `count` images and the file alone on `gained`."""
    targets, places = np.arange(images) % 10, np.arange(images)
    by_file = places >= images - gained
    named = (targets - by_file) % 10
    return compare(precision, *near_ties(named, by_file | (places < count)), targets)


@pytest.mark.parametrize(
    ("verdict", "max_drop", "message"),
    [
        (("int8", 1, 100), None, None),
        (("int8", 1, 100), 0.0, None),
        (("int8", 2, 100), None, None),
        (("int8", 10, 100), None, "the int8 file may lose 0.5 points"),
        (
            *(("int8", 10, 200, 1), None),
            "the int8 file may lose 0.5 points of accuracy. Received: 4.50 (99.50% to 95.00%); of "
            "200 images only Keras is right on 10 and only the file on 1, which proves a larger "
            "loss than allowed (95% confidence).",
        ),
        (("int8", 10, 100), 0.0, "may lose 0 points"),
        (("int8", 10, 100), 10.0, None),
        (("int8", 0, 100, 4), None, None),
        (("int8-full", 4, 100, 4), None, None),
        (("int8", 20, 1000), None, "of 1,000 images only Keras is right on 20"),
        (("int4", 20, 1000), None, None),
        (("int4", 30, 1000), None, "the int4 file may lose 1.5 points"),
        (("float32", 1, 1000), 100.0, "the float32 file must agree with Keras on 100.0% of"),
    ],
)
def test_a_file_is_refused_if_the_images_prove_a_loss(verdict, max_drop, message):
    if message is None:
        lost(*verdict).check(max_drop)
    else:
        with pytest.raises(ParityError, match=re.escape(message)):
            lost(*verdict).check(max_drop)


def test_budgets_are_those_that_were_measured():
    budgets = BUDGETS | {"half precision": HALF_PRECISION}
    found = {name: (b.agreement, b.difference, b.error) for name, b in budgets.items()}
    assert found == {
        "float32": (1.0, 1e-4, 1e-3),
        "float16": (0.99, 2e-2, 1e-2),
        "half precision": (0.99, 2e-2, 1e-2),
        "dynamic": (0.97, 0.2, 0.4),
        "int8": (0.95, 0.5, 0.4),
        "auto": (0.95, 0.5, 0.4),
        "int16x8": (0.97, 0.2, 0.4),
        "int8-full": (0.90, 0.5, 0.5),
        "int4": (0.80, 0.8, 0.6),
    }


def test_notes_say_which_drop_the_images_cannot_exclude():
    [few] = lost("int8", 1, 100).notes()
    assert few.startswith("a drop of up to 4.36 points cannot be excluded on 100 images (95% conf")
    assert few.endswith(
        ": too few to exclude more than 0.5, which takes about 1,302 even if nothing is lost"
    )
    assert lost("int8", 1, 100).largest_drop == pytest.approx(4.36, abs=0.01)
    assert lost("int8", 0, 1000).notes() == [
        "a drop of up to 0.27 points cannot be excluded on 1,000 images (95% confidence)"
    ]
    assert "too few" not in lost("int8", 1, 100).notes(max_drop=5.0)[0]
    assert "too few" not in lost("float16", 0, 100).notes()[0]  # its scores prove it
    assert compare("int8", SCORES, SCORES).notes() == []


def informed(right, targets, classes=2):
    """Whether accuracy is used if Keras is right on the first images only, this many of them."""
    named = (targets + (np.arange(len(targets)) >= right)) % classes
    scores = scores_for(named, classes)
    return compare("int8", scores, scores, targets).informed


def test_accuracy_is_used_if_keras_clearly_beats_the_most_frequent_class():
    ten, rare = np.arange(100) % 10, (np.arange(1000) % 10 == 0).astype(int)
    assert [informed(right, ten, 10) for right in (0, 10, 15, 16, 90)] == [0, 0, 0, 1, 1]
    # The most frequent class has 90 of 100 images: chance reaches 95 in 6 of 100 draws.
    assert [informed(right, rare[:100]) for right in (50, 90, 94, 95, 96)] == [0, 0, 0, 0, 1]
    assert [informed(right, rare) for right in (900, 910, 920)] == [0, 0, 1]
    assert not informed(100, 0 * ten)  # with only one class, every model is right
    assert not informed(2, ten[:2])
    assert not informed(1, ten[:1], 3)


def test_without_informative_accuracy_agreement_and_scores_decide():
    places = np.arange(100)
    targets = (places < 10).astype(int)
    wrong = (places >= 20) & (places < 40)
    found = compare("int8", *near_ties(np.roll(targets, 5), wrong, 2), targets)
    assert found.drop == pytest.approx(20)
    assert not found.informed
    assert found.notes() == [
        "not judged: Keras is right on 90.00% of 100 images, not clearly more than always naming "
        "the most frequent class (90.00%); agreement and scores are judged instead"
    ]
    message = "the int8 file must agree with Keras on 95.0% of 100 images. Received: 80.0%"
    with pytest.raises(ParityError, match=message):
        found.check(max_drop=100)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_budgets_apply_to_every_precision_with_and_without_labels(precision):
    targets = np.arange(500) % 10
    scores, budget = scores_for(targets), BUDGETS[precision]
    for labels, max_drop in ((targets, None), (targets, 100), (None, None)):
        verdict = compare(precision, scores, scores, labels)
        allowed = budget.difference * verdict.scale
        for error, difference, message in (
            (0.999, 0.999, None),
            (1.001, 0.999, "must vary between images as Keras' do, with an error of at most"),
            (0.999, 1.001, r"may differ from Keras' by at most .* of their scale"),
        ):
            figures = {"error": error * budget.error, "max_difference": difference * allowed}
            with pytest.raises(ParityError, match=message) if message else nullcontext():
                dataclasses.replace(verdict, **figures).check(max_drop)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_low_agreement_is_refused_unless_chance_explains_it(precision):
    named, places = np.arange(1000) % 10, np.arange(1000)
    expected = round((1 - BUDGETS[precision].agreement) * 1000)
    by_classes(precision, named, places < expected).check()
    beyond = expected + 3.5 * math.sqrt(expected) + 1  # more than three standard deviations
    with pytest.raises(ParityError, match=f"the {precision} file must agree with Keras on"):
        by_classes(precision, named, places < math.ceil(beyond)).check()


def test_one_near_tie_in_a_few_images_is_forgiven_but_not_in_float32():
    named = np.arange(10) % 3
    one, four = (near_ties(named, np.arange(10) < count) for count in (1, 4))
    compare("int8", *one).check()
    with pytest.raises(ParityError, match="95.0% of 10 images. Received: 60.0%"):
        compare("int8", *four).check()
    with pytest.raises(ParityError, match="100.0% of 10 images. Received: 90.0%"):
        compare("float32", *one).check()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("images", "labelled"), [(20, True), (20, False), (2000, True)])
def test_one_answer_is_refused_although_its_scores_are_near(precision, images, labelled):
    # Keras is nearly undecided where it predicts the rare class; the file decides differently.
    named = (np.arange(images) % 10 == 0).astype(int)
    reference, candidate = near_ties(named, named == 1, 2)
    targets = named if labelled else None
    compare(precision, reference, reference, targets).check(100.0)
    with pytest.raises(ParityError):
        compare(precision, reference, candidate, targets).check(100.0)


def test_a_file_that_misses_one_class_of_many_is_refused():
    named = np.arange(1000) % 100  # ten images of each class
    wrong = by_classes("int8", named, named == 7, 100)
    assert wrong.weakest_class == {"class": 7, "comparisons": 10, "agreed": 0}
    with pytest.raises(ParityError, match="50% of the images of each class. Received: 0 of 10 for"):
        wrong.check()
    by_classes("int8", named, (named == 7) & (np.arange(1000) < 500), 100).check()


def test_ties_count_as_agreement():
    zeros = np.zeros((4, 3))
    noise = np.random.default_rng(0).normal(0, 1e-9, (4, 3))
    assert compare("float32", zeros, zeros).agreement == 1
    assert compare("float32", zeros + 1, zeros + 1 + noise).agreement == 1


def test_tokens_are_counted_if_every_token_has_scores():
    named = np.arange(60) % 10
    nine, one = (near_ties(named, np.arange(60) < count) for count in (9, 1))
    tokens = (3, 20, 10)  # images, tokens, classes
    found = compare("int8", *(x.reshape(tokens) for x in nine), np.arange(3))
    assert (found.images, found.comparisons, found.agreement) == (3, 60, 0.85)
    assert (found.accuracy, found.lost, found.informed) == (None, None, False)
    message = "agree with Keras on 95.0% of 60 tokens of 3 images. Received: 85.0%"
    with pytest.raises(ParityError, match=message):
        found.check()
    # One token of sixty is less than one of three images.
    with pytest.raises(ParityError, match="100.0% of 60 tokens of 3 images. Received: 98.3%"):
        compare("float32", *(x.reshape(tokens) for x in one)).check()


def test_zero_scores_have_no_cosine_of_one():
    reference = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert compare("int8", reference, np.zeros((2, 2))).cosine == 0
    assert compare("int8", np.array([[0.0, 0.0], [2.0, 1.0]]), reference).cosine == 0
    # Two zero vectors are equal but have no cosine, so only the other images count.
    both = np.array([[0.0, 0.0], [2.0, 1.0]])
    assert compare("int8", both, both).cosine == pytest.approx(1)
    assert compare("int8", np.zeros((2, 2)), np.zeros((2, 2))).cosine is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    found = SCORES.copy()
    found[0, 0] = bad
    assert compare("int8", SCORES, found).cosine <= 0
    with pytest.raises(ParityError, match="not finite"):
        compare("int8", SCORES, found).check()
    with pytest.raises(ParityError, match="not finite"):
        compare("int8", SCORES, found, np.array([2, 0])).check(max_drop=100)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES * np.nan, "Keras' own scores are not finite"),
        (np.array([[0.5]]), "compare on two images or more"),
        # They differ between classes, but are the same for all images.
        (np.linspace(SCORES[0], SCORES[0] + 1e-7, 20), "Keras' scores are the same for all images"),
    ],
    ids=["NaN", "one score", "same for all images"],
)
def test_useless_scores_of_keras_are_refused(scores, message):
    for act in (lambda: check_reference(scores), compare("float32", scores, scores).check):
        with pytest.raises(ParityError, match=message):
            act()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("int-8", SCORES, SCORES), "precision must be one of float32, float16"),
        (("int8", SCORES, SCORES[:1]), "Received: reference (2, 3), candidate (1, 3)"),
        (("int8", SCORES[0], SCORES[0]), "expected scores (n, ..., classes) of the same inputs"),
        (
            ("int8", SCORES, SCORES, np.arange(3)),
            "expected 2 labels, integers. Received: int64",
        ),
        (("int8", SCORES, SCORES, np.array([0, 3])), "labels must be 0 to 2. Received: 0 to 3"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(arguments, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        compare(*arguments)


def test_a_verdict_survives_json():
    verdict = lost("int4", 1, 100)
    values = json.loads(json.dumps(verdict.to_dict()))
    assert Verdict.from_dict(values) == verdict
    del values["note"]  # as in bundles that were written without it
    assert Verdict.from_dict(values) == verdict
    with pytest.raises(UsageError, match="or none. Received: accuracy, keras_accuracy, m"):
        Verdict.from_dict(values | {"lost": None})
    assert (values["max_drop"], values["lost"], values["gained"]) == (1.5, 1, 0)
    assert values["drop"] == pytest.approx(1)
    assert values["largest_drop"] == verdict.largest_drop > 4
    assert values["images_needed"] == verdict.images_needed() > 100
    assert lost("int4", 1, 100).to_dict(max_drop=0)["images_needed"] is None


def test_a_damaged_head_is_refused_whatever_the_agreement(rng):
    scores = rng.normal(0, 1, (3, 10))
    check_reference(scores)
    for largest, message in (
        (1e30, "scores may be at most 1.8e.19, .* Received: .*e.30; are weights damaged"),
        (1e8, "score 4 of Keras varies .*e.07 times as much as any other"),
    ):
        with pytest.raises(ParityError, match=message):
            check_reference(scores * np.where(np.arange(10) == 4, largest, 1))


def test_scores_that_are_constant_on_purpose_are_compared(rng):
    scores = rng.normal(0, 1, (20, 2))
    scores[:, 0] = 0  # the class that the other is compared with
    check_reference(scores)
    check_reference(rng.normal(0, 1, (20, 1)))
    compare("float32", SCORES[:1], SCORES[:1]).check()  # one image cannot vary


def test_features_are_judged_by_which_images_are_nearest(rng):
    targets = np.arange(60) % 3
    keras = np.eye(3)[targets] * 3 + rng.normal(size=(60, 3))
    file = keras + 0.5 * rng.normal(size=(60, 3))
    found = compare("int8", keras, 7 * file, targets, "features")  # lengths do not matter
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (keras, file)]
    near, right = [], []
    for rows in unit:
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2)
        near.append(np.argsort(-cosines)[:, :10])
        votes = np.exp(np.take_along_axis(cosines, near[-1], 1) / 0.07)
        named = [np.bincount(targets[i], v).argmax() for i, v in zip(near[-1], votes, strict=True)]
        right.append(np.array(named) == targets)
    recall = np.mean([len({*a} & {*b}) / 10 for a, b in zip(*near, strict=True)])
    assert 0.3 < recall < 0.9
    assert found.recall == pytest.approx(recall)
    assert (found.keras_accuracy, found.accuracy) == tuple(each.mean() for each in right)
    assert (found.lost, found.gained) == (
        (right[0] & ~right[1]).sum(),
        (right[1] & ~right[0]).sum(),
    )
    assert (found.agreement, found.informed) == (None, True)
    assert f"{recall:.2%} of Keras' 10 nearest images" in str(found)
    unlabelled = compare("int8", keras, file, output="features")
    assert (unlabelled.recall, unlabelled.accuracy) == (found.recall, None)
    for wrong in (targets[1:], targets / 1):
        with pytest.raises(UsageError, match="expected 60 labels, integers"):
            compare("int8", keras, file, wrong, "features")
    with pytest.raises(UsageError, match="labels must be 0 to 1. Received: -1 to 1"):
        compare("int8", keras, file, targets - 1, "features")
    few = compare("int8", keras[:39], file[:39], targets[:39], "features")
    assert (few.recall, few.accuracy) == (None, None)
    lost = compare("int8", keras, rng.permutation(keras), targets, "features")
    with pytest.raises(ParityError, match="the int8 file may lose 0.5 points of accuracy"):
        lost.check_drop(0.5)


def test_features_of_tokens_and_those_that_are_not_finite_have_no_neighbours(rng):
    tokens = rng.normal(size=(50, 4, 3))
    assert compare("int8", tokens, tokens, output="features").recall is None
    rows = tokens[:, 0]
    broken = np.where(np.arange(50)[:, None] == 7, np.nan, rows)
    with pytest.raises(ParityError, match="scores that are not finite"):
        compare("int8", rows, broken, output="features").check()
