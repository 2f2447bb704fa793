"""Imports only go down the levels, without circles; importing is quick and silent."""

import ast
import collections
import contextlib
import functools
import graphlib
import importlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

from keras_vit import UsageError
from keras_vit.cli import COMMANDS

ROOT = Path(__file__).parents[1]
# CONTRIBUTING.md draws this map. Private modules (`_files`, `_errors` ...) are level 0.
LEVELS = {
    **dict.fromkeys(("specs", "variant_specs", "labels", "neighbours", "bilinear"), 0),
    **dict.fromkeys(("layers", "encoder"), 0),
    **dict.fromkeys(("weights", "models", "data"), 1),
    **dict.fromkeys(("mask_metrics", "decoded_masks", "decoded_segments"), 1),
    **dict.fromkeys(("recipe", "runs", "frozen_features", "tflite", "zero_shot"), 2),
    **dict.fromkeys(("training", "evaluation", "deploy"), 3),
    **dict.fromkeys(("_public", "cli"), 4),
    "__main__": 5,
}
CODE = ("keras_vit", "train", "export", "benchmarks", "tests")
HEAVY = {"numpy", "keras", "tf_keras", "tensorflow", "jax"}
HEAVY |= {"matplotlib", "PIL", "sklearn", "jinja2"}
BACKEND_FREE = {"specs", "variant_specs", "encoder", "layers", "weights", "models", "zero_shot"}


def room(module: str) -> str | None:
    """The room of `keras_vit.deploy.judge.parity` is `deploy`."""
    parts = module.split(".")
    return parts[1] if parts[0] == "keras_vit" and len(parts) > 1 else None


@functools.cache
def imports() -> dict[str, set[str]]:
    """Each module of the package, and all that it imports, at the top or inside functions."""
    actual = {}
    for file in sorted((ROOT / "keras_vit").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        names = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                names |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        actual[".".join(parts).removesuffix(".__init__")] = names
    return actual


def test_only_commands_change_what_all_threads_of_a_process_share():
    shared = {"catch_warnings", "simplefilter", "redirect_stdout", "redirect_stderr"}
    shared |= {"umask", "dup2", "setLevel", "chdir", "setrecursionlimit"}
    found = {
        (file.relative_to(ROOT / "keras_vit").parts[0], name)
        for file in (ROOT / "keras_vit").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in shared & {getattr(node, "attr", None), getattr(node, "id", None)}
    }
    assert found == {("_quiet.py", "dup2"), ("cli", "dup2")}


def test_every_room_has_a_level():
    rooms = {room(module) for module in imports()} - {None}
    private = {name for name in rooms if re.match("_[a-z]", name)}
    assert rooms - LEVELS.keys() == private - {"_public"}


def test_imports_go_down():
    wrong, rooms = [], {room(module) for module in imports()}
    for module, names in imports().items():
        here = room(module)
        if here is None:
            continue
        for name in names:
            there = room(name)
            if there in (None, here) or "keras_vit." not in name:
                continue
            # Importing from keras_vit itself would hide the module that defines a name.
            assert there in rooms, f"{module} imports {name}"
            level, target = LEVELS.get(here, 0), LEVELS.get(there, 0)
            if target > level or level == target == 3:
                wrong.append(f"{module} (level {level}) imports {name} (level {target})")
    assert not wrong


@pytest.mark.flavours
def test_imported_names_exist():
    """Benchmarks and soaks import in functions, which few tests run."""
    imported = {
        ast.unparse(node)
        for file in (file for code in CODE for file in (ROOT / code).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "keras_vit"
    }
    for line in sorted(imported):
        with contextlib.suppress(UsageError):  # a module is for the other flavour
            exec(line, {})


def test_there_is_no_circle():
    graph = imports()
    # Modules of one package may import each other, and its __init__ may import them.
    edges = {
        here: {name for name in names & graph.keys() if not f"{here}.".startswith(f"{name}.")}
        for here, names in graph.items()
    }
    graphlib.TopologicalSorter(edges).prepare()  # its error names the circle


def test_there_is_no_circle_of_rooms_inside_deploy():
    """A room of `keras_vit.deploy` is a folder, or a module beside the folders."""
    edges = collections.defaultdict(set)
    for module, names in imports().items():
        if module.startswith("keras_vit.deploy."):
            here = module.split(".")[2]
            inside = [name for name in names if name.startswith("keras_vit.deploy.")]
            edges[here] |= {name.split(".")[2] for name in inside} - {here}
    graphlib.TopologicalSorter(edges).prepare()


def test_weights_build_no_model_and_the_encoder_needs_no_keras_and_neither_imports_tensorflow():
    for module, names in imports().items():
        assert room(module) != "weights" or "models" not in map(room, names), module
        assert room(module) != "encoder" or not {"_keras", "layers"} & {*map(room, names)}, module
        if room(module) in BACKEND_FREE:
            assert not {name.split(".")[0] for name in names} & {"tensorflow", "jax"}, module


@pytest.mark.parametrize("folder", ["train", "export"])
def test_commands_import_only_the_library(folder):
    for file in (ROOT / folder).glob("*.py"):
        assert file.stem not in sys.stdlib_module_names, f"{file} shadows a standard module"
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] not in ("train", "export")


def test_importing_loads_nothing_heavy_beyond_keras(python):
    program = (
        "import json, sys; import keras; before = set(sys.modules); import keras_vit;"
        "assert not {'Any', 'is_command'} & set(vars(keras_vit));"
        "assert 'keras_vit.deploy' not in sys.modules;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    # With JAX only keras_vit itself could import TensorFlow.
    loaded = set(json.loads(python("-c", program, KERAS_BACKEND="jax").stdout))
    assert not loaded & {"tensorflow", "matplotlib", "jinja2", "sklearn", "scipy"}
    assert not loaded & {"argparse", "ai_edge_litert"}


@pytest.mark.slow
def test_on_another_backend_nothing_is_printed_and_tensorflow_is_not_needed(python, tmp_path):
    program = (
        "import os, sys, numpy as np; from PIL import Image\n"
        "os.dup2 = None  # nothing may redirect a descriptor\n"
        "import keras_vit\n"
        "pixels = np.zeros((4, 4, 3), np.uint8); Image.fromarray(pixels).save('a.png')\n"
        "preprocessing = keras_vit.Preprocessing(2, 2)\n"
        "keras_vit.preprocess(pixels, preprocessing)\n"
        "keras_vit.preprocess('a.png', preprocessing)\n"
        "keras_vit.ViT_Pico4(2, 16)\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    # JAX prints nothing itself.
    result = python("-c", program, cwd=tmp_path, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
    assert (result.stdout, result.stderr) == ("", "")


@pytest.fixture
def base_install(python, tmp_path):
    """Runs Python where no backend of Keras is installed, as after `pip install keras_vit`."""
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find, absent = PathFinder.find_spec, ('tensorflow', 'jax', 'torch', 'tf_keras')\n"
        "PathFinder.find_spec = lambda name, path=None, target=None: (\n"
        "    None if name in absent else find(name, path, target))\n"
    )

    (tmp_path / "runs" / "newest").mkdir(parents=True)
    (tmp_path / "runs" / "newest" / "spec.json").touch()
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return functools.partial(python, check=None, cwd=tmp_path, PYTHONPATH=path)


@pytest.mark.parametrize(
    ("environment", "backend", "install"),
    [
        ({}, "tensorflow", "pip install 'keras_vit[tensorflow]'"),
        ({"KERAS_BACKEND": "jax"}, "jax", "pip install 'keras_vit[jax]'"),
        ({"KERAS_BACKEND": "torch"}, "torch", "pip install torch"),
    ],
)
def test_a_missing_backend_is_one_line(base_install, environment, backend, install):
    expected = f"Keras is set to the backend {backend}, which is not installed: {install}; or pip "
    result = base_install("-c", "import keras_vit", **environment)
    *frames, line = result.stderr.splitlines()
    assert line.startswith(f"keras_vit._errors.MissingPackageError: {expected}")
    assert not any("site-packages" in frame for frame in frames)  # nothing from inside Keras
    line = refused(base_install("-m", "keras_vit", "predict", __file__, **environment))
    assert line.startswith(f"python -m keras_vit predict: {expected}")


def refused(result):
    """The one line of a command that ended with a user's mistake."""
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    return line


def test_a_command_without_its_packages_or_with_an_unknown_backend_says_so_in_one_line(
    base_install,
):
    assert refused(base_install("-m", "keras_vit", "export")) == (
        "python -m keras_vit export: this command needs TensorFlow: "
        "pip install 'keras_vit[tensorflow]'"
    )
    for environment, message in (
        ({"KERAS_BACKEND": "caffe"}, "must be tensorflow, jax or torch. Received: caffe."),
        ({"TF_USE_LEGACY_KERAS": "1"}, "needs tf_keras: pip install 'keras_vit[tensorflow]'"),
    ):
        predict = base_install(ROOT / "train" / "predict.py", __file__, **environment)
        assert refused(predict).endswith(message)


def test_mistakes_are_found_before_a_backend_is_imported(base_install, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "spec.json").touch()
    run = str(tmp_path / "run")
    for words, message in (
        (("fit", "--data", "digits", "--out", run), "is a run; choose another folder"),
        (("fit", "--data", "digits", "--out", __file__), "is a file; choose another folder"),
        (("predict", "--run", run, "gone.png"), "gone.png: there is no such picture"),
        (("predict", "--run", run, run), "run contains no pictures"),
        (("run", "--bundle", run, __file__), "Received: a run; export it first"),
        (("fit", "--data", run), "run: expected two subfolders or more, one for each class"),
        *(((name,), "no run under ") for name in ("evaluate", "export", "inspect", "card")),
        *(((name,), "no run under ") for name in ("compress", "saved-model", "fewshot")),
        (("predict", __file__), "no run under "),
    ):
        result = base_install("-m", "keras_vit", *words, cwd=run)  # which holds no runs
        assert message in refused(result)


@pytest.mark.slow
def test_help_of_every_command_imports_nothing_heavy(python, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        f"atexit.register(lambda: print({HEAVY} & sys.modules.keys(), file=sys.stderr))\n"
    )
    console = tmp_path / "keras-vit"
    console.write_text("from keras_vit.cli import main; main()")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    for name, script in COMMANDS.items():
        for words in (("-m", "keras_vit", name), (ROOT / script,), (console, name)):
            result = python(*words, "--help", PYTHONPATH=path)
            assert result.stderr == "set()\n", words
            assert "options:" in result.stdout


def test_no_public_name_is_a_module_beside_it():
    # Importing the module would replace what `lazy_names` gives.
    for file in (ROOT / "keras_vit").glob("*/__init__.py"):
        public = getattr(importlib.import_module(f"keras_vit.{file.parent.name}"), "__all__", ())
        assert not {each.stem for each in file.parent.iterdir()} & {*public}


@pytest.mark.slow
def test_in_a_command_the_public_names_are_the_same_and_come_when_they_are_used(python):
    program = (
        "import sys; sys.argv = ['keras-vit']\n"
        "import keras_vit\n"
        "assert 'keras' not in sys.modules\n"
        "from keras_vit import _public\n"
        "for name in _public.__all__: assert getattr(keras_vit, name) is getattr(_public, name)\n"
        "assert keras_vit.export_tflite is keras_vit.deploy.export_tflite\n"
        "assert not hasattr(keras_vit, 'no_such_name')\n"
    )
    python("-c", program)
