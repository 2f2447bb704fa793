"""Text of lines, such as labels.txt, metrics.jsonl and index.csv."""

from __future__ import annotations

import random

from fuzzing.mutations import json_text, raw

_LINES = (b"", b" ", b"\0", b"\x1b[2J", b"\xff\xfe", b"\xed\xa0\x80", b"a\rb", b'"', b"{", b",,,")


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The text after one of its lines was changed, repeated or removed."""
    lines = content.split(b"\n")
    at, action = rng.randrange(len(lines)), rng.randrange(7)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines[at:at] = [lines[at]] * rng.choice((1, 2, 100_000 // (len(lines[at]) + 1)))
    elif action == 2:
        lines[at] = rng.choice(_LINES)
    elif action == 3:
        lines[at] += rng.choice(_LINES)
    elif action == 4:
        lines[at] = lines[at][:1] * rng.choice((0, 1000, 1_000_000))
    elif action == 5 and lines[at].startswith(b"{"):
        lines[at] = json_text.mutated(rng, lines[at])
    elif action == 6 and b"," in lines[at]:
        cells = lines[at].split(b",")
        value = rng.choice(
            (*json_text.NUMBERS, *json_text.TEXTS, "nan", "inf", "1e999", "9" * 5000)
        )
        cells[rng.randrange(len(cells))] = str(value).encode()
        lines[at] = b",".join(cells)
    else:
        return raw.mutated(rng, content)
    return b"\n".join(lines)
