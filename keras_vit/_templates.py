"""Pages and cards from the jinja2 templates that lie beside the code that fills them in."""

from __future__ import annotations

import base64
import functools
import json
import re
from pathlib import Path
from typing import Any

from keras_vit._errors import naming_install


def rendered(template: str, **values: Any) -> str:
    """A template with its values.

    In HTML, all values are escaped. In Markdown, texts from outside, such as the names of classes,
    need the filter `code`.

    Args:
        template: its path in keras_vit, such as "evaluation/report.html.j2".
        values: the values by their names in the template; a missing one is an error.
    """
    return _environment().get_template(template).render(values)


def code(text: Any) -> str:
    """Any text as a code span of one line, so that nothing in it is markup, a link or a mention."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or "?"
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in (plain[0], plain[-1]) else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


@functools.cache
def _environment() -> Any:
    with naming_install("pages and cards need Jinja2"):
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=lambda name: name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": code,
        "cell": lambda text: str(text).replace("|", "\\|"),  # of a Markdown table
        "json": json.dumps,
        "number": "{:,}".format,
        "percent": "{:.2%}".format,
        "as": format,
        "data_url": _data_url,
    }
    return environment


def _data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
