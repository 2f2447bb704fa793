"""The formulas of an inspection equal values computed by hand, or by a plain loop."""

import itertools
import math

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, evaluation
from keras_vit.evaluation.attention_scores import even_distance
from keras_vit.evaluation.learned_weights import position_bias
from keras_vit.layers import StdConv

TIGHT = {"rtol": 0, "atol": 1e-6}


def attention(rng, *shape):
    """Random attention scores, whose rows sum to 1."""
    scores = rng.random(shape)
    return scores / scores.sum(-1, keepdims=True)


def test_attention_distance_equals_a_plain_loop(rng):
    grid, stride, prefix = (2, 3), 8, 2
    scores = attention(rng, 2, 3, 8, 8)
    expected = np.zeros((2, 3))
    places = enumerate(itertools.product(range(2), range(3)))
    for (query, at), (key, to) in itertools.product(places, repeat=2):
        expected += scores[..., prefix + query, prefix + key] * stride * math.dist(at, to) / 6
    actual = evaluation.attention_distance(scores, grid, stride)
    np.testing.assert_allclose(actual, expected, **TIGHT)


def test_evenly_spread_attention_has_the_mean_distance_of_two_patches():
    # Two of the four ordered pairs of patches are 4 pixels apart; a third token takes a third.
    assert even_distance((1, 2), 4, 0) == pytest.approx(2, abs=1e-6)
    assert even_distance((1, 2), 4, 1) == pytest.approx(2 * 2 / 3, abs=1e-6)


def test_position_similarity_equals_values_computed_by_hand():
    table = np.array([[2, 0], [0, 3], [1, 1], [-1, 0], [0, 0], [4, 4]], np.float32)
    actual = evaluation.position_similarity(table, (2, 3))
    half = math.sqrt(0.5)
    np.testing.assert_allclose(actual[0, 0], [[1, 0, half], [-1, 0, half]], **TIGHT)
    np.testing.assert_allclose(actual[0, 2], [[half, half, 1], [-half, 0, 1]], **TIGHT)
    assert not actual[1, 1].any()  # of an embedding of zeros


def test_embedding_filters_are_the_principal_components():
    # Four filters of 1 x 2 pixels: the mean, and 3 or 1 along two directions of length 1.
    first, second = np.array([0.6, 0, 0, 0, 0, 0.8]), np.array([0, 1.0, 0, 0, 0, 0])
    filters = np.array([first * 3, -first * 3, second, -second]) + 7
    actual = evaluation.embedding_filters(filters.T.reshape(1, 2, 3, 4))
    expected = np.array([first, second]).reshape(2, 1, 2, 3)  # four filters have two directions
    np.testing.assert_allclose(actual.patches, expected, **TIGHT)
    np.testing.assert_allclose(actual.fractions, [0.9, 0.1], **TIGHT)
    assert len(evaluation.embedding_filters(filters.T.reshape(1, 2, 3, 4), 1).patches) == 1
    same = evaluation.embedding_filters(np.full((2, 2, 3, 5), 0.3))
    assert same.patches.shape == (0, 2, 2, 3)


def test_root_filters_are_those_that_the_convolution_uses(rng):
    kernel = rng.normal(3, 2, (7, 7, 3, 32)).astype(np.float32)
    actual = evaluation.root_filters(kernel)
    used = np.asarray(StdConv(32, 7, name="root")._standardise(kernel))
    np.testing.assert_allclose(actual, np.moveaxis(used, -1, 0), atol=1e-4)
    np.testing.assert_allclose(actual.mean(axis=(1, 2, 3)), 0, **TIGHT)
    np.testing.assert_allclose(actual.std(axis=(1, 2, 3)), 1, **TIGHT)


def test_colours_are_components_of_all_pictures_together():
    # Along one direction: 0 to 100 in two pictures. The ends of 2% are cut off.
    steps = np.arange(101.0)
    along = np.array([0, 0.6, 0, 0.8])
    features = np.stack([steps[:50], steps[50:100]])[:, None, :, None] * along + 5
    actual = evaluation.patch_pca(features)
    assert actual.colours.shape == (2, 1, 50, 3)
    np.testing.assert_allclose(actual.fractions, [1], **TIGHT)
    low, high = np.percentile(steps[:100], (2, 98))
    expected = np.clip((steps[:100] - low) / (high - low), 0, 1)
    np.testing.assert_allclose(actual.colours[..., 0].ravel(), expected, **TIGHT)
    assert (actual.colours[..., 1:] == 0.5).all()  # there is no second component
    alone = evaluation.patch_pca(np.ones((1, 1, 1, 4)).tolist())
    assert (alone.colours == 0.5).all()


def test_components_that_are_noise_have_no_colour(rng):
    # Deviations of 1, 0.2 and 0.05: 96%, 4% and 0.2% of the variance.
    features = rng.normal(size=(2, 10, 10, 3)) * [1, 0.2, 0.05]
    actual = evaluation.patch_pca(features)
    np.testing.assert_allclose(actual.fractions, [0.96, 0.04], atol=0.02)
    assert all(actual.colours[..., i].std() > 0.2 for i in (0, 1))
    assert (actual.colours[..., 2] == 0.5).all()
    third = evaluation.patch_pca(features * [1, 1, 4])
    assert len(third.fractions) == 3
    assert third.colours[..., 2].std() > 0.2


# The tokens before the patches, how many of them the head does not read, and those that it reads.
READERS = [(0, 0, slice(6)), (1, 0, slice(1)), (2, 0, slice(2)), (5, 4, slice(1))]
READERS += [(4, 4, slice(4, 10))]


@pytest.mark.parametrize(("prefix", "unread", "readers"), READERS)
def test_maps_of_heads_are_rows_of_the_tokens_that_the_head_reads(rng, prefix, unread, readers):
    scores = attention(rng, 2, 3, 6 + prefix, 6 + prefix)
    actual = evaluation.head_maps(scores, (2, 3), unread)
    rows = scores[1, 2, readers, prefix:]
    np.testing.assert_allclose(actual[1, 2].ravel(), np.mean(rows, axis=0), **TIGHT)


@pytest.mark.parametrize(("prefix", "unread", "readers"), READERS)
def test_rollout_equals_the_product_of_the_matrices(rng, prefix, unread, readers):
    layers = attention(rng, 3, 1, 2, 6 + prefix, 6 + prefix)
    joint = np.eye(6 + prefix)
    for scores in layers:
        joint = (scores[0].mean(axis=0) + np.eye(6 + prefix)) / 2 @ joint
    expected = joint[readers, prefix:].mean(axis=0)
    actual = evaluation.rollout(layers, prefix, unread)[0]
    np.testing.assert_allclose(actual, expected / expected.max(), **TIGHT)


def test_relative_bias_is_that_of_the_patch_in_the_middle():
    spec = keras_vit.ViTSpec(8, 24, 1, 2, 32, position_embedding="relative")
    model = keras_vit.ViT(spec, 2, (24, 24))
    variable = model.get_layer("encoderblock_0").attention.relative_position_bias
    values = np.zeros(variable.shape, np.float32)
    values[2 * 5 + 3, 1] = 7  # of 5 x 5 offsets: the query is one column to the right of the key
    variable.assign(values)
    actual = position_bias(model)
    assert actual.shape == (1, 2, 3, 3)
    assert not actual[0, 0].any()
    np.testing.assert_array_equal(actual[0, 1], [[0, 0, 0], [7, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "features", [np.ones((2, 3, 4)), np.ones((0, 2, 2, 3)), np.full((1, 2, 2, 3), np.nan)]
)
def test_what_is_no_feature_map_has_no_colours(features):
    with pytest.raises(UsageError, match="finite features"):
        evaluation.patch_pca(features)
