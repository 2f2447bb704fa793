"""Hooks of MkDocs: pages and pictures of this repository that are outside docs/, and tables.

Pages are written to be read on a forge or on disk, where links are paths in the repository. In the
site a link leads to the page or picture if the site has it; others become the path, as text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Pages outside docs/, and where they are in the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "android_demo/README.md": "android_demo/README.md",
}
# A cell of a table of the page, and what is in it: tags, and words that browsers break.
_CELL = re.compile(r'(<t[dh](?: style="[^"]*")?)>(.*?)(</t[dh]>)', re.DOTALL)
_PARTS = re.compile(r"<[^>]*>|[^\s<>]*(?:[-/?]|\)\()[^\s<>]*")
_LONG = 40  # characters of a cell that is never narrower than `.long` of site.css
_LINK = re.compile(r"(!?)\[([^\]\[]*)\]\(([^)#\s:]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside docs/, and the pictures outside docs/ that pages show."""
    pages = [*PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    pictures = {target for page in pages for target in _targets(page) if target.endswith(".png")}
    outside = {path: path for path in pictures if not path.startswith("docs/")}
    for path, place in (PAGES | outside).items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links of the repository into links of the site."""
    own = page.file.src_uri
    source = next((path for path, place in PAGES.items() if place == own), f"docs/{own}")

    def mended(link: re.Match[str]) -> str:
        shows, text, target, anchor = link.groups(default="")
        if not target:
            return link[0]
        path = _resolved(source, target)
        place = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(place):
            relative = posixpath.relpath(place, posixpath.dirname(own) or ".")
            return f"{shows}[{text}]({relative}{anchor})"
        if not (ROOT / path).exists():
            return link[0]  # MkDocs warns
        return f"`{path}`" if posixpath.basename(path) in text else f"{text} (`{path}`)"

    return _LINK.sub(mended, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Marks words in tables that must not be broken, and cells that need more than their words."""
    return _CELL.sub(_marked, html)


def _marked(cell: re.Match[str]) -> str:
    begin, content, end = cell.groups()
    if len(re.sub(r"<[^>]*>", "", content)) > _LONG:
        begin += ' class="long"'

    def whole(part: re.Match[str]) -> str:
        return part[0] if part[0].startswith("<") else f'<span class="whole">{part[0]}</span>'

    return f"{begin}>{_PARTS.sub(whole, content)}{end}"


def _targets(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [_resolved(page, link[3]) for link in _LINK.finditer(text) if link[3]]


def _resolved(page: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
