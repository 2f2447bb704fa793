"""The benchmark of files for timm and transformers, which are not installed for the tests."""

import sys

import families
import pytest

import keras_vit
from keras_vit._errors import RefusedError

# Answers as the libraries would, by what keras_vit reads, with a fault at the last size.
READ = """
import numpy as np, keras_vit
images = np.load("images.npz")
answers = {}
for size in SIZES:
    model = keras_vit.model_from_weights("model", image_size=size)
    answers[str(size)] = np.asarray(model(images[str(size)])) * (1 + (size == SIZES[-1]))
np.savez("answers.npz", **answers)
"""


@pytest.mark.parametrize("name", families.MODELS)
def test_each_model_is_written_and_read_back(name, tmp_path):
    layout, fields, classes = families.MODELS[name]
    families._write(layout, fields, classes, tmp_path)
    again = keras_vit.model_from_weights(tmp_path)
    assert fields.items() <= vars(again.spec).items()
    assert again.num_classes == classes


def test_outputs_are_compared_at_each_size(monkeypatch):
    monkeypatch.setattr(families, "_READ", READ)
    found = families.differences(sys.executable, "timm", {"resampling": "bicubic"}, 5)
    assert found[:2] == [0, 0]
    assert found[2] == pytest.approx(0.5)
    monkeypatch.setattr(families, "installed", lambda *arguments: sys.executable)
    monkeypatch.setattr(families, "MODELS", {"one": ("timm", {}, 5)})
    with pytest.raises(RefusedError, match="one: 5.0e-01"):
        families.main(families.Arguments())
