"""Makes an input smaller while it still fails (delta debugging, Zeller and Hildebrandt 2002)."""

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuzzing.kind import Files


def fewest(items: Sequence, fails: Callable[[Sequence], bool]) -> Sequence:
    """A part of `items` that still fails."""
    if items and fails(items[:0]):
        return items[:0]
    pieces = 2
    while items:
        size = -(-len(items) // pieces)
        parts = (items[:at] + items[at + size :] for at in range(0, len(items), size))
        smaller = next((part for part in parts if fails(part)), None)
        if smaller is not None:
            items, pieces = smaller, max(pieces - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(2 * pieces, len(items))
    return items


def smallest(files: Files, fails: Callable[[Files], bool]) -> Files:
    """The input with fewer files, and less in each of them."""
    names = fewest(sorted(files), lambda some: fails({name: files[name] for name in some}))
    files = {name: files[name] for name in names}
    for name in names:
        for shrink in (_members, _values, fewest):
            files = {**files, name: shrink(files[name], _in_file(files, name, fails))}
    return files


def _in_file(files: Files, name: str, fails: Callable[[Files], bool]) -> Callable[[bytes], bool]:
    return lambda content: fails({**files, name: content})


def _members(content: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """An archive with fewer members."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
            comment = archive.comment
    except Exception:  # a damaged archive, or none
        return content

    def rebuilt(some: Sequence) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for info, data in some:
                archive.writestr(zipfile.ZipInfo(info.filename), data, info.compress_type)
            archive.comment = comment
        return stream.getvalue()

    members = fewest(members, lambda some: fails(rebuilt(some)))
    return rebuilt(members) if fails(rebuilt(members)) else content


def _values(content: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """JSON with fewer fields and elements."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not fails(json.dumps(value).encode()):
        return content
    smaller = value
    while smaller is not None:
        value = smaller
        written = ((less, json.dumps(less).encode()) for less in _without_one(value))
        smaller = next((less for less, content in written if fails(content)), None)
    return json.dumps(value).encode()


def _without_one(value: Any) -> Iterator[Any]:
    """The value without one of its fields or elements; the outer ones first."""
    if isinstance(value, (dict, list)):
        keys = (list(value) if isinstance(value, dict) else range(len(value)))[:200]
        for key in keys:
            less = copy.copy(value)
            del less[key]
            yield less
        for key in keys:
            for inner in _without_one(value[key]):
                less = copy.copy(value)
                less[key] = inner
                yield less
