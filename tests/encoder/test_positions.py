"""The kinds of position embeddings: values, records, and the resampling to another grid."""

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.encoder.patch_grids import (
    Tokens,
    align_corners_matrix,
    bicubic_matrix,
    half_pixel_matrix,
)
from keras_vit.encoder.positions import POSITION_EMBEDDINGS, relative_index, sincos_2d
from keras_vit.weights import resample_positions


def test_relative_index_counts_offsets_and_has_three_entries_for_the_class_token():
    index = relative_index(Tokens((2, 3), prefix=0))
    rows, columns = np.indices((2, 3)).reshape(2, 6)
    down, right = rows[:, None] - rows, columns[:, None] - columns
    np.testing.assert_array_equal(index, 5 * (down + 1) + right + 2)  # of 3 x 5 offsets
    with_token = relative_index(Tokens((2, 3), prefix=1))
    np.testing.assert_array_equal(with_token[1:, 1:], index)
    assert with_token[0, 0] == 17
    assert set(with_token[0, 1:]) == {15}
    assert set(with_token[1:, 0]) == {16}


def test_sines_and_cosines_equal_big_vision(fixtures):
    expected = np.load(fixtures / "sincos2d.npz")
    for key in expected.files:
        rows, columns, width = map(int, key.split("x"))
        actual = sincos_2d((rows, columns), width)
        assert actual.dtype == np.float64
        np.testing.assert_allclose(actual, expected[key], atol=1e-6, err_msg=key)


WEIGHTS = {name: (*k.weights, *k.attention_weights) for name, k in POSITION_EMBEDDINGS.items()}
# No kind inside attention is used with a distillation token, the second before the patches.
CASES = [
    (name, prefix)
    for name, kind in POSITION_EMBEDDINGS.items()
    for prefix in ((0, 1) if kind.bias else (0, 1, 2))
    if WEIGHTS[name]
]


@pytest.mark.parametrize(("name", "prefix"), CASES)
def test_the_shapes_of_weights_show_a_square_grid(name, prefix):
    for grid in ((1, 1), (3, 3), (14, 14), (2, 3)):
        shapes = {w.name: w.shape(Tokens(grid, prefix), 8) for w in WEIGHTS[name]}
        shown = POSITION_EMBEDDINGS[name].grid_from_shapes(shapes, prefix)
        assert shown == (grid if grid[0] == grid[1] or name == "learned2d" else None)


@pytest.mark.parametrize(("name", "prefix"), CASES)
def test_resampled_weights_have_the_shape_for_the_new_grid(name, prefix, rng):
    old, new = (2, 3), (5, 4)
    for weight in WEIGHTS[name]:
        array = rng.normal(size=weight.shape(Tokens(old, prefix), 8)).astype(np.float32)
        for method in ("bilinear", "bicubic"):
            resampled = weight.resample(array, old, new, prefix, method)
            assert resampled.shape == weight.shape(Tokens(new, prefix), 8)
        same = weight.resample(array, old, old, prefix, "bilinear")
        np.testing.assert_allclose(same, array, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "count", "method", "output"),
    [
        ("posembed_interpolation", 8, "bilinear", "out"),
        ("posembed_timm", 3, "bicubic", "out"),
        ("posembed_torch", 4, "bicubic_sharp", "sharp"),
        ("posembed_torch", 4, "bicubic_dinov2", "dinov2"),
    ],
)
def test_each_method_is_that_of_another_program(fixtures, file, count, method, output):
    """Tables "{kind}_{old}to{new}_in" give those whose names end in `output`: "cls_3to5_in"."""
    arrays = np.load(fixtures / f"{file}.npz")
    names = [name.removesuffix("_in") for name in arrays.files if name.endswith("_in")]
    assert len(names) == count
    for name in names:
        kind, sizes = name.split("_")  # "nocls", "4x6to9x5"
        grids = [(tuple(map(int, side.split("x"))) * 2)[:2] for side in sizes.split("to")]
        actual = resample_positions(arrays[f"{name}_in"], *grids, kind == "cls", method)
        np.testing.assert_allclose(actual, arrays[f"{name}_{output}"], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("prefix", [1, 2])
def test_the_positions_of_tokens_are_kept(rng, prefix):
    table = rng.normal(size=(1, prefix + 6, 5)).astype(np.float32)
    actual = resample_positions(table, (2, 3), (7, 4), prefix=prefix)
    np.testing.assert_array_equal(actual[:, :prefix], table[:, :prefix])
    patches = resample_positions(table[:, prefix:], (2, 3), (7, 4), prefix=0)
    np.testing.assert_array_equal(actual[:, prefix:], patches)


@pytest.mark.parametrize(("old", "new"), [(28, 14), (16, 30), (14, 24), (49, 7), (3, 1), (1, 4)])
def test_the_last_row_is_kept_for_every_size(old, new):
    # Because of rounding, scipy.ndimage.zoom returns zeros there for some of these sizes.
    matrix = align_corners_matrix(old, new)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    last = np.zeros(old)
    last[-1 if new > 1 else 0] = 1
    np.testing.assert_allclose(matrix[-1], last, atol=1e-12)


@pytest.mark.parametrize("matrix", [align_corners_matrix, bicubic_matrix, half_pixel_matrix])
def test_the_same_size_is_the_identity_and_constants_are_kept(matrix):
    np.testing.assert_allclose(matrix(6, 6), np.eye(6), atol=1e-12)
    for old, new in ((5, 8), (8, 5), (1, 3)):
        np.testing.assert_allclose(matrix(old, new).sum(axis=1), 1)


def test_a_table_of_another_grid_and_an_unknown_method_are_refused():
    with pytest.raises(UsageError, match=r"expected a position table \(1, 10, hidden_dim\)"):
        resample_positions(np.zeros((1, 9, 4)), (3, 3), (5, 5))
    with pytest.raises(UsageError, match="one of bilinear, bicubic, .*'area'"):
        resample_positions(np.zeros((1, 10, 4)), (3, 3), (5, 5), method="area")
