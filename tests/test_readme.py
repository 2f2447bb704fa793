"""What the README promises: its programs run, its figures of size are the models'."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_vit._keras import keras
from keras_vit.specs import VARIANTS
from keras_vit.weights import parameter_count

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_its_programs_run(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "keras", keras)  # of the flavour under test
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(programs) == 2
    program = "\n".join(programs)
    # The same lines on a model of a size for tests.
    small = program.replace("ViT_B16(num_classes=5)", "ViT_Pico4(num_classes=5, image_size=16)")
    assert small != program
    names = {
        "images": rng.integers(0, 255, (8, 30, 20, 3)).astype(np.uint8),
        "labels": np.arange(8) % 5,
    }
    exec(small, names)
    assert {path.name for path in tmp_path.iterdir()} == {"model.tflite", "out.npz"}


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.endswith("-gap")])
def test_its_parameter_counts_are_exact(name):
    assert re.search(
        rf"{name}( \(for tiny images\))? \| {parameter_count(VARIANTS[name]):,} ", README
    )
