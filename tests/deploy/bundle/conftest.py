"""Bundles of the sample, and the demos that take bundles."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_vit import deploy
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve

WEB_DEMO = Path(__file__).parents[3] / "web_demo"
LITERT_JS = {
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
def picture(rng):
    return rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)


@pytest.fixture
def bundle(sample, tmp_path, picture):
    """The sample's float32 bundle, where an export of a run writes it."""
    folder = tmp_path / "runs" / "flowers" / "export" / "float32"
    deploy.write_bundle(folder, sample.exported("none"), picture)
    return folder


@pytest.fixture
def of_pixels(sample):
    """The sample with pixels as inputs and probabilities as outputs, and its file, judged."""
    resolved = resolve(sample.model, GraphOptions("uint8", "probabilities"))
    pixels = deploy.to_pixels(sample.images, sample.model.preprocessing)
    made = deploy.Converter(resolved, ["none"]).made()
    reference = deploy.Reference(pixels, deploy.expected_scores(resolved, pixels))
    return resolved, deploy.judge_file(made, reference)


@pytest.fixture
def app(tmp_path):
    """The parts of an Android project that the command looks at."""
    main = tmp_path / "app_project" / "app" / "src" / "main"
    main.mkdir(parents=True)
    (main / "AndroidManifest.xml").write_text("<manifest/>")
    return tmp_path / "app_project"


@pytest.fixture
def page(tmp_path):
    """The folder web_demo with short files in place of LiteRT.js."""
    folder = tmp_path / "web_demo"
    shutil.copytree(WEB_DEMO / "page", folder / "page")
    shutil.copy(WEB_DEMO / "package.json", folder)
    for name, content in LITERT_JS.items():
        path = folder / "node_modules" / "@litertjs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder
