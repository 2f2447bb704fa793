"""Sites that run bundles in the browser, by the library and by the command."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from keras_vit import UsageError, deploy

WEB_DEMO = Path(__file__).parents[3] / "web_demo"


def test_the_site_has_the_page_litert_js_and_the_bundles(bundle, page, tmp_path):
    bundles = {"one": bundle, "two": bundle / "model.tflite"}
    site = deploy.make_site(bundles, page, tmp_path / "site")
    assert json.loads((site / "bundles.json").read_text())["bundles"] == ["one", "two"]
    assert deploy.check_golden(site / "bundles" / "two").passed
    files = ("internal.js", "internal.wasm", "compat_internal.js", "compat_internal.wasm")
    loaded = {path.name for path in (site / "litert" / "wasm").iterdir()}
    assert loaded == {f"litert_wasm_{file}" for file in files}
    assert {path.name for path in (page / "page").iterdir()} <= {p.name for p in site.iterdir()}
    # What the page imports is there.
    html = (site / "index.html").read_text()
    [imports] = re.findall(r'<script type="importmap">(.*?)</script>', html)
    for target in json.loads(imports)["imports"].values():
        assert (site / target).is_file()


def test_a_site_has_the_galleries_of_features(sample, bundle, page, picture, tmp_path):
    path = tmp_path / "features" / "float32"
    model = sample.model
    deploy.export_bundles(model, path.parent, "none", sample.images, output="features", threads=())
    Image.fromarray(picture).save(tmp_path / "one.png")
    deploy.index_pictures(
        deploy.open_bundle(path), deploy.pictures_to_index([tmp_path / "one.png"])
    )
    site = deploy.make_site({"near": path, "named": bundle}, page, tmp_path / "site")
    assert json.loads((site / "bundles.json").read_text())["galleries"] == ["near"]
    assert deploy.open_bundle(site / "bundles/near").gallery.names == ("one.png",)
    assert (site / "bundles/near/gallery/0.jpg").is_file()
    assert not (site / "bundles/near/labels.txt").exists()
    (path / "gallery/0.jpg").unlink()
    for change in (lambda: None, lambda: (path / "gallery/0.jpg").symlink_to(tmp_path / "one.png")):
        change()
        with pytest.raises(UsageError, match=r"gallery/0\.jpg is missing, or a link; index"):
            deploy.check_for_site({"near": path}, page, tmp_path / "site")


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
    assert [path.read_text() for path in other.iterdir()] == ["years of work"]


@pytest.mark.slow
def test_files_that_take_integers_are_refused(sample, picture, page, tmp_path):
    bundle = tmp_path / "int8-full"
    deploy.write_bundle(bundle, sample.exported("int8-full"), picture)
    with pytest.raises(UsageError, match="input is float32 or uint8. Received: int8; export int8"):
        deploy.make_site({"digits": bundle}, page, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_command_says_what_it_made(invoke, bundle, page, tmp_path):
    code, out, error = invoke("export/to_web.py", "--page", page, "--bundle", bundle, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "site: flowers-float32; " in out
    assert "python -m http.server --directory site" in out


def test_another_version_of_litert_js_is_replaced_by_npm(page, program, tmp_path, monkeypatch):
    assert deploy.has_litert_js(page)
    package = page / "node_modules" / "@litertjs" / "core" / "package.json"
    package.write_text('{"version": "2.0.0"}')
    called = tmp_path / "called"
    monkeypatch.setenv("PATH", str(program("npm", f'echo "$@" > {called}').parent))
    assert not deploy.has_litert_js(page)
    with pytest.raises(UsageError, match=r"expected LiteRT\.js 2\.5\.3 in it; run npm ci there"):
        deploy.make_site({}, page, tmp_path / "site")
    deploy.fetch_litert_js(page)
    assert called.read_text().split()[:2] == ["ci", "--omit=dev"]


def test_why_npm_does_not_fetch_litert_js_is_one_line(page, program, monkeypatch):
    shutil.rmtree(page / "node_modules")
    npm = program("npm", "echo 'npm error no network' >&2; echo more >&2; exit 1")
    monkeypatch.setenv("PATH", str(npm.parent))
    with pytest.raises(UsageError, match="npm ci in .* fails: .*no network") as caught:
        deploy.fetch_litert_js(page)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"which is not installed; install Node\.js 20 or newer"):
        deploy.fetch_litert_js(page)


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
