"""Arrays on disk behave as in a dict, and their files are removed."""

import numpy as np
import pytest

from keras_vit.deploy.stored_arrays import StoredArrays


@pytest.fixture
def stored(tmp_path):
    return StoredArrays(tmp_path / "arrays", {"a": lambda: np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (3, 0)])
def test_arrays_are_read_back(stored, shape):
    values = np.arange(np.prod(shape), dtype=np.int8).reshape(shape).T
    stored["b"] = values
    np.testing.assert_array_equal(stored["b"], values)
    assert stored["b"].dtype == np.int8
    assert type(stored["b"]) is np.ndarray
    assert list(stored) == ["a", "b"]


def test_a_change_of_an_array_does_not_change_what_is_stored(stored):
    stored["a"] += 1
    np.testing.assert_array_equal(stored["a"], np.full((2, 3), 2, np.float32))
    array = stored["a"]
    array += 1
    np.testing.assert_array_equal(stored["a"], np.full((2, 3), 2, np.float32))


def test_sources_are_stored_once_and_then_not_needed(tmp_path):
    calls = []
    stored = StoredArrays(tmp_path / "arrays", {"a": lambda: calls.append(0) or np.zeros(3)})
    stored.store()
    stored.store()
    assert (stored["a"] == 0).all()
    assert len(calls) == 1


def test_files_are_removed_with_their_arrays(stored, tmp_path):
    for value in range(3):
        stored["b"] = np.full(4, value)
    assert len(list((tmp_path / "arrays").iterdir())) == 1
    assert stored.pop("b")[0] == 2
    stored.clear()
    assert not list((tmp_path / "arrays").iterdir())
    assert "a" not in stored
