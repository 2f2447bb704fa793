"""Makes a web page that runs bundles in the browser.

The page is in the folder web_demo of a clone of keras_vit. It runs the bundles with LiteRT.js,
which npm fetches the first time. Each bundle is checked first. The result works from any static
server, and the page calls no other one.
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from keras_vit import deploy
from keras_vit._files import check_replaceable
from keras_vit.cli._bundles import check_bundles, folder_of_clone, named_bundles
from keras_vit.cli._program import load


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    bundle: tuple[Path, ...] = ()
    """Exported folders, such as runs/flowers/export/int8."""
    name: tuple[str, ...] = ()
    """A name on the page for each bundle; default: the names of its run and its folder."""
    out: Path = Path("site")
    """The folder to write; a site that was made earlier is replaced."""
    page: Path | None = None
    """The page's sources; default: web_demo of the clone, or of the current folder."""

    def __post_init__(self):
        check_bundles("web", self.bundle, self.name)
        check_replaceable(self.out, "site")


def run(arguments: Arguments) -> None:
    """Makes the site, and says how to look at it."""
    page = folder_of_clone("web_demo", "web", arguments, arguments.page)
    load("ai_edge_litert.interpreter")

    bundles = named_bundles(arguments.bundle, arguments.name)
    # Before the site and LiteRT.js: a mistake in one of them leaves everything as it was.
    deploy.check_for_site(bundles, page, arguments.out)
    if not deploy.has_litert_js(page):
        print(f"fetching LiteRT.js into {page / 'node_modules'} by npm ci")
        deploy.fetch_litert_js(page)
    site = deploy.make_site(bundles, page, arguments.out)
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) / 2**20
    print(f"{site}: {', '.join(bundles)}; {size:,.1f} MiB")
    print(f"\nTo look at it: python -m http.server --directory {shlex.quote(str(site))}")
