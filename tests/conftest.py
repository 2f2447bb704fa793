"""Fixtures for all tests: seeds, a small spec, folders of real image files, a trained run."""

import dataclasses
import fcntl
import functools
import gc
import importlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

# keras_vit is imported by the fixtures, because pytest-xdist's first process does not need Keras.

ROOT = Path(__file__).parents[1]
TINY_MODEL = "ViT-Test_8"
TINY_SPEC = {"patch_size": 8, "hidden_dim": 32, "depth": 1, "num_heads": 2, "mlp_dim": 48}


def pytest_report_header():
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
    return f"Keras: {version('tf_keras' if legacy else 'keras')}"


def pytest_collection_finish():
    """Undoes what the imported modules did to the process.

    Keras collects garbage for each layer that it quantises, and the converter for each file. With
    TensorFlow's objects, a collection takes 0.3 s; without them, almost no time.
    """
    gc.collect()
    gc.freeze()
    # Keras imports JAX, which sets this variable. Commands that inherit it would take it for the
    # user's setting.
    os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """No test reads or writes the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_VIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _seeded():
    from keras_vit._keras import keras

    keras.utils.set_random_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Inputs and outputs of the reference implementation."""
    return Path(__file__).parent / "fixtures"


@pytest.fixture
def small_spec():
    """A spec with 2 blocks and 3 heads, so that heads and tokens cannot be confused."""
    from keras_vit import ViTSpec

    return ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)


@pytest.fixture
def augreg_index(tmp_path, monkeypatch):
    """A cache of its own, without a network, with an index of AugReg that names this one file."""
    from keras_vit.weights import augreg
    from keras_vit.weights.cache import cached_path

    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    best = "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k"
    best += "-lr_0.01-res_224"
    columns = [field.name for field in dataclasses.fields(augreg.IndexRow)]
    cells = dict.fromkeys(columns, "") | {
        "name": "S/16", "ds": "i21k", "adapt_ds": "imagenet2012", "adapt_resolution": "224",
        "adapt_final_val": "0.8", "adapt_filename": best,
    }  # fmt: skip
    index = cached_path(augreg.INDEX_URL)
    index.parent.mkdir(parents=True)
    index.write_text("\n".join(",".join(line) for line in (columns, cells.values())))
    return best


@pytest.fixture
def randomised():
    """Sets every weight of a model to random values, because zeros (head) could hide errors."""

    def fill(model):
        generator = np.random.default_rng(1)
        for variable in model.weights:
            noise = generator.normal(0, 0.1, tuple(variable.shape)).astype(np.float32)
            variable.assign(np.asarray(variable) + noise)
        return model

    return fill


@pytest.fixture
def seeded_weights(tmp_path):
    """Writes the seeded weights that `fixtures/README.md` describes, and returns the file."""

    write = runpy.run_path(str(ROOT / "tests/fixtures/seeded_weights.py"))["write"]
    return functools.partial(write, tmp_path)


@pytest.fixture
def prepare_tfds(tmp_path, monkeypatch):
    """Prepares a data set of TensorFlow Datasets with its own features from a few examples."""
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))

    def prepare(name, **examples):
        import tensorflow_datasets as tfds

        builder = tfds.builder(name, data_dir=tmp_path / "catalogue")
        name, _, config = name.partition("/")
        written = tfds.dataset_builders.store_as_tfds_dataset(
            name,
            str(builder.info.version),
            builder.info.features,
            {split: enumerate(each) for split, each in examples.items()},
            config=config or None,
            data_dir=tmp_path / "tfds",
            file_format="tfrecord",
            disable_shuffling=True,
        )
        return Path(written.data_dir)

    return prepare


@pytest.fixture(scope="session")
def variants():
    """Each field of a JSON file with each wrong value: descriptions and contents."""
    return runpy.run_path(str(ROOT / "tests/fixtures/hostile_json.py"))["variants"]


def make_image_folder(folder: Path, classes=("blue", "red"), count=6) -> Path:
    """Pictures that a tiny model can tell apart: JPEG, PNG, grey, RGBA, odd sizes."""
    generator = np.random.default_rng(0)
    modes = ("RGB", "RGB", "RGBA", "RGB", "P", "RGB")
    for target, label in enumerate(classes):
        (folder / label).mkdir(parents=True)
        for i in range(count):
            height, width = generator.integers(20, 60, 2)
            pixels = generator.integers(0, 60, (height, width, 3))
            pixels[..., (2, 0, 1)[target]] += 180
            image = Image.fromarray(pixels.astype(np.uint8)).convert(modes[i % len(modes)])
            suffix = "png" if i % 2 or image.mode != "RGB" else "jpg"
            image.save(folder / label / f"{i}.{suffix}")
    return folder


@pytest.fixture
def image_folder(tmp_path):
    return make_image_folder(tmp_path / "pictures")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """`image_folder` for tests that do not change it."""
    return make_image_folder(tmp_path_factory.mktemp("shared") / "pictures")


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    """A run folder: three epochs of real training of a tiny model on real images.

    One process of pytest-xdist trains it, and each gets a copy.
    """
    from keras_vit import runs
    from keras_vit.data import digits
    from keras_vit.training import RECIPES, train

    recipe = dataclasses.replace(RECIPES["digits"], duration="3 epochs", image_size=16, jit=False)
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "trained"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "trained").exists():
            _add_tiny_model(patch)
            train(TINY_MODEL, digits(), recipe, shared / "digits")
            (shared / "trained").touch()
    return runs.open_run(shutil.copytree(shared / "digits", own / "runs" / "digits"))


@pytest.fixture(scope="module")
def tiny_model():
    """The name of a model with one block, because tracing takes most of the time of a short run."""
    with pytest.MonkeyPatch.context() as patch:
        _add_tiny_model(patch)
        yield TINY_MODEL


def _add_tiny_model(patch):
    from keras_vit.specs import ViTSpec
    from keras_vit.variant_specs import VARIANTS

    patch.setitem(VARIANTS, TINY_MODEL, ViTSpec(**TINY_SPEC))


@pytest.fixture
def invoke(monkeypatch, capsys):
    """Runs a command in this process: (exit code, standard output, standard error)."""

    def run(script, *arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", [str(ROOT / script), *map(str, arguments)])
        capsys.readouterr()
        try:
            runpy.run_path(str(ROOT / script), run_name="__main__")
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        out, error = capsys.readouterr()
        for line in re.findall("^next: +python (.*)", out, re.MULTILINE):
            _check_arguments(*shlex.split(line))
        return code, out, error

    return run


def _check_arguments(script, *words):
    """Reads the command that was printed as the next one, with all checks of its arguments."""
    from keras_vit.cli import COMMANDS, _arguments

    script = str(Path(script).resolve().relative_to(ROOT))
    [name] = [name for name, each in COMMANDS.items() if each == script]
    module = importlib.import_module(f"keras_vit.cli.{name.replace('-', '_')}")
    _arguments.read(module.Arguments, words, getattr(module, "defaults", None))


@pytest.fixture
def command():
    """Runs a command of the project as a user does, from another folder."""

    def run(script, *arguments, cwd, check=None, **options):
        return _run_python(ROOT / script, *arguments, cwd=cwd, check=check, **options)

    return run


@pytest.fixture
def python():
    """Runs Python with variables of its own, and without those of the tests for Keras."""
    ours = ("TF_", "KERAS_BACKEND")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def run(*words, check=0, cwd=None, **environment):
        return _run_python(*words, check=check, cwd=cwd, env=kept | environment)

    return run


def _run_python(*words, check, **options):
    result = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, timeout=240, **options
    )
    if check is not None:
        assert result.returncode == check, result.stdout + result.stderr
    return result


@pytest.fixture(scope="session")
def pictures():
    """Makes preprocessed images that differ in colour and contrast, as pictures do."""

    def make(count, size):
        generator = np.random.default_rng(2)
        contrast, colour = generator.uniform(0.1, 0.5, (2, count, 1, 1, 3))
        noise = generator.uniform(-1, 1, (count, *size, 3))
        pixels = np.rint(127.5 + 127.5 * (contrast * noise + 2 * colour - 0.5))
        return ((np.clip(pixels, 0, 255) - 127.5) / 127.5).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def trained_like():
    """Sets kernels that keep the scale of their input, and random norms and biases."""

    from keras_vit.weights.names import weight_names

    def fill(model):
        generator = np.random.default_rng(1)
        for name in weight_names(model.spec, model.num_classes, model.image_size):
            variable = name.variable(model)
            values = generator.normal(0, 1, variable.shape)
            scale = len(values) ** -0.5 if name.path.endswith("/kernel") else 0.1
            variable.assign((name.path.endswith("/gamma") + scale * values).astype(np.float32))
        return model

    return fill
