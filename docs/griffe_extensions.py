"""What Griffe, which reads the code for the pages of the Python API, must know of this code.

Griffe reads the code without running it.
"""

from __future__ import annotations

import ast
import re
from importlib.util import resolve_name
from typing import Any

from griffe import Alias, Extension, Module, Object

# An example: a line with ">>>" and all lines up to the next empty one.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
# "    input, output: as for `export_tflite`." and the lines that go on deeper.
_SEVERAL = re.compile(r"^( +)(\w+(?:, \w+)+)(:.*(?:\n\1 +.+)*)", re.MULTILINE)


class LazyNames(Extension):
    """Adds the names that `lazy_names` of `keras_vit/_lazy.py` gives a package.

    Where `__all__` is computed, as in `models/variants.py`, a module exports all that it defines.
    """

    def on_module_members(self, *, node: ast.AST, mod: Module, **kwargs: Any) -> None:
        """Called by Griffe after it has read the members of a module."""
        table = next(filter(None, map(_table, ast.walk(node))), {})
        for module, names in table.items():
            home = resolve_name(f".{module}", mod.path)
            for name in names:
                mod.set_member(name, Alias(name, f"{home}.{name}"))
        if table:
            mod.exports = sorted(name for names in table.values() for name in names)
        elif mod.exports == []:
            own = (name for name, member in mod.members.items() if not member.is_alias)
            mod.exports = [name for name in own if not name.startswith("_")]


class Docstrings(Extension):
    """Marks examples as code, and gives each of several arguments in a line its own line."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Called by Griffe after it has read a module, a class, a function or an attribute."""
        if isinstance(obj, Object) and obj.docstring:
            text = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = _SEVERAL.sub(_one_by_one, text)


def _table(node: ast.AST) -> dict[str, list[str]] | None:
    called = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "lazy_names"
    return ast.literal_eval(node.args[1]) if called else None


def _one_by_one(several: re.Match[str]) -> str:
    indent, names, rest = several.groups()
    return "\n".join(f"{indent}{name}{rest}" for name in names.split(", "))
