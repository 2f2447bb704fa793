"""What a dex file holds, as Debian's dexdump reads it."""

import re
from dataclasses import dataclass
from pathlib import Path

from commands import run

_CLASS = re.compile(r"^  Class descriptor  : 'L(?P<name>[^;]+);'$", re.MULTILINE)
_NATIVE = re.compile(
    r"\(in L(?P<owner>[^;]+);\)\n +name +: '(?P<name>[^']+)'\n +type .*\n +access .*NATIVE"
)
_METHOD = re.compile(r"^[0-9a-f]+: +\|\[[0-9a-f]+\] (?P<name>.+)$")
_INSTRUCTION = re.compile(r"^[0-9a-f]+: .*\|(?P<text>[0-9a-f]{4}: .*?)(?: // .*)?$")
_REFERENCES = re.compile(r"^method_ids_size +: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class DexFile:
    """Names of classes have slashes: dev/kerasvit/demo/MainActivity."""

    method_references: int
    classes: frozenset[str]
    native_methods: frozenset[tuple[str, str]]


def read_dex(path: Path) -> DexFile:
    """Reads a dex file; a damaged one ends the program with dexdump's words."""
    text = run("dexdump", "-f", path)
    return DexFile(
        method_references=int(_REFERENCES.search(text).group(1)),
        classes=frozenset(_CLASS.findall(text)),
        native_methods=frozenset(_NATIVE.findall(text)),
    )


def read_code(path: Path) -> dict[str, list[str]]:
    """The instructions of each method, by "dev.kerasvit.core.Timings.add:(J)V"."""
    methods: dict[str, list[str]] = {}
    instructions: list[str] = []
    for line in run("dexdump", "-d", path).splitlines():
        if method := _METHOD.match(line):
            instructions = methods.setdefault(method["name"], [])
        elif instruction := _INSTRUCTION.match(line):
            instructions.append(instruction["text"])
    return methods
