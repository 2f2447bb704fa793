"""The paths of downloaded files in the cache: `HOST/DIRECTORY/NAME`.

The directory is part of the path because files in two directories may have the same name.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from pathlib import Path

from keras_vit._errors import UsageError

PART = ".part"  # the suffix of a file that is being downloaded
_LONGEST_URL = 2000  # longer paths are refused by the system
_URL = re.compile(r"(https?)://([\w.-]+|\[[\da-fA-F:]+\])(:\d+)?((?:/[^/?#\s]+)+)", re.ASCII)


def cache_folder() -> Path:
    """`KERAS_VIT_CACHE`; if it is not set, `keras_vit` in `XDG_CACHE_HOME` or in ~/.cache."""
    folder = os.environ.get("KERAS_VIT_CACHE")
    if folder:
        return Path(folder).expanduser()
    parent = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (parent if parent.is_absolute() else Path("~/.cache").expanduser()) / "keras_vit"


def cached_path(url: str, cache: str | os.PathLike | None = None) -> Path:
    """The path in the cache for the file at `url`, downloaded or not: `HOST/DIRECTORY/NAME`.

    Raises:
        UsageError: `url` is not an http or https address, or cannot be a path: it has a query, a
            user, an empty or dotted part, control characters, or a name that the cache uses.
    """
    parts = _URL.fullmatch(url) if url.isascii() and len(url) <= _LONGEST_URL else None
    if parts:
        scheme, host, port, names = parts.groups()
        # A file from an http address must not be used for the https address.
        port = port or (":80" if scheme == "http" else "")
        host = (host.strip("[]").lower() + port).replace(":", "_")
        names = [urllib.parse.unquote(name) for name in names.split("/")[1:]]
    if not parts or not all(map(_is_safe, [host, *names])) or names[-1].endswith(PART):
        raise UsageError(
            "a URL must be https://HOST/DIRECTORY/NAME in printable ASCII, without user, query and "
            "fragment; download another file yourself and pass its path. "
            f"Received: {url!r}."
        )
    return Path(cache if cache is not None else cache_folder()).joinpath(host, *names)


def _is_safe(name: str) -> bool:
    """Whether one part of a URL may be one part of a path."""
    return (
        name not in ("", ".", "..")
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>|\ufffd')  # the last one stands for invalid UTF-8
        and len(os.fsencode(name)) <= 200
    )
