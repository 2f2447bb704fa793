"""Sites that run bundles in the browser, by the library and by the command."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_vit import UsageError, deploy

COMMAND = "export/to_web.py"
WEB_DEMO = Path(__file__).parents[3] / "web_demo"
PACKAGES = {
    "core/package.json": '{"version": "2.5.3"}',
    "core/dist/index.js": "core",
    "wasm-utils/dist/index.js": "utils",
    **{
        f"core/wasm/litert_wasm_{kind}.{suffix}": kind
        for kind in ("internal", "compat_internal", "threaded_internal")
        for suffix in ("js", "wasm")
    },
}


@pytest.fixture
def page(tmp_path):
    """The folder web_demo with short files in place of LiteRT.js."""
    folder = tmp_path / "web_demo"
    shutil.copytree(WEB_DEMO / "page", folder / "page")
    shutil.copy(WEB_DEMO / "package.json", folder)
    for name, content in PACKAGES.items():
        path = folder / "node_modules" / "@litertjs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.fixture
def bundle(sample, tmp_path):
    """The sample's float32 bundle, where an export of a run writes it."""
    folder = tmp_path / "runs" / "flowers" / "export" / "float32"
    deploy.write_bundle(folder, sample.exported("none"), np.zeros((8, 8, 3), np.uint8))
    return folder


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_site_has_the_page_litert_js_and_the_bundles(bundle, page, tmp_path):
    bundles = {"one": bundle, "two": bundle / "model.tflite"}
    site = deploy.make_site(bundles, page, tmp_path / "site")
    actual = files(site)
    assert json.loads(actual["bundles.json"])["bundles"] == ["one", "two"]
    assert deploy.check_golden(site / "bundles" / "two").passed
    assert {name for name in actual if name.startswith("litert/wasm/")} == {
        f"litert/wasm/litert_wasm_{kind}.{suffix}"
        for kind in ("internal", "compat_internal")
        for suffix in ("js", "wasm")
    }
    assert {path.name for path in (page / "page").iterdir()} <= set(actual)
    # What the page imports is there.
    html = actual["index.html"].decode()
    [imports] = re.findall(r'<script type="importmap">(.*?)</script>', html)
    for target in json.loads(imports)["imports"].values():
        assert (site / target).is_file()


def test_a_site_is_replaced_and_other_folders_are_not(bundle, page, tmp_path):
    site = tmp_path / "site"
    deploy.make_site({"old": bundle}, page, site)
    deploy.make_site({"new": bundle}, page, site)
    assert [path.name for path in (site / "bundles").iterdir()] == ["new"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and holds no site"):
        deploy.make_site({"new": bundle}, page, other)
    assert files(other) == {"chapter.txt": b"years of work"}


def test_the_command_writes_nothing_if_a_bundle_is_damaged(invoke, bundle, page, tmp_path):
    damaged = bundle.with_name("damaged")
    shutil.copytree(bundle, damaged)
    (damaged / "labels.txt").unlink()
    arguments = ("--page", page, "--out", "site", "--bundle", bundle, damaged)
    code, _, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 2
    assert "labels.txt" in error
    assert not (tmp_path / "site").exists()


@pytest.mark.slow
def test_files_that_take_integers_are_refused(sample, page, tmp_path):
    bundle, picture = tmp_path / "int8-full", np.zeros((8, 8, 3), np.uint8)
    deploy.write_bundle(bundle, sample.exported("int8-full"), picture)
    with pytest.raises(UsageError, match="input is float32 or uint8. Received: int8; export int8"):
        deploy.make_site({"digits": bundle}, page, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_command_says_what_it_made(invoke, bundle, page, tmp_path):
    code, out, error = invoke(COMMAND, "--page", page, "--bundle", bundle, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "site: flowers-float32; " in out
    assert "python -m http.server --directory site" in out


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Puts a program of this text in the place of npm."""

    def put(text):
        folder = tmp_path / "programs"
        folder.mkdir()
        program = folder / "npm"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    return put


def test_another_version_of_litert_js_is_replaced_by_npm(page, npm, tmp_path):
    assert deploy.has_litert_js(page)
    package = page / "node_modules" / "@litertjs" / "core" / "package.json"
    package.write_text('{"version": "2.0.0"}')
    called = tmp_path / "called"
    npm(f'echo "$@" > {called}')
    assert not deploy.has_litert_js(page)
    with pytest.raises(UsageError, match=r"expected LiteRT\.js 2\.5\.3 in it; run npm ci there"):
        deploy.make_site({}, page, tmp_path / "site")
    deploy.fetch_litert_js(page)
    assert called.read_text().split()[:2] == ["ci", "--omit=dev"]


def test_what_npm_says_is_one_line(page, npm):
    shutil.rmtree(page / "node_modules")
    npm("echo 'npm error no network' >&2; echo more >&2; exit 1")
    with pytest.raises(UsageError, match="npm ci in .* fails: .*no network") as caught:
        deploy.fetch_litert_js(page)
    assert "\n" not in str(caught.value)


def test_a_computer_without_npm_is_told_what_to_install(page, monkeypatch):
    shutil.rmtree(page / "node_modules")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"which is not installed; install Node\.js 20 or newer"):
        deploy.fetch_litert_js(page)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "to_web.py --bundle runs/flowers/export/int8"),
        (("--bundle", "a", "b", "--name", "c"), "--name takes a name for each of the 2 bundles"),
        (("--bundle", "runs/flowers/export/float32", "--page", "."), "expected the folder web_d"),
        (("--bundle", "runs/flowers", "--page", "web_demo"), "expected a bundle's folder. Rec"),
        (
            ("--bundle", "runs/flowers/export/float32", "--name", "../x", "--page", "web_demo"),
            "a bundle's name has up to 64 letters, digits",
        ),
        (
            ("--bundle", *["runs/flowers/export/float32"] * 2, "--page", "web_demo"),
            "each bundle needs a name of its own",
        ),
    ],
)
def test_mistakes_are_one_line(invoke, bundle, page, tmp_path, arguments, message):
    code, _, error = invoke(COMMAND, *arguments, cwd=tmp_path)
    assert code == 2
    [line] = error.strip().splitlines()
    assert message in line
    assert not (tmp_path / "site").exists()


def test_the_policy_allows_the_import_map_and_no_other_inline_script():
    html = (WEB_DEMO / "page" / "index.html").read_text()
    [imports] = re.findall(r"<script[^>]*>([^<]+)</script>", html)
    digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    [policy] = re.findall(r'content="(default-src [^"]*)"', html)
    assert re.findall(r"'sha256-([^']+)'", policy) == [digest]
    assert "unsafe-inline" not in policy
    assert "'unsafe-eval'" not in policy


def test_the_lock_file_names_no_registry():
    lock = (WEB_DEMO / "package-lock.json").read_text()
    assert "://" not in lock
    assert json.loads(lock)["packages"][""]["dependencies"]["@litertjs/core"] == "2.5.3"
