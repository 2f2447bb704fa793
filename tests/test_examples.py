"""The examples in docstrings run, and print what they say they print."""

import doctest
import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras

ROOT = Path(__file__).parents[1]
SLOW_MODULES = ("keras_vit.deploy", "keras_vit.evaluation.run_report", "keras_vit.training")
FILES = [file for file in sorted((ROOT / "keras_vit").rglob("*.py")) if ">>> " in file.read_text()]
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in FILES
]


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(name, marks=[pytest.mark.slow] * name.startswith(SLOW_MODULES))
        for name in MODULES
    ],
)
def test_examples_run(module, user):
    if module == "keras_vit.deploy.bundle.opened":
        deploy.export_bundles("runs/flowers", "runs/flowers/export", threads=())
    module = importlib.import_module(module)
    examples = [each for each in doctest.DocTestFinder().find(module) if each.examples]
    assert examples
    printed: list[str] = []
    runner = doctest.DocTestRunner()
    for example in examples:
        example.globs.update(user)
        runner.run(example, out=printed.append)
    assert runner.failures == 0, "".join(printed)


@pytest.fixture
def user(tmp_path, augreg_index, shared_folder, trained_run, randomised, monkeypatch, rng):
    """What examples do not define themselves, in a folder with the files that they name."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(shared_folder, "flower_photos")
    shutil.copyfile(next(shared_folder.glob("*/*.jpg")), "photo.jpg")
    shutil.copytree(trained_run.path, "runs/flowers")
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
    model = randomised(keras_vit.ViT(spec, num_classes=3, image_size=48))
    images = rng.integers(0, 256, (12, 48, 48, 3)).astype(np.uint8)
    inputs = keras_vit.preprocess(images, model)
    return {
        "keras": keras, "keras_vit": keras_vit, "model": model, "images": images, "inputs": inputs,
        "classes": np.arange(12) % 3, "names": ["daisy", "rose", "tulip"],
    }  # fmt: skip
