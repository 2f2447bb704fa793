"""The commands of README.md and docs/: each is read, and run once, in its page's order.

They run as they are written, in a folder that has what the pages speak of, with options behind them
that make them quick. What cannot run here, or repeats another command, is in `NOT_RUN`, with
the reason.
"""

import dataclasses
import importlib
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import deploy
from keras_vit.cli import COMMANDS
from keras_vit.cli._arguments import read
from keras_vit.specs import ViTSpec
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import find_weights

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
BUNDLES = ("float32", "float16", "int8")
PROGRAMS = "keras-vit|python|make|npm|adb|mkdir|pip|pytest|export"
QUICK = "--batch-size 8 --image-size 16 --augment none --warmup 10% --no-jit"
# For each command, the options behind it.
SMALL = {
    "fit": f"{QUICK} --duration '60 steps' --learning-rate 0.003 --optimizer adamw --overwrite",
    "sweep": f"{QUICK} --duration '4 steps' --learning-rates 0.001 0.003 --out runs/swept",
    "compare": f"{QUICK} --duration '4 steps' --models ViT_Pico4 BiT_R8x1 --fractions 1 --seeds 1",
    "export": "--images 16 --calibrate 8 --threads 1",
    "zero-shot": "--images 16 --calibrate 8 --threads 1",
    "compress": "--duration '2 steps' --images 16 --threads 1 --max-drop 100",
    "fewshot": "--neighbours 2",
    "inspect": "--images 8 --show 2",
    "transfer": f"{QUICK} --duration '4 steps' --learning-rates 0.001 --seeds 1",
    "android": "--app android_demo",
}
DEVICES = f"{QUICK} --data photos --model ViT_Pico4 --duration '4 steps' --overwrite"
# The same for the lines that begin so.
LINES = {
    "keras-vit android --bundle runs/flowers/export/int8 --zip": "",
    "keras-vit fit --data digits --strategy mirrored": DEVICES,
    "keras-vit fit --data digits --dry-run": "",
    "keras-vit fit --recipe cifar10": f"--data flower_photos {SMALL['fit']}",
    "keras-vit fit --out runs/flowers --resume": "--duration '64 steps'",
    "keras-vit fit --recipe mae": f"{SMALL['fit']} --duration '4 steps' --decoder-dim 16 "
    "--decoder-depth 1 --decoder-heads 2 --image-size 32",
    "keras-vit compare --recipe cifar10": f"--data flower_photos {SMALL['compare']}",
    "keras-vit sweep --data digits": f"--data flower_photos {SMALL['sweep']}",
    "keras-vit compare --data flower_photos": f"{QUICK} --duration '2 steps' --seeds 1",
    "keras-vit transfer --weights imagenet21k --model ViT_B16 --dry-run": "",
    "keras-vit transfer --weights ViT-B_16.npz --tasks cifar10 --duration": (
        f"{SMALL['transfer']} --sources cifar10=cifar10:cifar"
    ),
    "keras-vit fit --data digits --model ViT_Pico4": f"{QUICK} --duration '2 steps' --overwrite",
    "keras-vit fit --data photos --model ViT_B16 --batch-size 1024 --precision mixed_bfloat16 "
    "--strategy mirrored": f"{DEVICES} --logical-devices 2 --precision float32",
    "keras-vit export --run runs/demo --quantize none float16 dynamic int8 --gpu auto": (
        f"{SMALL['export']} --quantize none"
    ),
}
# The reason for lines that begin so. The options of all commands of keras_vit are read anyway.
NOT_RUN = {
    "make demo": "a check of its own, in tests/check.py",
    "make test": "it runs the tests",
    "make apk": "`make android-test` builds the app, with Maven",
    "make libraries": "`test_app.py libraries` publishes them, with Maven",
    "make android-setup": "it installs Debian packages",
    "adb": "needs a phone",
    "keras-vit zero-shot --weights google/": "a download of 1.5 GB; a folder is run",
    "keras-vit fit --data photos_and_masks --task segmentation --weights facebook/": "a download; "
    "tests/training/test_segmentation.py begins with weights",
    "keras-vit export --weights facebook/": "a download; a run is exported",
    "keras-vit index photos --bundle bundles/dinov2": "the same",
    "keras-vit run photo.jpg --bundle bundles/dinov2": "the same",
    "keras-vit web --bundle bundles/dinov2": "the same",
    "keras-vit web --bundle bundles/maps": "the same",
    "keras-vit bench": "needs a phone; tests/deploy/phone has a fake one",
    "keras-vit android --bundle runs/flowers/export/int8 --push": "the same",
    "pip install": "tests/commands/check_wheel.py installs the package",
    "npm": "downloads; `make web-test` calls it",
    "mkdir cifar": "downloads CIFAR-10",
    "python -m http.server": "serves until it is stopped",
    "python benchmarks/": "takes minutes to hours; tests/benchmarks has their tests",
    "python train/benchmark.py": "the same",
    "keras-vit fit --data photos --model ViT_B16 --batch-size 1024 --precision mixed_bfloat16 "
    "--strategy tpu": "needs a TPU",
    "keras-vit fit --data photos --out runs/photos": "needs several machines; "
    "tests/training/test_engines.py trains with these strategies in two processes",
    "export TF_CONFIG": "the same",
    "export KERAS_DISTRIBUTION": "the same",
    "keras-vit transfer --weights imagenet21k --model ViT_B16 --suite": "needs the paper's data",
    "keras-vit evaluate --weights": "needs ImageNet; test_transfer.py has a tiny one",
    **{
        f"keras-vit compare --data {words}": "like the comparisons that are run; "
        "tests/training/test_ablations.py makes the variations"
        for words in (
            "flower_photos --models ViT_Pico4 --ablation pooling",
            "flower_photos --models ViT_Pico4 --ablation patch_size",
            "flower_photos --models ViT_Pico4 --ablation depth",
            "flower_photos --models ViT_Pico4 --variations num_heads",
            "digits --models",
            "photographs/",
        )
    },
}


class Command(NamedTuple):
    """A line of a page, without the variables in front of it."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)

    @property
    def reason(self) -> str | None:
        """Why it is not run here; None if it is."""
        if self.line.startswith("keras-vit web") and not deploy.has_litert_js(ROOT / "web_demo"):
            return "needs `npm ci --prefix web_demo`"
        return next((why for begin, why in NOT_RUN.items() if self.line.startswith(begin)), None)

    @property
    def quick(self) -> list[str]:
        """Its words after the name of the command, with what makes it quick."""
        _, name, *words = self.words
        begins = [options for begin, options in LINES.items() if self.line.startswith(begin)]
        return [*words, *shlex.split(begins[0] if begins else SMALL.get(name, ""))]


def commands(page: str) -> list[Command]:
    """The commands in the indented blocks of a page, in their order."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [" ".join(line.split()) for line in re.findall(r"^    +(\S.*)", text, re.MULTILINE)]
    found = (re.fullmatch(rf"(?:\w+=\S+ )*((?:{PROGRAMS}) .*)", line) for line in lines)
    return [Command(page, match[1]) for match in found if match]


ALL = [command for page in PAGES for command in commands(page)]
FIRST = {each.line: each for each in reversed(ALL)}  # of those that are equal


def test_every_reason_is_still_needed():
    lines = [command.line for command in ALL]
    begins = (*NOT_RUN, *LINES)
    assert [each for each in begins if not any(line.startswith(each) for line in lines)] == []


def test_options_are_known(folder):
    bundles = [f"{run}/export/{name}" for run in ("flowers", "demo", "masks") for name in BUNDLES]
    for file in (
        *(f"{bundle}/model.json" for bundle in bundles), "mae/spec.json", "mae/weights.npz",
        "masks/spec.json",
    ):  # fmt: skip
        (folder / "runs" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "runs" / file).touch()
    for name in (
        "words/float16", "dinov2/dynamic", "features/float16", "maps/dynamic", "parts/float16",
    ):  # fmt: skip
        (folder / "bundles" / name).mkdir(parents=True)
        (folder / "bundles" / name / "model.json").touch()
    (folder / "bundles/table.json").touch()
    for _, name, *words in (each.words for each in ALL if each.words[0] == "keras-vit"):
        command = importlib.import_module(f"keras_vit.cli.{name.replace('-', '_')}")
        read(command.Arguments, words, getattr(command, "defaults", None))


def test_options_of_benchmarks_are_known(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for _, script, *words in (each.words for each in ALL if each.words[0] == "python"):
        if script.startswith(("benchmarks/", "train/")):
            name = Path(script.replace("train/benchmark", "benchmarks/training_step")).stem
            module = importlib.import_module(name)
            if hasattr(module, "Arguments"):  # otherwise it has a parser of its own
                read(module.Arguments, words)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({each.page for each in FIRST.values() if not each.reason}))
def test_commands_run(page, folder, invoke, command):
    for each in dict.fromkeys(commands(page)):
        if FIRST[each.line] != each and each.words[1] != "export":  # others need its bundles
            continue
        if each.reason:
            print(f"not run: {each.line} ({each.reason})")
            continue
        script = COMMANDS[each.words[1]]
        if each.words[1] == "compress" or "--strategy" in each.words:  # they need tf_keras
            done = command(script, *each.quick, cwd=folder)
            code, error = done.returncode, done.stderr
        else:
            code, _, error = invoke(script, *each.quick, cwd=folder)
        assert code == 0, f"{each.line}\n{shlex.join(each.quick)}\n{error}"


@pytest.fixture
def folder(tmp_path, trained_run, shared_folder, randomised, publish, monkeypatch, rng):
    """A folder with all that the pages speak of; models are small, under their own names."""
    monkeypatch.chdir(tmp_path)
    for name, spec in VARIANTS.items():
        if isinstance(spec, ViTSpec):
            small = dataclasses.replace(spec, hidden_dim=32, depth=1, num_heads=2, mlp_dim=48)
            monkeypatch.setitem(VARIANTS, name, small)
    model = keras_vit.ViT_B16(num_classes=2, image_size=32)
    keras_vit.save_weights(randomised(model), "ViT-B_16.npz")
    for name in ("ViT-S_16 augreg", "ViT-B_16 augreg", "ViT-B_16 imagenet21k", "EVA02-Ti_14 timm"):
        entry = find_weights(*name.split())
        spec = VARIANTS[entry.model]
        publish(keras_vit.ViT(spec, entry.num_classes, entry.image_size), entry)
    _write_cifar(tmp_path / "cifar", rng)
    _write_masks(tmp_path / "photos_and_masks", rng)
    for run in ("demo", "flowers", "small", "cifar10", "cifar10-camera", "digits"):
        shutil.copytree(trained_run.path, tmp_path / "runs" / run)
    for data in (
        "photos", "pictures", "more_photos", "pets", "photographs/fruit", "photographs/small",
        "flower_photos/train", "flower_photos/val", "flower_photos/test",
    ):  # fmt: skip
        shutil.copytree(shared_folder, tmp_path / data)
    shutil.copytree(ROOT / "tests/fixtures/zero_shot/siglip2", tmp_path / "siglip2")
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "others.txt").write_text("cat\ndog\nhouse\n")
    (tmp_path / "templates.txt").write_text("a photo of a {}.\na drawing of a {}.\n")
    for name in ("photo.jpg", "horse.jpg"):
        shutil.copyfile(next(shared_folder.glob("*/*.jpg")), tmp_path / name)
    (tmp_path / "android_demo/app/src/main").mkdir(parents=True)
    (tmp_path / "android_demo/app/src/main/AndroidManifest.xml").touch()
    return tmp_path


def _write_masks(folder, rng):
    """Ten pictures with masks of three classes."""
    for kind, shape, levels in (("images", (24, 32, 3), 256), ("masks", (24, 32), 3)):
        (folder / kind).mkdir(parents=True)
        for i in range(10):
            values = rng.integers(0, levels, shape, np.uint8)
            Image.fromarray(values).save(folder / kind / f"{i}.png")


def _write_cifar(folder, rng):
    """CIFAR-10's binary files with two images of each class."""
    folder.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (20, 3073)).astype(np.uint8)
        rows[:, 0] = np.arange(20) % 10
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
