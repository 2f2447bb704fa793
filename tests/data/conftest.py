"""Fixtures for all tests of data."""

import re

import pytest

from keras_vit import UsageError
from keras_vit.data import open_source


@pytest.fixture(scope="session")
def photographs():
    """Two photographs, uint8 (427, 640, 3)."""
    from sklearn.datasets import load_sample_images

    return load_sample_images().images


@pytest.fixture
def refused():
    """Checks that a source is refused with one line in which a pattern is found."""

    def check(data, pattern, **options):
        with pytest.raises(UsageError) as raised:
            open_source(data, **options)
        (line,) = str(raised.value).splitlines()
        assert re.search(pattern, line)

    return check
