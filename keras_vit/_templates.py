"""Pages and cards from the jinja2 templates that lie beside the code that fills them in."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any

from keras_vit._errors import MissingPackageError
from keras_vit._markdown import code


def rendered(template: str, **values: Any) -> str:
    """A template with its values.

    In HTML, all values are escaped. In Markdown, texts from outside, such as the names of classes,
    need the filter `code`.

    Args:
        template: its path in keras_vit, such as "evaluation/report.html.j2".
        values: the values by their names in the template; a missing one is an error.
    """
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError:
        raise MissingPackageError(
            "pages and cards need Jinja2: pip install 'keras_vit[train]'"
        ) from None
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
