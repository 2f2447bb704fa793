"""README.md and docs/: programs run, commands can be parsed, links have targets."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._keras import keras
from keras_vit.cli._arguments import Line, read
from keras_vit.data.augmentation import AUGMENTATIONS
from keras_vit.specs import VARIANTS
from keras_vit.weights import augreg, find_weights, parameter_count
from keras_vit.weights.cache import cached_path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
PROGRAMS = {
    page: actual
    for page in PAGES
    if (actual := re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))
}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A cache with small models under the names of the files that docs/weights.md downloads."""
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    for name in ("ViT-B_16", "ViT-S_16"):
        small = dataclasses.replace(VARIANTS[name], hidden_dim=24, depth=1, num_heads=2, mlp_dim=32)
        monkeypatch.setitem(VARIANTS, name, small)
    best = "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k"
    best += "-lr_0.01-res_224"
    for model, weights in (
        ("ViT-B_16", "augreg"), ("ViT-B_16", "imagenet21k"), ("ViT-S_16", best),
    ):  # fmt: skip
        entry = find_weights(model, weights)
        path = cached_path(entry.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        built = keras_vit.ViT(VARIANTS[model], entry.num_classes, entry.image_size)
        keras_vit.save_weights(built, path)
    columns = [field.name for field in dataclasses.fields(augreg.IndexRow)]
    cells = dict.fromkeys(columns, "") | {
        "name": "S/16", "ds": "i21k", "adapt_ds": "imagenet2012", "adapt_resolution": "224",
        "adapt_final_val": "0.8", "adapt_filename": best,
    }  # fmt: skip
    index = cached_path(augreg.INDEX_URL)
    index.write_text("\n".join(",".join(line) for line in (columns, cells.values())))
    return tmp_path


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_run(page, published, image_folder, trained_run, monkeypatch, rng):
    folder = published / "work"
    shutil.copytree(trained_run.path, folder / "runs" / "flowers")
    image_folder.rename(folder / "flower_photos")
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "keras", keras)  # of the flavour under test
    names = {
        "images": rng.integers(0, 255, (8, 30, 20, 3)).astype(np.uint8),
        "labels": np.arange(8) % 5,
    }
    exec("\n".join(PROGRAMS[page]), names)
    _CHECKS.get(page, lambda names, folder: None)(names, folder)


# The files that the programs of a page write.
_CHECKS = {
    "README.md": lambda names, folder: deploy.Runner(folder / "model.tflite"),
    "docs/export.md": lambda names, folder: deploy.Runner(folder / "own.tflite"),
}


@pytest.mark.once
def test_commands_are_read(trained_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("demo", "flowers", "cifar10"):
        shutil.copytree(trained_run.path, tmp_path / "runs" / run)
    (tmp_path / "runs/flowers/export/int8").mkdir(parents=True)
    for file in ("ViT-B_16.npz", "runs/digits/weights.npz"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    for folder in ("flower_photos", "photos", "pictures"):
        (tmp_path / folder).mkdir()
    lines = [line for page in PAGES for line in _commands((ROOT / page).read_text())]
    assert len(lines) > 10
    for name, *words in lines:
        command = import_module(f"keras_vit.cli.{name.replace('-', '_')}")
        line = Line(words, f"keras-vit {name}", command.__doc__)
        read(command.Arguments, line, getattr(command, "defaults", None))


def _commands(text: str) -> list[list[str]]:
    """The words of each command of an indented block, without "keras-vit"."""
    joined = text.replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^    keras-vit (.*)", joined, re.MULTILINE)]


@pytest.mark.once
@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text())
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


@pytest.mark.once
def test_notebooks_are_stored_without_outputs():
    for path in (ROOT / "examples").glob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs"), path
            assert not cell.get("execution_count"), path


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.endswith("-gap")])
def test_its_parameter_counts_are_exact(name):
    assert re.search(
        rf"{re.escape(name)}( \(for tiny images\))? \| {parameter_count(VARIANTS[name]):,} ", README
    )


@pytest.mark.once
def test_its_table_of_augmentations_is_complete():
    section = (ROOT / "docs/training.md").read_text().split("## Augmentation")[1].split("\n## ")[0]
    named = {
        name
        for line in section.splitlines()
        if line.startswith("| `") and "`--augment`" not in line
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named == set(AUGMENTATIONS)
