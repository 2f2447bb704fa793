"""Nearest neighbours, their votes and class means, against scikit-learn and by hand."""

import numpy as np
import pytest

from keras_vit import neighbours
from keras_vit.neighbours import class_means, nearest, shares, unit


@pytest.mark.parametrize("values", [1 << 24, 7])  # in one block, and a query at a time
@pytest.mark.parametrize("themselves", [False, True])
def test_the_nearest_are_those_of_scikit_learn(rng, monkeypatch, values, themselves):
    from sklearn.neighbors import NearestNeighbors

    monkeypatch.setattr(neighbours, "_VALUES", values)
    vectors = unit(rng.normal(size=(40, 6)))
    queries = vectors[:9] if themselves else unit(rng.normal(size=(9, 6)))
    reference = NearestNeighbors(metric="cosine", algorithm="brute").fit(vectors)
    distances, expected = reference.kneighbors(queries, 5 + themselves)
    cosines, found = nearest(queries, vectors, 5, themselves)
    np.testing.assert_array_equal(found, expected[:, int(themselves) :])
    np.testing.assert_allclose(cosines, 1 - distances[:, int(themselves) :], atol=1e-12)


def test_of_equal_ones_the_first_is_first_and_there_are_no_more_than_there_are():
    vectors = np.array([[0.0, 1], [1, 0], [0.6, 0.8], [1, 0], [0.6, 0.8]])
    cosines, found = nearest(vectors[1:2], vectors, 9)
    assert found.tolist() == [[1, 3, 2, 4, 0]]
    np.testing.assert_allclose(cosines, [[1, 1, 0.6, 0.6, 0]])
    assert nearest(vectors, vectors, 9, themselves=True)[1].shape == (5, 4)


def test_equal_ones_keep_their_order_where_only_some_are_taken(rng):
    vectors = np.eye(3)[rng.integers(0, 3, 200)]
    expected = np.argsort(-(vectors[:2] @ vectors.T), axis=1, kind="stable")
    for count in (30, 150, 200):
        np.testing.assert_array_equal(nearest(vectors[:2], vectors, count)[1], expected[:, :count])


def test_a_vote_falls_with_the_similarity_and_zeros_have_none():
    cosines, targets = np.array([[0.9, 0.8, 0.8], [-1, -1, -1]]), np.array([[2, 0, 2], [1, 1, 0]])
    weight = np.exp(-1)
    expected = np.array([[weight, 0, 1 + weight, 0], [1, 2, 0, 0]])
    found = shares(cosines, targets, 4, 0.1)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True))
    expected[0] = [weight / 3, 0, (1 + weight) / 9, 0]  # of a large class a vote counts less
    found = shares(cosines, targets, 4, 0.1, np.array([[9.0, 3, 9], [1, 1, 1]]))
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True))
    far = shares(np.array([[1.0, -1]]), np.array([[0, 1]]), 2, 1e-4)
    np.testing.assert_array_equal(far, [[1, 0]])  # and no overflow
    np.testing.assert_array_equal(unit(np.zeros((1, 3))), np.zeros((1, 3)))


def test_a_class_mean_is_a_direction(rng):
    vectors, targets = unit(rng.normal(size=(6, 3))), np.array([0, 1, 0, 1, 1, 0])
    found = class_means(vectors, targets, 2)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    mean = vectors[targets == 1].mean(0)
    np.testing.assert_allclose(found[1], mean / np.linalg.norm(mean))
