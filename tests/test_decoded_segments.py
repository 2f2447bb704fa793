"""Segments and classes of EoMT's queries, as transformers' image processor computes them."""

import types

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit.decoded_segments import Segment

PADS = keras_vit.Preprocessing(32, 32, pad=True)
STRETCHES = keras_vit.Preprocessing(32, 32)
CASES = [("transformers", 0), ("transformers", 1), ("transformers_dinov3", 0)]
CASES += [("transformers_dinov3", 1)]


@pytest.fixture(params=CASES)
def case(request, fixtures):
    """Predictions, the size of a picture, and what transformers makes of them."""
    kind, i = request.param
    arrays = np.load(fixtures / "eomt" / kind / "io.npz")
    masks = arrays["post/mask_logits"][i : i + 1].transpose(0, 2, 3, 1)
    predictions = {"masks": masks, "classes": arrays["post/class_logits"][i : i + 1]}
    names = ("semantic", "panoptic", "instance", "panoptic{}.segments", "instance{}.segments")
    names = (name if "{}" in name else f"{name}{{}}" for name in names)
    expected = {name.replace("{}", ""): arrays[f"post/{name.format(i)}"] for name in names}
    return predictions, [arrays["post/target_sizes"][i]], expected


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("panoptic", {"threshold": 0.4, "overlap_threshold": 0.3, "stuff_classes": [0]}),
        ("instance", {"threshold": 0.3}),
    ],
)
def test_segments_equal_transformers(case, kind, options):
    predictions, sizes, expected = case
    [found] = keras_vit.decode_segments(predictions, PADS, sizes, kind=kind, **options)
    assert found.ids.dtype == np.int32
    np.testing.assert_array_equal(found.ids, expected[kind])
    classes, scores = zip(*((each.class_index, each.score) for each in found.segments), strict=True)
    ids, indices, others = expected[f"{kind}.segments"].T
    assert [*ids] == [*range(len(classes))]
    np.testing.assert_array_equal(classes, indices)
    np.testing.assert_allclose(scores, others, atol=2e-6)


def test_classes_of_pixels_equal_transformers(case):
    predictions, sizes, expected = case
    [found] = keras_vit.decode_masks(predictions, STRETCHES, sizes)
    np.testing.assert_array_equal(found, expected["semantic"])


@pytest.mark.parametrize("kind", ["panoptic", "instance"])
def test_large_pictures_are_computed_in_bands(case, kind, monkeypatch):
    predictions, sizes, _ = case
    whole = keras_vit.decode_segments(predictions, PADS, sizes, kind=kind, threshold=0.2)
    classes = keras_vit.decode_masks(predictions, PADS, sizes)
    monkeypatch.setattr("keras_vit.decoded_segments._MOST_VALUES", 700)
    [found] = keras_vit.decode_segments(predictions, PADS, sizes, kind=kind, threshold=0.2)
    np.testing.assert_array_equal(found.ids, whole[0].ids)
    assert [each[:2] for each in found.segments] == [each[:2] for each in whole[0].segments]
    scores, others = ([each.score for each in of.segments] for of in (found, whole[0]))
    assert scores == pytest.approx(others, abs=1e-6)
    np.testing.assert_array_equal(keras_vit.decode_masks(predictions, PADS, sizes), classes)


def square(*boxes, size=8):
    """Masks of a picture (1, size, size, queries), each a box (top, left, bottom, right)."""
    masks = np.full((1, size, size, len(boxes)), -9, np.float32)
    for i, (top, left, bottom, right) in enumerate(boxes):
        masks[0, top:bottom, left:right, i] = 9
    return masks


def classes(*rows):
    return np.float32([rows])


CAT, DOG, NOTHING = (9, 0, 0), (0, 9, 0), (0, 0, 9)


def test_stuff_is_one_segment_and_things_are_several():
    predictions = {
        "masks": square((0, 0, 4, 4), (4, 4, 8, 8), (0, 4, 4, 8)),
        "classes": classes(CAT, CAT, NOTHING),
    }
    model = keras_vit.Preprocessing(8, 8)
    [things] = keras_vit.decode_segments(predictions, model)
    assert sorted(np.unique(things.ids)) == [-1, 0, 1]
    assert len(things.segments) == 2
    [stuff] = keras_vit.decode_segments(predictions, model, stuff_classes=[0])
    np.testing.assert_array_equal(stuff.ids, np.where(things.ids >= 0, 0, -1))
    assert [each.class_index for each in stuff.segments] == [0]


def test_later_instances_cover_earlier_ones_and_panoptic_segments_must_be_seen():
    predictions = {
        "masks": square((0, 0, 8, 8), (0, 0, 8, 7)),
        "classes": classes((9, 0, 0), (0, 8, 0)),
    }
    model = keras_vit.Preprocessing(8, 8)
    [found] = keras_vit.decode_segments(predictions, model, kind="instance")
    assert (found.ids[:, :7] == 1).all()
    assert (found.ids[:, 7] == 0).all()
    [found] = keras_vit.decode_segments(predictions, model)
    assert [each.class_index for each in found.segments] == [0]  # nothing is left to the other one
    assert (found.ids == 0).all()


@pytest.mark.parametrize(
    ("kind", "limits", "count"),
    [
        ("panoptic", {"threshold": 0.49}, 2),
        ("panoptic", {"threshold": 0.5}, 1),  # the score of the first one, which must exceed it
        ("instance", {"threshold": 0.49}, 2),
        ("panoptic", {"threshold": 0, "overlap_threshold": 0.49}, 2),
        ("panoptic", {"threshold": 0, "overlap_threshold": 0.5}, 1),  # half of it is left
    ],
)
def test_segments_at_their_limits(kind, limits, count):
    predictions = {
        "masks": square((0, 0, 8, 8), (0, 0, 4, 8)),
        "classes": classes((9, 9, -200), (0, 9, -200)),
    }
    options = {"overlap_threshold": 0.1} | limits
    [found] = keras_vit.decode_segments(
        predictions, keras_vit.Preprocessing(8, 8), kind=kind, **options
    )
    assert len(found.segments) == count


def test_nothing_is_found_and_names_are_those_of_the_model(small_spec):
    predictions = {"masks": square((0, 0, 8, 8)), "classes": classes(NOTHING)}
    for kind in ("panoptic", "instance"):
        [found] = keras_vit.decode_segments(
            predictions, keras_vit.Preprocessing(8, 8), [(3, 5)], kind=kind
        )
        assert found.segments == ()
        assert (found.ids == -1).all()
        assert found.ids.shape == (3, 5)
    model = keras_vit.ViT(small_spec, 2, 8, labels=("cat", "dog"))
    predictions["classes"] = classes(DOG)
    [found] = keras_vit.decode_segments(predictions, model)
    assert found.segments == (Segment(1, "dog", pytest.approx(0.99975, abs=1e-5)),)
    empty = {"masks": np.zeros((0, 8, 8, 1)), "classes": np.zeros((0, 1, 3))}
    assert keras_vit.decode_segments(empty, model, []) == []


def test_what_is_cropped_or_padded_has_no_segment():
    """Of a wide picture: its centre alone, or the upper half of the input."""
    predictions = {"masks": square((0, 0, 8, 8)), "classes": classes(CAT)}
    crops = keras_vit.Preprocessing(8, 8, crop=1.0)
    [found] = keras_vit.decode_segments(predictions, crops, [(10, 30)])
    assert (found.ids[:, 10:20] == 0).all()
    assert (found.ids[:, :10] == -1).all()
    assert (found.ids[:, 20:] == -1).all()
    predictions["masks"] = square((0, 0, 4, 8))
    pads = keras_vit.Preprocessing(8, 8, pad=True)
    [found] = keras_vit.decode_segments(predictions, pads, [(10, 20)])
    assert (found.ids == 0).mean() > 0.9
    [mask] = keras_vit.decode_masks({"scores": predictions["masks"]}, pads, [(10, 20)])
    assert mask.shape == (10, 20)
    assert not mask.any()


@pytest.mark.parametrize("pad", [False, True])
def test_scores_and_class_maps_of_padded_pictures_are_cut(rng, pad):
    """The lower half of the input is not seen of a picture twice as wide as high."""
    preprocessing = keras_vit.Preprocessing(8, 8, pad=pad)
    classes = rng.integers(0, 4, (1, 8, 8), np.uint8)
    expected = classes[0, :4] if pad else classes[0, ::2]
    [found] = keras_vit.decode_masks(classes, preprocessing, [(4, 8)])
    if pad:
        np.testing.assert_array_equal(found, expected)
        scores = np.eye(4, dtype=np.float32)[classes]
        [found] = keras_vit.decode_masks({"scores": scores}, preprocessing, [(4, 8)])
        np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masks": np.zeros((1, 8, 8, 2))}, r"'masks': \(1, 8, 8, 2\)"),
        ({"classes": np.zeros((1, 3))}, "predictions must be a dict"),
        ({"masks": np.full((1, 8, 8, 1), np.nan)}, "must be finite"),
        ({"classes": np.full((1, 1, 3), np.inf)}, "must be finite"),
        ({"sizes": [(3.5, 4)]}, r"integers. Received: \[\(3.5, 4\)\]"),
        ({"sizes": [(3, 4), (3, 4)]}, "each of the 1 pictures"),
        ({"sizes": [(0, 4)]}, "each of the 1 pictures"),
        ({"sizes": [(3, 4), (3,)]}, "each of the 1 pictures"),
        ({"masks": np.zeros((1, 0, 8, 1))}, "predictions must be a dict"),
        ({"kind": "semantic"}, "kind must be one of panoptic, instance"),
        ({"threshold": 1.5}, "threshold must"),
        ({"stuff_classes": [2]}, "stuff_classes"),
    ],
)
def test_other_predictions_are_refused(change, message):
    predictions = {"masks": square((0, 0, 8, 8)), "classes": classes(CAT)}
    options = {"sizes": None}
    for name, value in change.items():
        (predictions if name in predictions else options)[name] = value
    sizes = options.pop("sizes")
    with pytest.raises(UsageError, match=message):
        keras_vit.decode_segments(predictions, keras_vit.Preprocessing(8, 8), sizes, **options)
    with pytest.raises(UsageError, match="predictions must be a dict"):
        keras_vit.decode_segments(predictions["masks"], keras_vit.Preprocessing(8, 8))
    model = types.SimpleNamespace(task="panoptic", preprocessing=keras_vit.Preprocessing(8, 8))
    with pytest.raises(UsageError, match="predictions must be a dict"):
        keras_vit.decode_masks({"scores": square((0, 0, 8, 8))}, model)
