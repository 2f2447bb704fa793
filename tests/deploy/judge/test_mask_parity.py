"""Judging files that give masks: which are refused, and what the images prove."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_vit.data.masks import NO_CLASS
from keras_vit.deploy import PRECISIONS, ParityError
from keras_vit.deploy.judge.mask_parity import compare_masks
from keras_vit.deploy.judge.significance import FEWEST
from keras_vit.mask_metrics import confusion_of, mean_iou

SIDE, CELLS, CLASSES = 32, 16, 3
QUANTISED = [row.name for row in PRECISIONS.values() if row.rules]


def true_masks(kind, count=24, seed=0):
    """Masks of two classes of discs: a tenth of the pixels, or most of them."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    masks = np.zeros((count, SIDE, SIDE), np.uint8)
    radius = 5 if kind == "unbalanced" else 12
    for mask in masks:
        for name in (1, 2):
            y, x = rng.uniform(radius / 2, SIDE - radius / 2, 2)
            mask[(rows - y) ** 2 + (columns - x) ** 2 < radius**2] = name
    return masks


def keras_scores(masks, seed=0):
    """Scores of cells (n, 16, 16, 3), as of a model that is right about most pixels."""
    hot = np.eye(CLASSES, dtype=np.float32)[masks]
    noise = np.random.default_rng(seed).normal(0, 0.5, (len(masks), CELLS, CELLS, CLASSES))
    return (6 * tf.image.resize(hot, (CELLS, CELLS), "area").numpy() + noise).astype(np.float32)


def as_output(cells, form):
    """The output of a file with these scores of cells."""
    if form == "scores":
        return tf.image.resize(cells, (SIDE // 2, SIDE // 2)).numpy()
    return tf.image.resize(cells, (SIDE, SIDE)).numpy().argmax(-1).astype(np.uint8)


FAULTS = {
    "background everywhere": lambda cells: np.broadcast_to(
        np.array([6.0, 0.0, 0.0], np.float32), cells.shape
    ),
    "shifted by a patch": lambda cells: np.roll(cells, 2, axis=2),  # of 4 pixels
    "mirrored": lambda cells: cells[:, :, ::-1],
    "rows for columns": lambda cells: cells.transpose(0, 2, 1, 3),
    "swapped classes": lambda cells: cells[..., [0, 2, 1]],
    "masks of other images": lambda cells: np.roll(cells, 1, axis=0),
    "a class left out": lambda cells: cells - np.array([0, 0, 100], np.float32),
}


@pytest.mark.parametrize("known", [True, False], ids=["with masks", "without masks"])
@pytest.mark.parametrize("form", ["scores", "class_map"])
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_files_are_refused(fault, kind, form, known):
    masks = true_masks(kind)
    cells = keras_scores(masks)
    output = as_output(FAULTS[fault](cells), form)
    for precision in QUANTISED:
        with pytest.raises(ParityError, match="file"):
            compare_masks(precision, cells, output, masks if known else None).check()


@pytest.mark.parametrize("form", ["scores", "class_map"])
@pytest.mark.parametrize("kind", ["balanced", "unbalanced"])
def test_a_good_file_passes(kind, form):
    masks = true_masks(kind)
    cells = keras_scores(masks)
    noise = np.random.default_rng(1).normal(0, 0.05, cells.shape)
    verdict = compare_masks("int8", cells, as_output(cells + noise, form), masks)
    verdict.check()
    assert verdict.informed
    assert verdict.keras_mean_iou > 0.8
    assert 0.97 < verdict.overlap < 1
    assert verdict.agreement > verdict.overlap
    assert -0.5 < verdict.drop_bounds[0] < verdict.drop < verdict.drop_bounds[1] < 0.5
    same = compare_masks("float32", cells, as_output(cells, form), masks)
    same.check()
    assert (same.agreement, same.overlap, same.max_difference) == (1, 1, 0)


@pytest.mark.parametrize("form", ["scores", "class_map"])
def test_the_figures_are_those_of_the_definitions(form):
    masks = true_masks("unbalanced", 9)
    masks[:, :5] = NO_CLASS
    cells = keras_scores(masks.clip(0, CLASSES - 1))
    output = as_output(cells + np.random.default_rng(1).normal(0, 0.5, cells.shape), form)
    verdict = compare_masks("int8", cells, output, masks)
    keras = tf.image.resize(cells, (SIDE, SIDE)).numpy().argmax(-1)
    file = tf.image.resize(output, (SIDE, SIDE)).numpy().argmax(-1) if form == "scores" else output
    for found, named in (("keras_", keras), ("", file)):
        confusion = confusion_of(masks, named, CLASSES)
        assert getattr(verdict, f"{found}mean_iou") == pytest.approx(mean_iou(confusion), abs=1e-12)
        right = (named == masks)[masks != NO_CLASS].mean()
        assert getattr(verdict, f"{found}accuracy") == pytest.approx(right, abs=1e-12)
    own = as_output(cells, "class_map" if form == "class_map" else "scores")
    named = [each if form == "class_map" else each.argmax(-1) for each in (own, output)]
    assert verdict.agreement == pytest.approx((named[0] == named[1]).mean(), abs=1e-12)
    assert verdict.overlap == pytest.approx(mean_iou(confusion_of(*named, CLASSES)), abs=1e-12)
    counted = confusion_of(masks, np.zeros_like(masks), CLASSES)
    weakest = verdict.weakest_class
    one, other = (each == weakest["class"] for each in named)
    assert weakest["comparisons"] == (one | other).sum()
    assert weakest["agreed"] == (one & other).sum()
    assert verdict.majority == pytest.approx(mean_iou(counted), abs=1e-12)
    if form == "class_map":
        largest = (named[0] != named[1]).mean((1, 2)).max()
        assert (verdict.max_difference, verdict.scale) == (pytest.approx(largest), 1)
    else:
        assert verdict.max_difference == pytest.approx(np.abs(own - output).max(), rel=1e-5)
        variation = np.sqrt(cells.reshape(-1, CLASSES).var(0).mean())
        error = np.sqrt(np.mean((own - output) ** 2)) / variation
        assert verdict.error == pytest.approx(error, rel=1e-3)


def test_few_images_refuse_no_good_file_for_a_class_of_a_few_pixels():
    masks = np.zeros((3, SIDE, SIDE), np.uint8)
    masks[:, 12:20, 12:20] = 1
    masks[0, 3, 3:8] = 2
    found = masks.copy()
    found[0, 3, 3:5] = 0  # an IoU of 0.6, and 0.86 in the mean
    verdict = compare_masks("dynamic", 6 * np.eye(CLASSES, dtype=np.float32)[masks], found)
    assert 0.8 < verdict.overlap < 0.9
    assert verdict.largest_overlap is None
    verdict.check()


def test_one_pixel_of_a_second_class_may_be_a_near_tie():
    masks = np.zeros((10, SIDE, SIDE), np.uint8)
    masks[0, 3, 3] = 1
    cells = 6 * np.eye(2, dtype=np.float32)[masks]
    verdict = compare_masks("int8", cells, np.zeros_like(masks))
    assert (verdict.keras_classes, verdict.file_classes) == (2, 1)
    dataclasses.replace(verdict, overlap=None).check()


def test_masks_without_a_class_are_no_labels():
    cells = keras_scores(true_masks("balanced"))
    none = np.full((len(cells), SIDE, SIDE), NO_CLASS, np.uint8)
    verdict = compare_masks("int8", cells, as_output(cells, "scores"), none)
    assert verdict == compare_masks("int8", cells, as_output(cells, "scores"))


def test_scores_that_are_not_finite_or_huge_are_refused_as_such():
    cells = keras_scores(true_masks("balanced"))
    for value, message in ((np.nan, "are not finite"), (1e30, "with an error of at most")):
        output = as_output(cells, "scores")
        output[-1, 2, 2, 0] = value
        with pytest.raises(ParityError, match=message):
            compare_masks("int8", cells, output).check()


def test_the_class_with_the_number_of_no_class_is_one_of_many():
    cells = np.random.default_rng(0).normal(size=(9, 4, 4, 300)).astype(np.float32)
    cells[..., 255] += 9
    verdict = compare_masks("float32", cells, cells)
    verdict.check()
    assert (verdict.keras_classes, verdict.comparisons) == (1, 9 * 16)


def test_a_rare_class_counts_as_much_as_a_frequent_one():
    masks = np.zeros((20, SIDE, SIDE), np.uint8)
    masks[:, 12:20, 12:20], masks[:, 4:8, 4:8] = 1, 2
    wider = masks.copy()
    wider[:, 4:9, 4:9] = 2  # 16 pixels to 25 of 1,024: an IoU of 0.64
    cells = 6 * np.eye(CLASSES, dtype=np.float32)[masks]
    verdict = compare_masks("int8", cells, wider)
    assert verdict.agreement > 0.99
    with pytest.raises(ParityError, match="must have a mean IoU of 95.0% with Keras'. Received: 8"):
        verdict.check()


def test_an_image_that_is_wrong_is_not_hidden_among_others():
    masks = true_masks("balanced", 40)
    cells = 6 * np.eye(CLASSES, dtype=np.float32)[masks]
    wrong = masks.copy()
    wrong[0] = 2 - wrong[0]
    verdict = compare_masks("int8", cells, wrong)
    with pytest.raises(ParityError, match=r"at most 20.00% of the pixels of an image another"):
        dataclasses.replace(verdict, largest_overlap=1.0).check()


def test_ties_are_decided_either_way():
    cells = keras_scores(true_masks("balanced"))
    cells[..., 2] = cells[..., 1] - 3e-6 * np.ptp(cells)
    output = as_output(cells, "scores")
    named = np.where(output.argmax(-1) == 1, 2, output.argmax(-1)).astype(np.uint8)
    verdict = compare_masks("float32", cells, output)
    assert compare_masks("float32", output, named).agreement == verdict.agreement == 1


def test_what_the_resolution_loses_counts_as_lost():
    masks = true_masks("unbalanced")
    cells = keras_scores(masks)
    coarse = tf.image.resize(cells, (4, 4)).numpy()
    verdict = compare_masks("float16", cells, coarse, masks)
    assert verdict.agreement == verdict.overlap == 1  # at that resolution
    assert verdict.drop > 10
    with pytest.raises(ParityError, match="images prove a loss of"):
        verdict.check()
    verdict.check(max_drop=90)


def test_few_images_prove_nothing_of_the_drop():
    masks = true_masks("balanced", FEWEST)
    cells = keras_scores(masks)
    lossy = compare_masks("int8", cells, as_output(0.9 * cells, "scores"), masks)
    few = compare_masks("int8", *(each[1:] for each in (cells, as_output(cells, "scores"), masks)))
    assert lossy.drop_bounds is not None
    assert few.drop_bounds is None
    assert few.largest_drop == 100
    assert few.notes() == [f"no drop can be excluded on 7 images: it takes {FEWEST} or more"]
    few.check()


def test_a_drop_that_is_allowed_is_proven_to_be_smaller():
    masks = true_masks("balanced", 40)
    cells = keras_scores(masks)
    wrong = cells.copy()
    wrong[:, :, :3] = np.roll(wrong[:, :, :3], 1, axis=-1)  # the classes of two columns in sixteen
    verdict = compare_masks("int4", cells, as_output(wrong, "class_map"), masks)
    low, high = verdict.drop_bounds
    assert 0 < low < verdict.drop < high
    verdict.check_drop(low + 0.01)
    with pytest.raises(ParityError, match=f"prove a loss of {low:.2f} points or more"):
        verdict.check_drop(low - 0.01)
    [note] = verdict.notes(high + 0.01)
    assert f"a drop of up to {high:.2f} points of mean IoU cannot be excluded on 40 images" in note
    assert verdict.images_needed(high - low) < verdict.images_needed((high - low) / 4)


def test_a_model_that_knows_nothing_is_judged_by_agreement():
    masks = true_masks("unbalanced")
    cells = keras_scores(masks, 3)[::-1]  # masks of other images
    verdict = compare_masks("int8", cells, as_output(cells, "scores"), masks)
    assert not verdict.informed
    assert verdict.notes()[0].startswith("not judged: Keras' mean IoU is ")
    verdict.check()
