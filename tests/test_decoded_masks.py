"""The class of each pixel of a picture: TensorFlow's resize, crops, class maps, what is refused."""

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import UsageError
from keras_vit.decoded_masks import classes_at, shares_of

INPUT = keras_vit.Preprocessing(32, 48)


def smooth(rng, *shape):
    """Scores with regions of one class, and borders between them."""
    coarse = rng.normal(0, 3, (1, 4, 5, shape[-1])).astype(np.float32)
    noise = rng.normal(0, 0.1, shape).astype(np.float32)
    return tf.image.resize(coarse, shape[:2], "bicubic")[0].numpy() + noise


@pytest.mark.parametrize("size", [(80, 96), (33, 101), (20, 24), (7, 9), (1, 1)])
def test_scores_are_resized_as_by_tensorflow(rng, size):
    scores = smooth(rng, 20, 24, 6)
    resized = tf.image.resize(scores, size).numpy()
    found, expected = classes_at(scores, size), resized.argmax(-1)
    assert found.dtype == np.uint8
    best = np.sort(resized, axis=-1)
    differs = found != expected
    assert (best[..., -1] - best[..., -2])[differs].max(initial=0) < 1e-5  # rounding of equal ones
    assert differs.mean() < 0.01
    one_size = np.unique(classes_at(scores, (20, 24)) == scores.argmax(-1))
    assert one_size.tolist() == [True]


def test_large_pictures_are_computed_in_parts(rng, monkeypatch):
    scores = smooth(rng, 20, 24, 6)
    whole = classes_at(scores, (80, 96))
    monkeypatch.setattr("keras_vit.decoded_masks._MOST_SCORES", 100)
    np.testing.assert_array_equal(classes_at(scores, (80, 96)), whole)


def test_the_first_of_equal_scores_counts():
    assert classes_at(np.zeros((2, 2, 3), np.float32), (5, 4)).tolist() == [[0] * 4] * 5


def test_a_class_map_is_enlarged_to_the_nearest_pixel(rng):
    classes = rng.integers(0, 5, (3, 4), np.uint8)
    expected = classes.repeat(4, 0).repeat(3, 1)
    [found] = keras_vit.decode_masks(classes[None], INPUT, [(12, 12)])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(classes_at(classes, (7, 11)), nearest(classes, (7, 11)))


def nearest(classes, size):
    rows, columns = (
        (np.arange(n) + 0.5) * m // n for n, m in zip(size, classes.shape, strict=True)
    )
    return classes[np.ix_(rows.astype(int), columns.astype(int))]


def test_pixels_that_the_model_does_not_see_have_no_class(rng):
    cropped = keras_vit.Preprocessing(30, 30, crop=0.75)
    scores = smooth(rng, 10, 10, 4)[None]
    [mask] = keras_vit.decode_masks({"scores": scores}, cropped, sizes=[(40, 80)])
    inside = mask[5:35, 25:55].copy()  # three quarters of the short side, in the middle
    np.testing.assert_array_equal(inside, classes_at(scores[0], (30, 30)))
    mask[5:35, 25:55] = 255
    assert (mask == 255).all()
    assert shares_of(mask, list("abcd")) == []
    [whole] = keras_vit.decode_masks(scores, cropped)
    np.testing.assert_array_equal(whole, inside)


def test_shares_are_of_the_pixels_with_a_class():
    mask = np.array([[1, 1, 1, 0], [3, 3, 255, 0]], np.uint8)
    expected = [("b", 3 / 7), ("a", 2 / 7), ("d", 2 / 7)]
    assert shares_of(mask, ("a", "b", "c", "d")) == expected
    many = [str(i) for i in range(200)]
    equal = np.arange(200, dtype=np.uint8)[None].repeat(2, 0)
    assert [label for label, _ in shares_of(equal, many)] == many
    with pytest.raises(UsageError, match="class 3, and there are names of 3 classes"):
        shares_of(mask, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("predictions", "sizes", "message"),
    [
        (np.zeros((2, 5), np.float32), None, r"must be scores .*Received: float32 \(2, 5\)"),
        (np.zeros((2, 5, 5), np.float32), None, r"class maps, uint8 .*Received: float32 \(2, 5, 5"),
        ({"boxes": 1}, None, "must be scores"),
        (np.zeros((1, 2, 2, 256), np.float32), None, "255 classes at most. Received: 256"),
        (np.full((1, 2, 2, 3), np.nan, np.float32), None, "finite"),
        (np.zeros((2, 2, 2, 3), np.float32), [(4, 4)], "each of the 2 pictures"),
        (np.zeros((1, 2, 2, 3), np.float32), [(4, 4, 3)], "must be .height, width."),
        (np.zeros((1, 2, 2, 3), np.float32), [(4, 0)], "must be .height, width."),
        (np.zeros((1, 2, 2, 3), np.float32), (4, 4), "must be .height, width."),
    ],
)
def test_what_is_no_mask_is_refused(predictions, sizes, message):
    with pytest.raises(UsageError, match=message):
        keras_vit.decode_masks(predictions, INPUT, sizes)
