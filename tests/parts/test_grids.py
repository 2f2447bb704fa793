"""The resampling of tables to another grid."""

from __future__ import annotations

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.parts.grids import align_corners_matrix, bicubic_matrix, half_pixel_matrix
from keras_vit.weights import resample_positions


def pairs(file):
    arrays = np.load(file)
    for name in arrays.files:
        if name.endswith("_in"):
            yield name.removesuffix("_in"), arrays[name], arrays[f"{name.removesuffix('_in')}_out"]


def grids(name):
    # "cls_3to5", "nocls_4x6to9x5"
    kind, sizes = name.split("_")
    sides = [tuple(map(int, side.split("x"))) for side in sizes.split("to")]
    return *((side * 2)[:2] for side in sides), kind == "cls"


def test_bilinear_is_the_official_rule(fixtures):
    names = []
    for name, table, expected in pairs(fixtures / "posembed_interpolation.npz"):
        actual = resample_positions(table, *grids(name))
        np.testing.assert_allclose(actual, expected, atol=1e-6, err_msg=name)
        names.append(name)
    assert len(names) == 8


def test_bicubic_is_the_rule_of_timm(fixtures):
    names = []
    for name, table, expected in pairs(fixtures / "posembed_timm.npz"):
        actual = resample_positions(table, *grids(name), method="bicubic")
        np.testing.assert_allclose(actual, expected, atol=1e-6, err_msg=name)
        names.append(name)
    assert len(names) == 3


def test_the_class_tokens_position_and_the_corners_are_kept(rng):
    table = rng.normal(size=(1, 1 + 6, 5)).astype(np.float32)
    actual = resample_positions(table, (2, 3), (7, 4))
    np.testing.assert_array_equal(actual[0, 0], table[0, 0])
    old, new = table[0, 1:].reshape(2, 3, 5), actual[0, 1:].reshape(7, 4, 5)
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        np.testing.assert_allclose(new[corner], old[corner], atol=1e-6)


def test_the_positions_of_a_class_and_a_distillation_token_are_kept(rng):
    table = rng.normal(size=(1, 2 + 6, 5)).astype(np.float32)
    actual = resample_positions(table, (2, 3), (7, 4), prefix=2)
    np.testing.assert_array_equal(actual[:, :2], table[:, :2])
    patches = resample_positions(table[:, 2:], (2, 3), (7, 4), prefix=0)
    np.testing.assert_array_equal(actual[:, 2:], patches)


def test_rows_and_columns_are_resampled_independently():
    rows, columns = np.indices((3, 5)).astype(np.float32)
    table = np.stack([rows, columns], axis=-1).reshape(1, 15, 2)
    actual = resample_positions(table, (3, 5), (5, 9), prefix=0).reshape(5, 9, 2)
    np.testing.assert_allclose(actual[..., 0], np.repeat(np.linspace(0, 2, 5)[:, None], 9, 1))
    np.testing.assert_allclose(actual[..., 1], np.repeat(np.linspace(0, 4, 9)[None], 5, 0))


@pytest.mark.parametrize(("old", "new"), [(28, 14), (16, 30), (14, 24), (49, 7), (3, 1), (1, 4)])
def test_the_last_row_is_kept_for_every_size(old, new):
    # Because of rounding, scipy.ndimage.zoom returns zeros there for some of these sizes.
    matrix = align_corners_matrix(old, new)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    last = np.zeros(old)
    last[-1 if new > 1 else 0] = 1
    np.testing.assert_allclose(matrix[-1], last, atol=1e-12)


def test_resampling_to_a_finer_grid_and_back_is_the_identity(rng):
    table = rng.normal(size=(1, 16, 3)).astype(np.float32)
    finer = resample_positions(table, (4, 4), (7, 10), prefix=0)
    back = resample_positions(finer, (7, 10), (4, 4), prefix=0)
    np.testing.assert_allclose(back, table, atol=1e-6)


@pytest.mark.parametrize("matrix", [align_corners_matrix, bicubic_matrix, half_pixel_matrix])
def test_the_same_size_is_the_identity_and_constants_are_kept(matrix):
    np.testing.assert_allclose(matrix(6, 6), np.eye(6), atol=1e-12)
    for old, new in ((5, 8), (8, 5), (1, 3)):
        np.testing.assert_allclose(matrix(old, new).sum(axis=1), 1)


def test_a_table_of_another_grid_and_an_unknown_method_are_refused():
    with pytest.raises(UsageError, match=r"expected a position table \(1, 10, hidden_dim\)"):
        resample_positions(np.zeros((1, 9, 4)), (3, 3), (5, 5))
    with pytest.raises(UsageError, match='"bilinear" or "bicubic". Received: \'area\''):
        resample_positions(np.zeros((1, 10, 4)), (3, 3), (5, 5), method="area")
