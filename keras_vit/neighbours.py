"""Nearest neighbours by cosine similarity, and what they say of classes, without training.

The vote is that of Wu et al. 2018 (arXiv 1805.01978) and DINO (Caron et al. 2021, appendix F);
class means are those of Snell et al. 2017 (prototypical networks), by cosine.
"""

from __future__ import annotations

import numpy as np

# How many neighbours vote, and how fast a vote falls with the similarity.
NEIGHBOURS, TEMPERATURE = 10, 0.07
_VALUES = 1 << 24  # similarities in memory at a time


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, channels), each divided by its L2 norm; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def nearest(
    queries: np.ndarray, vectors: np.ndarray, count: int, themselves: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The most similar vectors of each query, most similar first; of equal ones the first first.

    Args:
        queries: (m, channels), of unit length.
        vectors: (n, channels), of unit length.
        count: how many; there are fewer if there are fewer vectors.
        themselves: whether the queries are the first of the vectors, which are not their own
            neighbours.

    Returns:
        Cosines and indices of vectors, both (m, count).
    """
    count = min(count, len(vectors) - themselves)
    cosines = np.empty((len(queries), count), np.result_type(queries, vectors))
    indices = np.empty((len(queries), count), np.int64)
    step = max(_VALUES // len(vectors), 1)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        similarity = queries[block] @ vectors.T  # (rows, n)
        if themselves:
            rows = np.arange(len(similarity))
            similarity[rows, start + rows] = -np.inf
        indices[block] = [_largest(row, count) for row in similarity]
        cosines[block] = np.take_along_axis(similarity, indices[block], 1)
    return cosines, indices


def shares(
    cosines: np.ndarray,
    targets: np.ndarray,
    classes: int,
    temperature: float = TEMPERATURE,
    sizes: np.ndarray | float = 1.0,
) -> np.ndarray:
    """The part of the votes that each class gets: a neighbour votes with exp(cosine / temperature).

    Args:
        cosines: of the neighbours of each query, (m, count).
        targets: their classes, (m, count).
        classes: number of classes.
        temperature: how fast a vote falls with the similarity.
        sizes: what each vote is divided by, (m, count): with the number of vectors of the
            neighbour's class, small classes are found among large ones.

    Returns:
        (m, classes); each row has the sum 1.
    """
    votes = np.exp((cosines - cosines.max(1, keepdims=True)) / temperature) / sizes
    found = np.zeros((len(cosines), classes))
    np.add.at(found, (np.arange(len(found))[:, None], targets), votes)
    return found / found.sum(1, keepdims=True)


def class_means(vectors: np.ndarray, targets: np.ndarray, classes: int) -> np.ndarray:
    """The mean of each class's vectors, as unit vectors (classes, channels)."""
    sums = np.zeros((classes, vectors.shape[1]))
    np.add.at(sums, targets, vectors)
    return unit(sums)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest values, as of a stable sort, which would take longer."""
    least = np.partition(values, -count)[-count]
    places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")][:count]
