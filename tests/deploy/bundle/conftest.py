"""Bundles of the sample, and the demos that take bundles."""

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_vit import deploy

WEB_DEMO = Path(__file__).parents[3] / "web_demo"


@pytest.fixture
def picture(rng):
    """Noise of another size than the sample's input."""
    return rng.integers(0, 255, (50, 40, 3)).astype(np.uint8)


@pytest.fixture
def bundle(sample, tmp_path, picture):
    """The sample's float32 bundle, where an export of a run writes it."""
    folder = tmp_path / "runs" / "flowers" / "export" / "float32"
    deploy.write_bundle(folder, sample.exported("none"), picture)
    return folder


@pytest.fixture
def changed(bundle):
    """Changes fields of a JSON file of the bundle; of objects and arrays only what is given."""

    def change(name, **changes):
        content = json.loads((bundle / name).read_text())
        for field, value in changes.items():
            if isinstance(value, np.ndarray):
                value = {"base64": base64.b64encode(value.tobytes()).decode()}
            content[field] = content[field] | value if isinstance(value, dict) else value
        (bundle / name).write_text(json.dumps(content))

    return change


@pytest.fixture
def program(tmp_path):
    """Writes a shell script: its path."""

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


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
    kinds = ("internal", "compat_internal", "threaded_internal")
    wasm = [f"core/wasm/litert_wasm_{kind}.{suffix}" for kind in kinds for suffix in ("js", "wasm")]
    for name in ("core/package.json", "core/dist/index.js", "wasm-utils/dist/index.js", *wasm):
        path = folder / "node_modules" / "@litertjs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"version": "2.5.3"}')
    return folder
