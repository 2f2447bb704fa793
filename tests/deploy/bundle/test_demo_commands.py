"""What the commands that put bundles into the Android app and a web page have in common."""

import shlex
import shutil
from pathlib import Path

import pytest

from keras_vit import deploy
from keras_vit.cli import _bundles

BUNDLE = "runs/flowers/export/float32"


@pytest.fixture(params=["android", "zip", "web"])
def demo(request, app, page):
    """A command and the options that name its folder."""
    return {
        "android": ("export/to_android.py", "--only", "--app", app),
        "zip": ("export/to_android.py", "--zip", "zips"),
        "web": ("export/to_web.py", "--page", page),
    }[request.param]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "{command} --bundle runs/flowers/export/int8"),
        (("--bundle", "a", "b", "--name", "c"), "--name takes a name for each of the 2 bundles"),
        (("--bundle", "runs/flowers"), "expected a bundle's folder. Rec"),
        (("--bundle", BUNDLE, "--name", "../x"), "a bundle's name has up to 64 letters, digits"),
        (("--bundle", BUNDLE, BUNDLE), "each bundle needs a name of its own"),
        (("--bundle", BUNDLE, "damaged"), "labels.txt"),
    ],
)
def test_mistakes_change_nothing(demo, invoke, bundle, app, tmp_path, arguments, message):
    deploy.add_to_app(bundle, app, "old")
    shutil.copytree(bundle, tmp_path / "damaged")
    (tmp_path / "damaged" / "labels.txt").unlink()
    before = set(tmp_path.rglob("*"))
    command, *folder = demo
    code, _, error = invoke(command, *arguments, *folder, cwd=tmp_path)
    assert code == 2
    [line] = error.strip().splitlines()
    assert message.format(command=Path(command).name) in line
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("kind", "option", "words"),
    [("android", "--app", "--only --samples 3"), ("web", "--page", "--name 'my roses' --out page")],
)
def test_outside_a_clone_help_is_given(invoke, bundle, tmp_path, monkeypatch, kind, option, words):
    monkeypatch.setattr(_bundles, "_CLONE", tmp_path / "site-packages")
    arguments = (f"export/to_{kind}.py", "--bundle", BUNDLE, *shlex.split(words))
    code, _, error = invoke(*arguments, cwd=tmp_path)
    assert code == 2
    [line] = error.splitlines()
    assert f"the folder {kind}_demo is not in the installed package" in line
    typed = f"keras-vit {kind} --bundle {bundle} {words.replace('page', f'{tmp_path}/page')}"
    assert line.endswith(f"in a clone of keras_vit, run: {typed}")
    code, _, error = invoke(*arguments, option, ".", cwd=tmp_path)
    assert code == 2
    assert f"expected the folder {kind}_demo" in error
