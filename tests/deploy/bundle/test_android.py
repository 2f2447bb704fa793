"""Bundles in the assets of the Android app, by the library and by the command."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, deploy, runs
from keras_vit.cli import _bundles
from keras_vit.data.sources import open_source
from keras_vit.data.split import split_source

DEMO = Path(__file__).parents[3] / "android_demo"
COMMAND = "export/to_android.py"
FILES = {"model.tflite", "model.json", "labels.txt", "golden.json"}


@pytest.fixture
def app(tmp_path):
    """The parts of an Android project that the command looks at."""
    main = tmp_path / "app_project" / "app" / "src" / "main"
    main.mkdir(parents=True)
    (main / "AndroidManifest.xml").write_text("<manifest/>")
    return tmp_path / "app_project"


@pytest.fixture
def bundle(sample, tmp_path):
    """The sample's float32 bundle, where an export of a run writes it."""
    folder = tmp_path / "runs" / "flowers" / "export" / "float32"
    deploy.write_bundle(folder, sample.exported("none"), np.zeros((8, 8, 3), np.uint8))
    (folder / "recipe.json").write_text("{}")
    return folder


@pytest.fixture
def make_run(sample, tmp_path):
    """Makes a run of pictures of these classes, and writes its files beside its bundle."""

    def make(*labels, side=20):
        data = tmp_path / "pictures"
        exif = Image.Exif()
        exif[0x010E] = "at home"
        for target, label in enumerate(labels):
            (data / label).mkdir(parents=True)
            for i in range(4):
                picture = Image.new("RGB", (side, side * 3 // 4), (0, 20 * target, 0))
                picture.save(data / label / f"{i}.jpg", exif=exif)
        source = open_source(data)
        model, written = sample.model, tmp_path / "written"
        runs.create_run(written, model, source, split_source(source), {"recipe": {}}, "fresh")
        return shutil.copytree(written, tmp_path / "runs" / "flowers", dirs_exist_ok=True)

    return make


def test_samples_are_small_pictures_without_metadata_named_after_their_classes(
    make_run, app, tmp_path
):
    labels = ("a b", "a-b", "rose", "Rose.", "玫瑰", *"fghij")
    bundle = make_run(*labels, side=1000) / "export" / "int8"
    bundle.mkdir(parents=True)
    shutil.copy(bundle.parents[1] / "labels.txt", bundle)
    line = deploy.add_samples(bundle, app, count=10)
    assert line == f"10 held-out pictures of {tmp_path / 'pictures'}"
    samples = sorted(deploy.samples_of_app(app).iterdir())
    order = open_source(tmp_path / "pictures").labels
    assert {path.name.lower() for path in samples} == {
        f"{name}.jpg"
        for name in ("a-b", "a-b-2", "rose", "rose-2", f"class-{order.index('玫瑰')}", *"fghij")
    }
    for path in samples:
        with Image.open(path) as picture:
            assert (picture.format, picture.size) == ("JPEG", (640, 480))
            assert not picture.getexif()


def test_samples_of_tiny_pictures_keep_their_pixels(make_run, app, tmp_path):
    bundle = make_run(*"abcdefghij") / "export" / "int8"
    bundle.mkdir(parents=True)
    shutil.copy(bundle.parents[1] / "labels.txt", bundle)
    deploy.add_samples(bundle, app, count=4)
    names = [path.name for path in deploy.samples_of_app(app).iterdir()]
    assert [Path(name).suffix for name in names] == [".png"] * 4
    held_out = json.loads((bundle.parents[1] / "split.json").read_text())["held_out"]
    for name in names:
        [original] = [each for each in held_out if each.startswith(f"{Path(name).stem}/")]
        pixels = np.asarray(Image.open(deploy.samples_of_app(app) / name))
        np.testing.assert_array_equal(pixels, Image.open(tmp_path / "pictures" / original))


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_the_app_gets_exactly_the_files_that_it_reads(bundle, app):
    folder = deploy.add_to_app(bundle, app)
    assert folder == app / "app" / "own" / "bundles" / "flowers-float32"
    assert hashes(folder) == {k: v for k, v in hashes(bundle).items() if k in FILES}
    (folder / "labels.txt").write_text("changed")
    deploy.add_to_app(bundle, app)  # an older one is replaced
    assert hashes(folder)["labels.txt"] == hashes(bundle)["labels.txt"]
    assert deploy.check_golden(folder).passed


@pytest.mark.parametrize("name", ["", "../outside", "a/b", "with space", ".hidden", "é", "x" * 65])
def test_names_that_assets_cannot_have_are_refused(bundle, app, name):
    with pytest.raises(UsageError, match="up to 64 letters, digits"):
        deploy.add_to_app(bundle, app, name)
    assert not deploy.bundles_of_app(app).exists()


def test_a_damaged_bundle_leaves_the_app_as_it_was(bundle, app):
    folder = deploy.add_to_app(bundle, app)
    before = hashes(folder)
    model = bundle / "model.tflite"
    model.write_bytes(model.read_bytes()[:-1] + b"?")
    with pytest.raises(UsageError, match="is not the file that model.json describes"):
        deploy.add_to_app(bundle, app)
    assert hashes(folder) == before


def test_the_command_copies_nothing_if_one_of_the_bundles_is_damaged(invoke, bundle, app, tmp_path):
    old = deploy.add_to_app(bundle, app, "old")
    damaged = bundle.with_name("damaged")
    shutil.copytree(bundle, damaged)
    (damaged / "labels.txt").unlink()
    arguments = (COMMAND, "--app", app, "--only", "--bundle", bundle, damaged)
    code, _, error = invoke(*arguments, cwd=tmp_path)
    assert code == 2
    assert "labels.txt" in error
    assert list(old.parent.iterdir()) == [old]


def test_names_come_from_the_run_and_the_folder(tmp_path):
    assert deploy.bundle_name(tmp_path / "runs" / "my flowers" / "export" / "int8") == (
        "my-flowers-int8"
    )
    assert deploy.bundle_name(tmp_path / "int8") == "int8"


def test_the_command_adds_samples_of_the_run(invoke, bundle, make_run, app, tmp_path):
    make_run(*"abcdefghij")
    arguments = (COMMAND, "--bundle", bundle, "--app", app)
    code, out, error = invoke(*arguments, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert f"samples: 8 held-out pictures of {tmp_path / 'pictures'}" in out
    samples = deploy.samples_of_app(app)
    assert len(list(samples.iterdir())) == 8
    invoke(*arguments, "--only", "--samples", "0", cwd=tmp_path)
    assert not samples.exists()
    (tmp_path / "pictures").rename(tmp_path / "moved")
    code, out, error = invoke(*arguments, cwd=tmp_path)
    assert code == 0
    [line] = error.splitlines()
    assert line.startswith("warning: no samples are added, the bundle's own picture")
    assert "with --data=FOLDER" in line
    assert not samples.exists()
    invoke(*arguments, "--data", tmp_path / "moved", cwd=tmp_path)
    assert len(list(samples.iterdir())) == 8


def test_a_bundle_of_another_run_gets_no_samples(bundle, make_run, app):
    make_run("x", *"bcdefghij")
    with pytest.raises(UsageError, match="has other classes than"):
        deploy.add_samples(bundle, app)
    moved = shutil.copytree(bundle, app / "float32")
    with pytest.raises(UsageError, match="is not in the folder export of a run"):
        deploy.add_samples(moved, app)
    assert not deploy.samples_of_app(app).exists()


def test_git_sees_nothing_of_what_the_command_writes():
    if not (DEMO.parent / ".git").exists():
        pytest.skip("this copy has no .git, so nothing says what git ignores")
    written = [
        deploy.bundles_of_app(DEMO) / "a/model.tflite",
        deploy.samples_of_app(DEMO) / "a.jpg",
    ]
    done = subprocess.run(
        ["git", "check-ignore", *written], cwd=DEMO, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == list(map(str, written))


@pytest.mark.parametrize(
    ("script", "command", "folder"),
    [(COMMAND, "android", "android_demo"), ("export/to_web.py", "web", "web_demo")],
)
def test_outside_a_clone_the_commands_say_what_to_type(
    invoke, bundle, tmp_path, monkeypatch, script, command, folder
):
    monkeypatch.setattr(_bundles, "_CLONE", tmp_path / "site-packages")
    relative = bundle.relative_to(tmp_path)
    words, typed = {
        "android": (["--only", "--samples", "3"], "--only --samples 3"),
        "web": (
            ["--name", "my roses", "--out", "page"],
            f"--name 'my roses' --out {tmp_path}/page",
        ),
    }[command]
    code, _, error = invoke(script, "--bundle", relative, *words, cwd=tmp_path)
    assert code == 2
    [line] = error.splitlines()
    assert f"the folder {folder} is not in the installed package" in line
    assert line.endswith(
        f"in a clone of keras_vit, run: keras-vit {command} --bundle {bundle} {typed}"
    )


def test_the_command_lists_what_the_app_has(invoke, bundle, app, tmp_path):
    other = deploy.add_to_app(bundle, app, "other")
    arguments = ("--bundle", bundle, "--app", app)
    code, out, error = invoke(COMMAND, *arguments, "--samples", "0", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert f"to have the digits back, remove {app / 'app/own'}." in out
    lines = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert [(line[0], line[-1]) for line in lines] == [("flowers-float32", "new"), ("other", "MiB")]
    arguments += ("--name", "mine", "--only", "--samples", "0")
    code, out, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "removed: flowers-float32, other\n" in out
    assert [path.name for path in other.parent.iterdir()] == ["mine"]


def test_only_bundles_are_listed_and_removed(invoke, bundle, app, tmp_path):
    folder = deploy.bundles_of_app(app)
    old = deploy.add_to_app(bundle, app, "old")
    (folder / ".DS_Store").write_text("")
    (folder / "notes").mkdir()
    arguments = (COMMAND, "--bundle", bundle, "--app", app, "--name", "mine", "--samples", "0")
    code, out, error = invoke(*arguments, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == [
        "mine",
        "old",
    ]
    code, _, error = invoke(*arguments, "--only", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert not old.exists()
    assert {path.name for path in folder.iterdir()} == {".DS_Store", "notes", "mine"}


def test_a_bundle_may_be_named_by_the_model_in_it(invoke, bundle, app, tmp_path):
    code, _, error = invoke(
        COMMAND, "--bundle", bundle / "model.tflite", "--app", app, "--samples", "0", cwd=tmp_path
    )
    assert (code, error) == (0, "")
    assert [path.name for path in deploy.bundles_of_app(app).iterdir()] == ["flowers-float32"]


def test_a_bundle_that_is_too_new_for_the_apps_runtime_is_a_warning(invoke, bundle, app, tmp_path):
    pom = app / "pom.xml"
    arguments = (COMMAND, "--bundle", bundle, "--app", app)
    for runtime, warned in (("2.16.1", False), ("2.1.0", True)):
        pom.write_text(f"<tflite.version>{runtime}</tflite.version>")
        code, _, error = invoke(*arguments, cwd=tmp_path)
        assert code == 0
        assert (f"has TensorFlow Lite {runtime}, which will refuse it" in error) == warned, error
    description = json.loads((bundle / "model.json").read_text())
    (bundle / "model.json").write_text(json.dumps(description | {"runtime_floor": "LiteRT 2.1.0"}))
    pom.write_text("<tflite.version>2.16.1</tflite.version>")
    assert "needs LiteRT 2.1.0" in deploy.too_new_for_app(bundle, app)
    (bundle / "model.json").write_text(json.dumps(description | {"runtime_floor": "unknown"}))
    assert deploy.too_new_for_app(bundle, app) is None


def test_the_apps_own_bundles_run_on_its_runtime():
    bundles = list((DEMO / "app/src/main/assets/bundles").iterdir())
    assert bundles
    assert [deploy.too_new_for_app(bundle, DEMO) for bundle in bundles] == [None] * len(bundles)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bundle", "runs/flowers/export/float32", "--samples", "-1"), "--samples must be at"),
        ((), "to_android.py --bundle runs/flowers/export/int8"),
        (("--bundle", "a", "b", "--name", "c"), "--name takes a name for each of the 2 bundles"),
        (("--bundle", "runs/flowers/export/float32", "--app", "."), "expected the folder android_"),
        (("--bundle", "runs/flowers", "--app", "app_project"), "expected a bundle's folder. Rec"),
        (
            ("--bundle", *["runs/flowers/export/float32"] * 2, "--app", "app_project"),
            "each bundle needs a name of its own",
        ),
    ],
)
def test_mistakes_are_one_line(invoke, bundle, app, tmp_path, arguments, message):
    code, _, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 2
    [line] = error.strip().splitlines()
    assert message in line
    assert not list(app.rglob("bundles"))
