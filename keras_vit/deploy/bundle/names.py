"""Names of bundles where several are together: in the app and on a web page."""

from __future__ import annotations

import os
import re

from keras_vit._errors import UsageError, shown
from keras_vit.deploy.bundle.folder import bundle_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def bundle_name(bundle: str | os.PathLike) -> str:
    """The default name of a bundle: "flowers-int8" for runs/flowers/export/int8."""
    bundle = bundle_folder(bundle).resolve()
    parts = [bundle.parents[1].name] if bundle.parent.name == "export" else []
    return safe_name("-".join([*parts, bundle.name]))


def safe_name(text: str) -> str:
    """What assets and URLs can have of a text; "" if that is nothing."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]


def check_name(name: str) -> None:
    """Raises a `UsageError` for a name that assets or URLs cannot have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "a bundle's name has up to 64 letters, digits, '.', '-' and '_'. "
            f"Received: {shown(name)}."
        )
