"""Pages as a browser reads them."""

import html.parser

import pytest


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.titles, self.text = [], [], [], ""
        self.feed(text)
        assert not self.open
        assert "http" not in text.replace("http://www.w3.org", "")

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "iframe", "object")
        if tag == "img":
            self.images.append(dict(attributes))
            assert self.images[-1]["src"].startswith("data:image/")
            assert self.images[-1]["alt"]
        elif tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f" {data}"
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)


@pytest.fixture(scope="session")
def parsed():
    """Reads a page that is well formed and stands alone: its images, titles and text."""
    return _Page
