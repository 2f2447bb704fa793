"""The benchmark of files for timm, transformers and KerasHub, which the tests do not install."""

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


KERAS_HUB = """
import sys, numpy as np, keras_vit
folder, images, key, output = sys.argv[1:]
model = keras_vit.model_from_weights(folder).intermediates("{output}")
np.save(output, {factor} * np.asarray(model(np.load(images)[key])["{output}"]))
"""
OUTPUTS = {"CLIP": "encoded", "SigLIP": "pre_logits"}


@pytest.mark.parametrize("name", families.MODELS)
def test_each_model_is_written_and_read_back(name, tmp_path):
    layout, fields, classes = families.MODELS[name]
    families._write(layout, fields, classes, tmp_path)
    again = keras_vit.model_from_weights(tmp_path / "model")
    assert fields.items() <= vars(again.spec).items()
    assert again.num_classes == classes


def test_outputs_are_compared_at_each_size(monkeypatch, tmp_path):
    monkeypatch.setattr(families, "_READ", READ)
    images = families._write("timm", {"resampling": "bicubic"}, 5, tmp_path)
    found = families.differences(sys.executable, tmp_path, images, families.SIZES, "timm", 5)
    assert found[:2] == [0, 0]
    assert found[2] == pytest.approx(0.5)
    monkeypatch.setattr(families, "installed", lambda *arguments: sys.executable)
    monkeypatch.setattr(families, "MODELS", {"one": ("timm", {}, 5)})
    with pytest.raises(RefusedError, match="one: 5.0e-01"):
        families.main(families.Arguments())


@pytest.mark.parametrize("name", ["CLIP", "SigLIP"])
def test_keras_hubs_output_is_compared_with_the_tokens_or_the_pooled_ones(
    name, monkeypatch, tmp_path
):
    # In place of KerasHub's program, one that writes what keras_vit computes.
    runner = tmp_path / "runner.py"
    monkeypatch.setattr(families, "KERAS_HUB_RUNNER", runner)
    layout, fields, classes = families.MODELS[name]
    images = families._write(layout, fields, classes, tmp_path)
    for factor, expected in ((1, 0), (2, 0.5)):
        runner.write_text(KERAS_HUB.format(factor=factor, output=OUTPUTS[name]))
        found = families.from_keras_hub(sys.executable, tmp_path, images)
        assert found == pytest.approx(expected)
