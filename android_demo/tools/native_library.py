"""What a native library says of itself, as readelf reads it."""

import re
from dataclasses import dataclass
from pathlib import Path

from commands import run

_LOAD = re.compile(r"^  LOAD .* 0x([0-9a-f]+)$", re.MULTILINE)
_MACHINE = re.compile(r"^  Machine: +(.+)$", re.MULTILINE)
# Of overloaded methods, without the types of their parameters.
_JNI = re.compile(r" (Java_\w+?)(?:__(?!1)\w*)?(?:@\S*)?$", re.MULTILINE)

# readelf's name of the processor for which each ABI's libraries are built.
MACHINES = {"arm64-v8a": "AArch64", "x86_64": "Advanced Micro Devices X86-64"}


@dataclass(frozen=True)
class NativeLibrary:
    """`load_alignment` is the size of the largest page of memory with which the library works."""

    machine: str
    load_alignment: int
    jni_functions: frozenset[str]


def read_library(path: Path) -> NativeLibrary:
    """Reads an ELF file; another one ends the program with readelf's words."""
    text = run("readelf", "-hlW", "--dyn-syms", path)
    return NativeLibrary(
        machine=_MACHINE.search(text).group(1),
        load_alignment=min(int(alignment, 16) for alignment in _LOAD.findall(text)),
        jni_functions=frozenset(_JNI.findall(text)),
    )


def jni_name(owner: str, method: str) -> str:
    """The function that the virtual machine looks for when a native method is first called."""
    return "_".join(["Java", *(part.replace("_", "_1") for part in [*owner.split("/"), method])])
