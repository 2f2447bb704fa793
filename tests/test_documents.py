"""README.md, docs/ and docstrings: programs and examples run, links have targets."""

import dataclasses
import doctest
import importlib
import json
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras
from keras_vit.data.augmentation import AUGMENTATIONS
from keras_vit.data.sources import SOURCES
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import find_weights
from keras_vit.weights.cache import cached_path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
NOTEBOOKS = [f"examples/{each.name}" for each in sorted((ROOT / "examples").glob("*.ipynb"))]
PROGRAMS = {
    page: actual
    for page in PAGES
    if (actual := re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))
}
SLOW_MODULES = ("keras_vit.deploy", "keras_vit.evaluation.run_report", "keras_vit.training")
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((ROOT / "keras_vit").rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.fixture
def folder(tmp_path, shared_folder, trained_run, monkeypatch):
    """The working folder, with the run and the pictures that programs and examples name."""
    shutil.copytree(trained_run.path, tmp_path / "work/runs/flowers")
    shutil.copytree(shared_folder, tmp_path / "work/flower_photos")
    shutil.copyfile(next(shared_folder.glob("*/*.jpg")), tmp_path / "work/photo.jpg")
    shutil.copytree(ROOT / "tests/fixtures/zero_shot/siglip2", tmp_path / "work/siglip2")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def published(augreg_index, monkeypatch):
    """A cache with small models under the names of the files that docs/weights.md downloads."""
    for name in ("ViT-B_16", "ViT-S_16"):
        small = dataclasses.replace(VARIANTS[name], hidden_dim=24, depth=1, num_heads=2, mlp_dim=32)
        monkeypatch.setitem(VARIANTS, name, small)
    for model, weights in (
        ("ViT-B_16", "augreg"), ("ViT-B_16", "imagenet21k"), ("ViT-S_16", augreg_index),
        ("ViT-S_16", "augreg"),
    ):  # fmt: skip
        entry = find_weights(model, weights)
        path = cached_path(entry.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        built = keras_vit.ViT(VARIANTS[model], entry.num_classes, entry.image_size)
        keras_vit.save_weights(built, path)


@pytest.mark.slow
@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_run(page, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", keras)  # of the flavour under test
    write_weights()
    names = {
        "images": sorted(map(str, Path("flower_photos").rglob("*.jpg")))[:2] * 4,
        "labels": np.arange(8) % 5,
        "classes": [i % 5 for i in range(8)],
    }
    with patch.dict(VARIANTS), patch.dict(SOURCES), patch.dict(PRECISIONS):  # for added rows
        exec("\n".join(PROGRAMS[page]), names)
    _CHECKS.get(page, lambda names, folder: None)(names, folder)


def write_weights():
    """The files that programs read: of a small model, under all names."""
    model = keras_vit.ViT(VARIANTS["ViT-B_16"], num_classes=2, image_size=32)
    for name in ("ViT-B_16", "vit_keras", "kerashub", "tf_vit"):
        keras_vit.save_weights(model, f"{name}.npz")
    for layout in ("timm", "transformers"):
        keras_vit.save_weights(model, f"{layout}_model/model.safetensors", layout)


# The files that the programs of a page write.
_CHECKS = {
    "README.md": lambda names, folder: deploy.Runner(folder / "model.tflite"),
    "docs/export-python.md": lambda names, folder: deploy.Runner(folder / "own.tflite"),
}


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(name, marks=[pytest.mark.slow] * name.startswith(SLOW_MODULES))
        for name in MODULES
    ],
)
def test_examples_run(module, user):
    if module == "keras_vit.deploy.bundle.opened_bundle":
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
def user(folder, augreg_index, small_spec, randomised, rng):
    """What examples do not define themselves."""
    model = randomised(keras_vit.ViT(small_spec, num_classes=3, image_size=48))
    images = rng.integers(0, 256, (12, 48, 48, 3)).astype(np.uint8)
    inputs = keras_vit.preprocess(images, model)
    return {
        "keras": keras, "keras_vit": keras_vit, "model": model, "images": images, "inputs": inputs,
        "classes": np.arange(12) % 3, "names": ["daisy", "rose", "tulip"],
    }  # fmt: skip


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS])
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text()
    if page in NOTEBOOKS:
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    links = re.findall(r"\]\((?!https?://)([^)#]+)", text)
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


def test_kotlin_in_the_documents_is_compiled():
    demo = ROOT / "android_demo"
    sources = [
        demo / "app/src/test/kotlin/dev/kerasvit/demo/OwnApp.kt",
        demo / "samples/jvm/src/main/kotlin/Classify.kt",
    ]
    compiled = "".join(map(_without_indents, (path.read_text() for path in sources)))
    shown = re.findall(r"```kotlin\n(.*?)```", (ROOT / "docs/own-app.md").read_text(), re.DOTALL)
    assert len(shown) == 5
    assert not [block for block in shown if _without_indents(block) not in compiled]


def _without_indents(text):
    return "".join(f"{line.strip()}\n" for line in text.splitlines())


def test_notebooks_are_stored_without_outputs():
    for path in (ROOT / "examples").glob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs"), path
            assert not cell.get("execution_count"), path


def test_the_table_of_augmentations_is_complete():
    section = (ROOT / "docs/data.md").read_text().split("## Augmentation")[1].split("\n## ")[0]
    cells = re.findall(r"(?m)^\| (`.*?) \|", section)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(AUGMENTATIONS)
