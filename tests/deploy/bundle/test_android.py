"""Bundles in the assets of the Android app, by the library and by the command."""

import io
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, deploy, runs
from keras_vit.data.sources import open_source
from keras_vit.data.split import split_source

DEMO = Path(__file__).parents[3] / "android_demo"
COMMAND = "export/to_android.py"
FILES = {"model.tflite", "model.json", "labels.txt", "golden.json"}


@pytest.fixture
def make_run(sample, tmp_path):
    """Makes a run of pictures of these classes, and writes its files beside the bundle."""

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


def test_samples_are_small_pictures_named_after_their_classes(bundle, make_run):
    labels = ("a b", "a-b", "rose", "Rose.", "玫瑰", *"fghij")
    shutil.copy(make_run(*labels, side=1000) / "labels.txt", bundle)
    samples = deploy.sample_pictures(bundle, count=10)
    order = open_source(bundle.parents[3] / "pictures").labels
    assert {name.lower() for name in samples} == {
        f"{name}.jpg"
        for name in ("a-b", "a-b-2", "rose", "rose-2", f"class-{order.index('玫瑰')}", *"fghij")
    }
    for content in samples.values():
        with Image.open(io.BytesIO(content)) as picture:
            assert (picture.format, picture.size) == ("JPEG", (640, 480))
            assert not picture.getexif()


def test_samples_of_tiny_pictures_keep_their_pixels(bundle, make_run, tmp_path):
    run = make_run(*"abcdefghij")
    samples = deploy.sample_pictures(bundle, count=4)
    assert [Path(name).suffix for name in samples] == [".png"] * 4
    held_out = json.loads((run / "split.json").read_text())["held_out"]
    for name, content in samples.items():
        [original] = [each for each in held_out if each.startswith(f"{Path(name).stem}/")]
        expected = np.asarray(Image.open(tmp_path / "pictures" / original))
        np.testing.assert_array_equal(Image.open(io.BytesIO(content)), expected)


def test_a_bundle_outside_a_run_keeps_its_samples(bundle, app):
    pictures = {"a.png": b"picture", "b c.jpg": b"another"}
    unzipped = deploy.add_to_app(bundle, app, "unzipped", pictures)
    (unzipped / "samples" / ".DS_Store").touch()
    (unzipped / "samples" / "._a.png").touch()
    (unzipped / "samples" / "folder.png").mkdir()
    assert deploy.sample_pictures(unzipped, count=1) == pictures
    assert deploy.sample_pictures(unzipped / "model.tflite") == pictures


def test_the_app_gets_exactly_the_files_that_it_reads_unless_they_are_damaged(bundle, app):
    (bundle / "recipe.json").write_text("{}")
    folder = deploy.add_to_app(bundle, app, samples={"a.png": b"picture"})
    assert folder == app / "app" / "own" / "bundles" / "flowers-float32"
    assert {path.name for path in folder.iterdir()} == {*FILES, "samples"}
    assert (folder / "samples" / "a.png").read_bytes() == b"picture"
    assert deploy.check_golden(folder).passed
    (folder / "labels.txt").write_text("changed")
    deploy.add_to_app(bundle, app)  # an older one is replaced, with its samples
    assert {path.name for path in folder.iterdir()} == FILES
    for name in FILES:
        assert (folder / name).read_bytes() == (bundle / name).read_bytes()
    model = bundle / "model.tflite"
    model.write_bytes(model.read_bytes()[:-1] + b"?")
    with pytest.raises(UsageError, match="is not the file that model.json describes"):
        deploy.add_to_app(bundle, app)
    assert deploy.check_golden(folder).passed


def test_a_zip_has_what_the_app_reads_and_is_complete_or_absent(bundle, tmp_path, monkeypatch):
    (bundle / "recipe.json").write_text("{}")
    folder = tmp_path / "zips"
    path = deploy.zip_bundle(bundle, folder, "v1.5", {"a.png": b"picture"})
    assert path == folder / "v1.5.zip"
    first = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        contents = {name: archive.read(name) for name in archive.namelist()}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}
    expected = {f"v1.5/{name}": (bundle / name).read_bytes() for name in FILES}
    assert contents == {**expected, "v1.5/samples/a.png": b"picture"}
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "writestr", Mock(side_effect=[None, KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            deploy.zip_bundle(bundle, folder, "v1.5")
    assert list(folder.iterdir()) == [path]
    assert path.read_bytes() == first
    deploy.zip_bundle(bundle, folder, "v1.5", {"a.png": b"picture"})
    assert path.read_bytes() == first  # of the same files, at another time
    model = bundle / "model.tflite"
    model.write_bytes(model.read_bytes()[:-1] + b"?")
    with pytest.raises(UsageError, match="is not the file that model.json describes"):
        deploy.zip_bundle(bundle, folder)
    assert list(folder.iterdir()) == [path]


def test_features_come_with_their_gallery_and_without_labels(sample, image_folder, app, tmp_path):
    deploy.export_bundles(sample.model, tmp_path / "out", "none", output="features", threads=())
    bundle = tmp_path / "out/float32"
    with pytest.raises(UsageError, match="has no samples"):
        deploy.sample_pictures(bundle)
    names = FILES - {"labels.txt"}
    assert {path.name for path in deploy.add_to_app(bundle, app).iterdir()} == names
    deploy.index_pictures(deploy.open_bundle(bundle), deploy.pictures_to_index([image_folder]))
    assert deploy.sample_pictures(bundle) == {}
    count = len(deploy.open_bundle(bundle).gallery.names)
    gallery = {"gallery.json", "vectors.bin", *(f"{i}.jpg" for i in range(count))}
    expected = names | {f"gallery/{name}" for name in gallery}
    folder = deploy.add_to_app(bundle, app)
    assert {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()} == expected
    with zipfile.ZipFile(deploy.zip_bundle(bundle, tmp_path, "a")) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert contents == {f"a/{name}": (bundle / name).read_bytes() for name in expected}
    (bundle / "gallery/0.jpg").unlink()
    for add in (deploy.add_to_app, deploy.zip_bundle):
        with pytest.raises(UsageError, match=r"0\.jpg is missing, or a link; index"):
            add(bundle, app)


def test_features_of_a_run_get_its_samples(sample, make_run, tmp_path):
    export = make_run(*"abcdefghij") / "export"
    deploy.export_bundles(sample.model, export, "none", output="features", threads=())
    assert len(deploy.sample_pictures(export / "float32")) == 8


@pytest.mark.parametrize("name", ["", "../outside", "a/b", "with space", ".hidden", "é", "x" * 65])
def test_names_that_assets_cannot_have_are_refused(bundle, app, name):
    with pytest.raises(UsageError, match="up to 64 letters, digits"):
        deploy.add_to_app(bundle, app, name)
    with pytest.raises(UsageError, match="up to 64 letters, digits"):
        deploy.zip_bundle(bundle, app / "zips", name)
    assert not deploy.bundles_of_app(app).exists()
    assert not (app / "zips").exists()


def test_names_come_from_the_run_and_the_folder(tmp_path):
    of_run = tmp_path / "runs" / "my flowers" / "export" / "int8"
    assert deploy.bundle_name(of_run) == "my-flowers-int8"
    assert deploy.bundle_name(tmp_path / "int8") == "int8"


def test_the_command_adds_samples_to_each_bundle(invoke, bundle, make_run, app, tmp_path):
    make_run(*"abcdefghij")
    unzipped = deploy.add_to_app(bundle, app, "unzipped", {"kept.jpg": b"picture"})
    arguments = (COMMAND, "--bundle", bundle, unzipped, "--app", app)
    code, out, error = invoke(*arguments, "--name", "mine", "copy", cwd=tmp_path)
    assert (code, error) == (0, "")
    found = re.findall(r"^  (\S+)  \d\.\d\d MiB, (\d) samples(  new)?$", out, re.MULTILINE)
    assert found == [("copy", "1", "  new"), ("mine", "8", "  new"), ("unzipped", "1", "")]
    folder = deploy.bundles_of_app(app)
    assert [path.name for path in folder.glob("copy/samples/*")] == ["kept.jpg"]
    arguments = (COMMAND, "--bundle", bundle, "--name", "mine", "--app", app)
    samples = folder / "mine" / "samples"
    invoke(*arguments, "--samples", "0", cwd=tmp_path)
    assert not samples.exists()
    (tmp_path / "pictures").rename(tmp_path / "moved")
    code, out, error = invoke(*arguments, cwd=tmp_path)
    assert code == 0
    [line] = error.splitlines()
    assert line.startswith(f"warning: {bundle} gets no samples, its own picture remains: ")
    assert "with --data=FOLDER" in line
    assert not samples.exists()
    invoke(*arguments, "--data", tmp_path / "moved", cwd=tmp_path)
    assert len(list(samples.iterdir())) == 8
    for words, message in (
        (("--samples", "-1"), "--samples must be at least 0"),
        (("--zip", "zips"), "--zip, --push, and --app or --only exclude each other; choose one."),
        (("--push",), "--zip, --push, and --app or --only exclude each other; choose one."),
        (("--device", "X"), "--device is the phone of --push; add --push."),
    ):
        code, _, error = invoke(*arguments, *words, cwd=tmp_path)
        assert (code, error.count(message)) == (2, 1)


def test_the_command_writes_zips_without_the_project(invoke, bundle, make_run, tmp_path):
    make_run(*"abcdefghij")
    other = shutil.copytree(bundle, tmp_path / "other")
    arguments = (COMMAND, "--bundle", bundle, other, "--zip", "out/zips")
    code, out, error = invoke(*arguments, "--name", "mine", "other", cwd=tmp_path)
    assert (code, error.count("warning: ")) == (0, 1)
    for name, samples in (("mine", 8), ("other", 0)):
        [line] = [line for line in out.splitlines() if line.startswith(f"out/zips/{name}.zip  ")]
        assert line.endswith(f" MiB, {samples} samples")
        with zipfile.ZipFile(tmp_path / "out/zips" / f"{name}.zip") as archive:
            names = archive.namelist()
        assert len([each for each in names if each.startswith(f"{name}/samples/")]) == samples
    assert 'with its button "Add a model"' in out
    code, _, error = invoke(*arguments[:-1], bundle / "model.json", cwd=tmp_path)
    assert (code, error.count("model.json is a file; choose another folder")) == (2, 1)


def test_a_bundle_of_another_run_or_of_none_gets_no_samples(bundle, make_run, app):
    with pytest.raises(UsageError, match="flowers is not a complete run folder"):
        deploy.sample_pictures(bundle)
    make_run("x", *"bcdefghij")
    with pytest.raises(UsageError, match="has other classes than"):
        deploy.sample_pictures(bundle)
    moved = shutil.copytree(bundle, app / "float32")
    with pytest.raises(UsageError, match="is not in the folder export of a run, and has no sam"):
        deploy.sample_pictures(moved)


def test_git_sees_nothing_of_what_the_command_writes():
    if not (DEMO.parent / ".git").exists():
        pytest.skip("this copy has no .git, so nothing says what git ignores")
    written = deploy.bundles_of_app(DEMO) / "a/samples/a.jpg"
    command = ["git", "check-ignore", written]
    ignored = subprocess.run(command, cwd=DEMO, capture_output=True, text=True).stdout
    assert ignored.splitlines() == [str(written)]


def test_the_command_lists_what_the_app_has_and_removes_only_bundles(invoke, bundle, app, tmp_path):
    other = deploy.add_to_app(bundle, app, "other")
    (other.parent / ".DS_Store").write_text("")
    (other.parent / "notes").mkdir()
    arguments = (COMMAND, "--app", app, "--samples", "0", "--bundle")
    code, out, error = invoke(*arguments, bundle / "model.tflite", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert f"to have these back, remove {app / 'app/own'}." in out
    lines = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert [(line[0], line[-1]) for line in lines] == [
        ("flowers-float32", "new"),
        ("other", "samples"),
    ]
    code, out, error = invoke(*arguments, bundle, "--name", "mine", "--only", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "removed: flowers-float32, other\n" in out
    assert {path.name for path in other.parent.iterdir()} == {".DS_Store", "notes", "mine"}


def test_a_bundle_too_new_for_the_apps_runtime_is_a_warning(invoke, bundle, changed, app):
    for floor, runtime, warning in (
        ("2.9.0", "2.16.1", None),
        ("2.9.0", "2.1.0", "has TensorFlow Lite 2.1.0, which will refuse it"),
        ("LiteRT 2.1.0", "2.16.1", "needs LiteRT 2.1.0"),
        ("unknown", "2.16.1", None),
    ):
        changed("model.json", runtime_floor=floor)
        (app / "pom.xml").write_text(f"<tflite.version>{runtime}</tflite.version>")
        arguments = ("--bundle", bundle, "--app", app, "--samples", "0")
        code, _, error = invoke(COMMAND, *arguments, cwd=app)
        assert code == 0
        assert warning in error if warning else not error, (floor, runtime)


def test_the_apps_own_bundles_run_on_its_runtime():
    bundles = list((DEMO / "app/src/main/assets/bundles").iterdir())
    assert bundles
    assert [deploy.too_new_for_app(bundle, DEMO) for bundle in bundles] == [None] * len(bundles)
