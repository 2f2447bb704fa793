"""Makes a web site that runs bundles in the browser, from the page in web_demo and LiteRT.js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_vit import _files
from keras_vit._errors import UsageError, shown
from keras_vit.deploy.bundle.folder import check_name
from keras_vit.deploy.bundle.opened_bundle import open_bundle

# What the page loads of LiteRT.js, and where from in node_modules/@litertjs. "compat" is for
# browsers without relaxed SIMD.
_LITERT_JS = {
    "core/index.js": "core/dist/index.js",
    "wasm-utils/index.js": "wasm-utils/dist/index.js",
}
_LITERT_JS |= {
    f"wasm/litert_wasm_{name}": f"core/wasm/litert_wasm_{name}"
    for name in ("internal.js", "internal.wasm", "compat_internal.js", "compat_internal.wasm")
}


def make_site(
    bundles: Mapping[str, str | os.PathLike], page: str | os.PathLike, site: str | os.PathLike
) -> Path:
    """Writes a folder that any static server can serve; it needs no other address.

    Args:
        bundles: for each name on the page, the folder of an exported bundle.
        page: the folder web_demo of a clone, with LiteRT.js (`fetch_litert_js`).
        site: the folder to write; a site that was made earlier is replaced.

    Returns:
        The folder.

    Raises:
        UsageError: a bundle or its gallery is incomplete, a name is not allowed, `page` is not
            that folder or lacks LiteRT.js, or `site` holds something other than a site.
        RefusedError: LiteRT refuses a bundle's file.
    """
    found = check_for_site(bundles, page, site)
    if not has_litert_js(page):
        raise UsageError(f"{page}: expected LiteRT.js {_wanted(page)} in it; run npm ci there.")
    packages = Path(page) / "node_modules" / "@litertjs"
    with _files.replacing_folder(site) as temporary:
        shutil.copytree(Path(page) / "page", temporary, dirs_exist_ok=True)
        for target, source in _LITERT_JS.items():
            _copy(packages / source, temporary / "litert" / target)
        for name, files in found.items():
            for file, source in files.items():
                _copy(source, temporary / "bundles" / name / file)
        galleries = [name for name, files in found.items() if "gallery/gallery.json" in files]
        _files.write_json(
            temporary / "bundles.json",
            {
                "format": 1,
                "litert_js": _wanted(page),
                "bundles": list(bundles),
                "galleries": galleries,
            },
        )
    return Path(site)


def check_for_site(
    bundles: Mapping[str, str | os.PathLike], page: str | os.PathLike, site: str | os.PathLike
) -> dict[str, dict[str, Path]]:
    """Checks all that `make_site` receives but LiteRT.js, and writes nothing.

    Returns:
        For each name the bundle's files, by their names in it.

    Raises:
        UsageError, RefusedError: as for `make_site`.
    """
    _check_page(page)
    _files.check_replaceable(site, "site")
    found = {}
    for name, bundle in bundles.items():
        check_name(name)
        opened = open_bundle(bundle, trusted=False)
        found[name] = {file: opened.folder / file for file in opened.files}
        kind = np.dtype(opened.runner.input["dtype"]).name
        if kind not in ("float32", "uint8"):
            raise UsageError(
                f"{bundle}: the page runs files whose input is float32 or uint8. Received: {kind}; "
                "export int8 or dynamic instead."
            )
    return found


def has_litert_js(page: str | os.PathLike) -> bool:
    """Whether web_demo/node_modules holds the LiteRT.js that the page is tested with."""
    package = Path(page) / "node_modules" / "@litertjs" / "core" / "package.json"
    return package.is_file() and json.loads(package.read_bytes())["version"] == _wanted(page)


def fetch_litert_js(page: str | os.PathLike) -> None:
    """Installs LiteRT.js into web_demo/node_modules by `npm ci`.

    Raises:
        UsageError: `page` is not the folder web_demo, or npm is absent or fails.
    """
    _check_page(page)
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"LiteRT.js {_wanted(page)} is fetched by npm, which is not installed; install Node.js "
            "20 or newer with npm (Debian: apt-get install npm)."
        )
    # A package's own scripts are not needed, so they are not run.
    command = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=page, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[:1]
        raise UsageError(f"npm ci in {page} fails: {shown(' '.join(reason))}.")


def _check_page(page: str | os.PathLike) -> None:
    """Raises a `UsageError` if this is not the folder web_demo of a clone."""
    if not (Path(page) / "page" / "index.html").is_file():
        raise UsageError(
            f"{page}: expected the folder web_demo of a clone of keras_vit, or a copy of it (the "
            "wheel does not have it); there is no page/index.html in it."
        )


def _wanted(page: str | os.PathLike) -> str:
    package = json.loads((Path(page) / "package.json").read_bytes())
    return package["dependencies"]["@litertjs/core"]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
