"""Feeds damaged files of weights to the readers: python tests/weights/fuzz_readers.py --seconds 180

Each input is a file in a published layout with changed bytes, lengths, headers, names, values or
config. The checksums of archives are corrected, so that the code after the checksum is tested too.
Reading must succeed or raise a UsageError, and must not need much memory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import re
import resource
import struct
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import keras_vit
from keras_vit._keras import keras
from keras_vit.weights import open_checkpoint

FIXTURES = Path(__file__).parents[1] / "fixtures"
SEEDS = (
    "vit_token.weights.npz", "vit_token_linen.weights.npz", "vit_token_prelogits.weights.npz",
    "hybrid_stem.weights.npz", "timm_token.safetensors", "timm_map.safetensors",
    "hf_classifier.safetensors", "hf_base.safetensors",
)  # fmt: skip
PHRASES = (
    "cannot be read", "is not a complete", "is not a numpy array", "two arrays with the name",
    "does not fit the model", "needs ", "NaN or infinite", "must contain floats",
    "has an unknown layout", "has an unknown architecture", "are the same weight", "several models",
    "not valid JSON", "expected a JSON object", "must have one dimension", "claims to unpack",
    "pass preprocessing",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 47, 49, 255, 2**16, 2**31 - 1, 2**32, 2**63, 10**12, 10**30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    inputs, outcomes, grown = fuzz(arguments.seed, lambda _: time.monotonic() < end)
    print(f"{inputs:,} inputs, peak memory {grown:+.0f} MiB")
    for outcome, count in outcomes.most_common():
        print(f"{count:>9,}  {outcome}")


def fuzz(seed: int, goes_on) -> tuple[int, Counter, float]:
    """Reads damaged files while `goes_on(inputs so far)`.

    Returns:
        The number of inputs, the counts of outcomes, and the growth of the peak memory in MiB.
    """
    generator, outcomes, inputs = random.Random(seed), Counter(), 0
    seeds = [(FIXTURES / name).read_bytes() for name in SEEDS]
    configs = [_config(name) for name in SEEDS]
    models = [keras_vit.model_from_weights(FIXTURES / name) for name in SEEDS]
    with tempfile.TemporaryDirectory() as folder:  # files with metadata
        for model in models[:4]:
            keras_vit.save_weights(model, Path(folder) / "saved.npz")
            seeds.append((Path(folder) / "saved.npz").read_bytes())
            configs.append("{}")
            models.append(model)
    before = _peak()
    with tempfile.TemporaryDirectory() as folder:
        while goes_on(inputs):
            index = generator.randrange(len(seeds))
            file = Path(folder) / "model.safetensors"
            file.write_bytes(_damaged(seeds[index], generator))
            config = file.with_name("config.json")
            config.write_text(_damaged_config(configs[index], generator), encoding="utf-8")
            outcomes[_outcome(file, models[index], builds=inputs % 25 == 0)] += 1
            inputs += 1
    return inputs, outcomes, _peak() - before


def _outcome(file: Path, model, builds: bool) -> str:
    try:
        with open_checkpoint(file) as checkpoint:
            for field in ("dialect", "num_classes", "labels", "parameters", "head_state"):
                getattr(checkpoint, field)
            for field in (
                "spec",
                "variant",
                "image_size",
                "grid",
                "preprocessing",
                "stated",
                "stated_grid",
            ):
                getattr(checkpoint, field)
    except keras_vit.UsageError as error:
        return f"inspecting: {_kind(error)}"
    try:
        keras_vit.load_weights(model, file, head="reset")
    except keras_vit.UsageError as error:
        return f"loading: {_kind(error)}"
    finally:
        if builds:
            with contextlib.suppress(keras_vit.UsageError):
                keras_vit.model_from_weights(file)
            keras.backend.clear_session()
    return "read"


def _kind(error: Exception) -> str:
    line = str(error).splitlines()[0]
    assert line.isprintable(), line
    return next((phrase for phrase in PHRASES if phrase in line), "another refusal")


def _damaged(content: bytes, generator: random.Random) -> bytes:
    if generator.random() < 0.05:
        return content
    if generator.random() < 0.3:
        return _scrambled(content, generator)
    return (_damaged_zip if content.startswith(b"PK") else _damaged_safetensors)(content, generator)


def _scrambled(content: bytes, generator: random.Random, times: int = 4) -> bytes:
    """Flips, deletes, repeats or truncates bytes anywhere."""
    data = bytearray(content)
    for _ in range(generator.randint(1, times)):
        if not data:
            break
        at, kind = generator.randrange(len(data)), generator.randrange(5)
        end = at + generator.choice((1, 2, 4, 8, 64))
        if kind == 0:
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            data[at:end] = generator.randbytes(end - at)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end]
        elif generator.random() < 0.3:
            del data[at:]
    return bytes(data)


def _damaged_zip(content: bytes, generator: random.Random) -> bytes:
    """Changes, renames, adds or deletes members; the checksums are valid."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
        comment = archive.comment
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(members))
        name, data = members[at]
        kind = generator.randrange(6)
        if kind == 0:
            members[at] = (name, _scrambled(data[:128], generator) + data[128:])
        elif kind == 1:
            members[at] = (name, _renumbered(data[:128], generator) + data[128:])
        elif kind == 2:
            members[at] = (name, data[:128] + _scrambled(data[128:], generator))
        elif kind == 3:
            members[at] = (_renamed(name, generator), data)
        elif kind == 4:
            members.append((_renamed(name, generator), data))
        elif len(members) > 1:
            del members[at]
    comment = _claims(comment, generator)
    stream = io.BytesIO()
    method = generator.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in dict(members).items():
            archive.writestr(name, data)
        archive.comment = comment
    return stream.getvalue()


def _claims(comment: bytes, generator: random.Random) -> bytes:
    """Replaces the metadata of the archive, or changes numbers in it."""
    if not comment:
        return generator.randbytes(8)
    return (_scrambled if generator.random() < 0.3 else _renumbered)(comment, generator)


def _damaged_safetensors(content: bytes, generator: random.Random) -> bytes:
    """Changes text or numbers of the header; its length is usually right."""
    size = struct.unpack("<Q", content[:8])[0]
    text, data = content[8 : 8 + size], content[8 + size :]
    kind = generator.randrange(5)
    if kind == 0:
        text = _scrambled(text, generator)
    elif kind == 1:
        text = _renumbered(text, generator)
    elif kind == 2:
        data = _scrambled(data, generator)
    elif kind == 3:
        header = json.loads(text)
        for _ in range(generator.randint(1, 3)):
            key = generator.choice(sorted(header))
            header[_renamed(key, generator)] = header.pop(key)
        text = json.dumps(header).encode()
    else:
        size = generator.choice(NUMBERS) % 2**64
        return struct.pack("<Q", size) + text + data
    return struct.pack("<Q", len(text)) + text + data


def _renumbered(text: bytes, generator: random.Random) -> bytes:
    numbers = list(re.finditer(rb"\d+", text))
    if not numbers:
        return text
    actual = generator.choice(numbers)
    return text[: actual.start()] + str(generator.choice(NUMBERS)).encode() + text[actual.end() :]


def _renamed(name: str, generator: random.Random) -> str:
    kind = generator.randrange(4)
    if kind == 0:
        return generator.choice(("../../evil.npy", "/etc/passwd.npy", "\x1b[2J.npy", ".npy", "a"))
    if kind == 1:
        return _renumbered(name.encode(), generator).decode()
    if kind == 2:
        return f"params/{name}"
    stem, dot, suffix = name.partition(".npy")
    changed = (c.upper() if generator.random() < 0.1 else c for c in stem)
    return "".join(changed) + dot + suffix


def _damaged_config(config: str, generator: random.Random) -> str:
    kind = generator.randrange(8)
    if kind == 0:
        return _scrambled(config.encode(), generator).decode("latin-1")
    if kind == 1:
        return _renumbered(config.encode(), generator).decode()
    if kind == 2 and config != "{}":
        content = json.loads(config)
        values = (None, True, "x", [], {}, -1, 1e308, [1, 2], {"0": 3}, "9" * 50)
        content[generator.choice(sorted(content))] = generator.choice(values)
        return json.dumps(content)
    return config


def _config(name: str) -> str:
    file = FIXTURES / f"{Path(name).stem}.config.json"
    return file.read_text(encoding="utf-8") if file.exists() else "{}"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
