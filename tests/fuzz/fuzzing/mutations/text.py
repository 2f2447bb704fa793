"""Trees of values, such as JSON, and lines, such as those of metrics.jsonl and index.csv."""

import json
import random
from collections.abc import Iterator
from typing import Any

from fuzzing.mutations import raw

NUMBERS = (
    0, -1, 1, 2, 3, 7, 255, 256, 1000, 4096, 16_384, 65_535, 65_536, 100_000, 2**31 - 1, 2**31,
    2**53 + 1, 2**63, 10**12, 10**30, -(2**63), 0.5, -0.5, 1e-9, 1e9, 1e308, 5e-324, -0.0, 1.5,
)  # fmt: skip
TEXTS = (
    "", " ", "x", "a\nb", "a\r", "\x00", "\x1b[2J", "\u2028", "\ufeff", "é" * 50, "../../x", "/",
    "nan", "%s{}", "float32", "x" * 5000, "\u202ereversed",
)  # fmt: skip
# Text that stands for no value of Python: it is put in after the rest was written.
_TEXTS_OF_VALUES = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e-999", "0" * 20, '"\\ud800"', '"\\udc00x"',
    '{"a": 1, "a": 2}', "", "[" * 100 + "]" * 100, "[" * 2000 + "]" * 2000, "[" * 100_000,
    '{"a":' * 2000 + "1" + "}" * 2000, "9" * 2000, "9" * 100_000, f'"{"x" * 1_000_000}"',
)  # fmt: skip
_LARGEST = 1 << 20  # bytes of text whose values are changed
_PLACEHOLDER = "PLACEHOLDER of raw text"


def json_value(rng: random.Random, content: bytes) -> bytes:
    """The text after one of its values, or a byte of it, was changed."""
    if len(content) > _LARGEST or rng.random() < 0.1:
        return raw.mutated(rng, content)
    value = changed(rng, json.loads(content), _PLACEHOLDER if rng.random() < 0.15 else None)
    written = json.dumps(value, indent=rng.choice((None, 2)))
    written = written.replace(f'"{_PLACEHOLDER}"', rng.choice(_TEXTS_OF_VALUES))
    return written.encode("utf-8", "surrogatepass")


def changed(rng: random.Random, value: Any, other: Any = None) -> Any:
    """The value after a change at one place of it, where `other` is put if there is one."""
    holder = [value]
    container, key = rng.choice(list(places(holder)))
    if other is not None:
        container[key] = other
    elif rng.random() < 0.5:
        container[key] = alike(rng, container[key])
    elif isinstance(container, dict) and rng.random() < 0.4:
        moved = container.pop(key)
        if rng.random() < 0.5:
            container[rng.choice((*TEXTS, key.upper(), f"{key}2"))] = moved
    else:
        container[key] = anything(rng)
    return holder[0]


def anything(rng: random.Random) -> Any:
    """A value of any type."""
    return rng.choice(
        (
            None, True, False, rng.choice(NUMBERS), rng.choice(TEXTS), [], {}, [None], [[]],
            [rng.choice(NUMBERS) for _ in range(rng.choice((1, 2, 3, 100)))],
            {rng.choice(TEXTS): rng.choice(NUMBERS)}, [rng.choice(TEXTS)],
        )
    )  # fmt: skip


def alike(rng: random.Random, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool) or value is None:
        return rng.choice((True, False, None))
    if isinstance(value, (int, float)):
        if not abs(value) < 1e300:  # an integer that is no float, NaN
            return rng.choice(NUMBERS)
        near = (value + 1, value - 1, -value, 2 * value, 1000 * value, float(value))
        return rng.choice((*NUMBERS, *near))
    if isinstance(value, bytes):
        return alike(rng, value.decode(errors="replace")).encode()
    if isinstance(value, str):
        if value.startswith("{"):
            return json_value(rng, value.encode()).decode(errors="replace")
        at = rng.randrange(len(value) + 1)
        inside = value[:at] + rng.choice(TEXTS) + value[at:]
        return rng.choice((rng.choice(TEXTS), inside, value[:at], value * 2, value.upper()))
    if isinstance(value, list):
        more = value * rng.choice((2, 3, 1000)) if len(value) < 100 else value * 2
        return rng.choice(([], value[1:], value[::-1], more, [value], [*value, anything(rng)]))
    same = dict.fromkeys(value, rng.choice([*value.values(), None]))
    return rng.choice(({}, same, value | {"more": value}))


def places(container: Any) -> Iterator[tuple[Any, Any]]:
    """Each value in a list or dictionary, and in those in it, as its container and its key there.

    The fields of an object are those of its dictionary.
    """
    for key in list(container) if isinstance(container, dict) else range(len(container)):
        yield container, key
        inner = getattr(container[key], "__dict__", container[key])
        if isinstance(inner, (dict, list)):
            yield from places(inner)


_LINES = (
    b"", b" ", b"\0", b"\x1b[2J", b"\xff\xfe", b"\xed\xa0\x80", b"a\rb", b'"', b"{", b",,,",
    b"x" * 1_000_000,
)  # fmt: skip
_CELLS = (*map(str, NUMBERS), *TEXTS, "nan", "inf", "1e999", "9" * 5000)


def lines(rng: random.Random, content: bytes) -> bytes:
    """The text after one of its lines was changed, repeated or removed."""
    if rng.random() < 0.2:
        return raw.mutated(rng, content)
    return b"\n".join(raw.in_parts(rng, content.split(b"\n"), _line, _LINES))


def _line(rng: random.Random, line: bytes) -> bytes:
    if rng.random() < 0.2:
        return line + rng.choice(_LINES)
    if line.startswith(b"{"):
        return json_value(rng, line)
    cells = line.split(b",")
    cells[rng.randrange(len(cells))] = rng.choice(_CELLS).encode()
    return b",".join(cells)
