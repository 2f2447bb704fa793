"""Dex as classes for the JVM: translated by enjarify, and made fit where phones allow more.

Enjarify's class files are older than interfaces with code: their version becomes that of Java 8,
and what they call of interfaces is marked so. R8 lets classes be constructed by the constructor of
their superclass, which the JVM allows only without its verifier.
"""

import re
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from class_file import constants
from commands import run

# The JVM's option without which these classes do not run.
UNVERIFIED = "-Xverify:none"
_CLASS, _METHOD, _INTERFACE_METHOD = 7, 10, 11
_IS_INTERFACE = 0x0200
# What R8 adds for classes of newer Android. Those of support libraries are the app's.
_STAND_IN = re.compile("android/(?!support/)")
_JAVA_8 = struct.pack(">HH", 0, 52)


@dataclass(frozen=True)
class _Class:
    """What a class file says of its class, and where."""

    content: bytes
    methods: dict[int, tuple[int, str]]  # the tag and the owner, by the place of each reference
    indices: dict[str, int]  # of the classes that it names
    name: str
    supertypes: tuple[str, ...]
    is_interface: bool
    interfaces_at: int


def translate(dex: Path, folder: Path) -> Path:
    """Writes a jar of a dex file's classes to a folder."""
    jar = folder / f"{dex.stem}.jar"
    # Debian's script takes the python3 of PATH, which need not be the one that knows enjarify.
    text = run("env", "PATH=/usr/bin:/bin", "enjarify", "--force", "--output", jar, dex)
    print(f"{dex.name}: {text.splitlines()[-1]}", flush=True)
    return jar


def make_fit(jar: Path, sources: Iterable[Path]) -> None:
    """Writes a jar of what `translate` wrote, without R8's stand-ins for Android's own classes."""
    classes = {}
    for source in sources:
        with zipfile.ZipFile(source) as entries:
            for entry in entries.namelist():
                if not _STAND_IN.match(entry):
                    classes[entry] = _read(entries.read(entry))
    by_name = {each.name: each for each in classes.values()}
    interfaces = {each.name for each in by_name.values() if each.is_interface} | {
        owner
        for each in by_name.values()
        for tag, owner in each.methods.values()
        if tag == _INTERFACE_METHOD
    }
    with zipfile.ZipFile(jar, "w") as output:
        for entry, each in classes.items():
            output.writestr(entry, _fit(each, interfaces, by_name))


def _read(content: bytes) -> _Class:
    pool, end = constants(content)

    def class_name(index: int) -> str:
        return pool[pool[index].first].text

    access, this, parent, count = struct.unpack_from(">4H", content, end)
    listed = struct.unpack_from(f">{count}H", content, end + 8)
    return _Class(
        content=content,
        methods={
            constant.at: (constant.tag, class_name(constant.first))
            for constant in pool.values()
            if constant.tag in (_METHOD, _INTERFACE_METHOD)
        },
        indices={class_name(i): i for i, each in pool.items() if each.tag == _CLASS},
        name=class_name(this),
        supertypes=tuple(class_name(index) for index in (parent, *listed) if index),
        is_interface=bool(access & _IS_INTERFACE),
        interfaces_at=end + 6,
    )


def _fit(each: _Class, interfaces: set[str], by_name: dict[str, _Class]) -> bytes:
    edited = bytearray(each.content)
    edited[4:8] = _JAVA_8
    called = {
        at: owner
        for at, (tag, owner) in each.methods.items()
        if tag == _METHOD and owner in interfaces
    }
    for at in called:
        edited[at] = _INTERFACE_METHOD
    # What a class inherits over others, the JVM lets it call only if it is also listed.
    listed = {each.name, *each.supertypes}
    added = sorted(
        owner for owner in set(called.values()) - listed if _inherits(each, owner, by_name)
    )
    (count,) = struct.unpack_from(">H", edited, each.interfaces_at)
    struct.pack_into(">H", edited, each.interfaces_at, count + len(added))
    behind = each.interfaces_at + 2
    edited[behind:behind] = b"".join(struct.pack(">H", each.indices[owner]) for owner in added)
    return bytes(edited)


def _inherits(each: _Class, owner: str, by_name: dict[str, _Class]) -> bool:
    return owner in each.supertypes or any(
        _inherits(by_name[name], owner, by_name) for name in each.supertypes if name in by_name
    )
