"""Packages whose names are imported when they are first used.

The commands print tables (recipes, precisions) in their help, and the help must not import Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package (PEP 562).

    Args:
        package: its `__name__`.
        modules: for each of its modules, the public names that the module defines; a module of the
            package beside it begins with a dot.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{homes[name]}", package), name)

    return get, sorted(homes)
