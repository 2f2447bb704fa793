"""Bundles beside a file that is intact, `.tflite` files as they are read, and as they are run."""

import hashlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from fuzzing.kind import Files, Kind, one_file
from fuzzing.kinds._reading import each_of
from fuzzing.mutations import raw, text
from keras_vit.deploy.bundle import export_report as report
from keras_vit.deploy.bundle import golden
from keras_vit.deploy.bundle.opened_bundle import open_bundle
from keras_vit.deploy.convert.float_layers import read_recipe
from keras_vit.tflite.flatbuffer import check_static, operators, read_graph
from keras_vit.tflite.gpu_compatibility import lint
from keras_vit.tflite.phone_records import measured_on_phones
from keras_vit.tflite.runtimes import check_runtime, runtime_floor, versions

_ROOT = Path(__file__).parents[4]
_MODELS = _ROOT / "android_demo/testing/models"
_PHONE = _ROOT / "tests/fixtures/phone/record.json"
_OFFSETS = (0, 1, 2, 3, 4, 8, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0)


def _of(name: str) -> Files:
    """The files of a bundle of digits, without its samples."""
    return {path.name: path.read_bytes() for path in sorted((_MODELS / name).glob("*.*"))}


def _bundle(home: Path) -> list[Files]:
    golden._TIMED = 1  # how fast it runs does not matter here
    files = {f"int8/{name}": content for name, content in _of("digits-int8").items()}
    about = json.loads(files["int8/model.json"])
    measured = {"latency": [], "peak_bytes": 1000, "load_s": 0.5, "compressed_bytes": 1000}
    known = {"name": "int8", "bytes": 9, "sha256": about["sha256"], "measured": measured}
    table = report.table_record([report.table_row(about["parity"], **known)], {}, 1)
    recipe = {
        "format": 1, "base": "int8", "model": about["model"], "chosen_on": "3 images",
        "float_layers": ["head"], "sensitivity": {"head": 0.5},
    }  # fmt: skip
    phone = json.loads(_PHONE.read_text()) | {"sha256": about["sha256"]}
    more = {"int8/recipe.json": recipe, "table.json": table, "int8/phones/a.json": phone}
    return [files | {name: json.dumps(value).encode() for name, value in more.items()}]


def _read_bundle(folder: Path, home: Path) -> None:
    each_of(
        lambda: golden.check_golden(folder / "int8"),
        lambda: read_recipe(folder / "int8/recipe.json", "ViT-Pico_4", {"int8"}),
        lambda: report._earlier_bundles(folder, {}),
        lambda: report._labels(folder, {"int8": {}}),
        lambda: measured_on_phones(folder),
        lambda: report.withdraw_report(folder),  # the last one, because it removes table.json
    )


BUNDLE = Kind(
    64 << 20,
    _bundle,
    # A `.tflite` that is damaged is no longer the file of model.json.
    one_file({".json": text.json_value, ".txt": text.lines, ".tflite": raw.mutated}),
    _read_bundle,
)


def _tflite(home: Path) -> list[Files]:
    """Whole files, and more often the same of a few thousand bytes, without their weights."""
    whole = [_of(name)["model.tflite"] for name in ("digits-int8", "digits-float16")]
    small = []
    for content in whole:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        for buffer in model.buffers:
            buffer.data = None if buffer.data is None else buffer.data[:16]
        small.append(_packed(model))
    return [{"model.tflite": content} for content in (*small * 4, *whole)]


def _mutated(rng: random.Random, content: bytes) -> bytes:
    """The file after a change of bytes, of a number anywhere, or of a field of any object."""
    action = rng.random()
    if action < 0.15:
        return raw.mutated(rng, content)
    if action < 0.5:
        at = 4 * rng.randrange(max(len(content) // 4, 1))
        value = rng.choice((*_OFFSETS, rng.randrange(len(content) + 4)))
        return content[:at] + struct.pack("<I", value) + content[at + 4 :]
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    fields = list(text.places(vars(model)))
    for _ in range(20):
        holder, name = rng.choice(fields)
        before = holder[name]
        try:
            value = before.tolist() if isinstance(before, np.ndarray) else before
            holder[name] = text.alike(rng, value)
            return _packed(model)
        except Exception:  # an object, or a value that cannot be written
            holder[name] = before
    return content


def _packed(model: Any) -> bytes:
    """The file of a tree of the schema's objects."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _read_tflite(folder: Path, home: Path) -> None:
    graph = read_graph(folder / "model.tflite")
    each_of(
        lambda: operators(graph), lambda: versions(graph), lambda: runtime_floor(graph),
        lambda: check_static(graph), lambda: lint(graph), lambda: check_runtime(graph, "2.10.0"),
        lambda: [graph.layer(operator) for operator in graph.operators],
        lambda: (graph.producers, graph.consumers),
    )  # fmt: skip


# The memory is that of the objects of a list of 65,536 entries.
TFLITE = Kind(64 << 20, _tflite, one_file({".tflite": _mutated}), _read_tflite)


def _with_its_hash(rng: random.Random, files: Files) -> Files:
    """The file is damaged although model.json has its hash."""
    content = _mutated(rng, files["model.tflite"])
    about = json.loads(files["model.json"]) | {"sha256": hashlib.sha256(content).hexdigest()}
    return files | {"model.tflite": content, "model.json": json.dumps(about).encode()}


def _run(folder: Path, home: Path) -> None:
    bundle = open_bundle(folder, trusted=False)
    bundle.predict(np.zeros((1, *bundle.preprocessing.size, 3), np.float32))


EXECUTED = Kind(
    2 << 30,  # LiteRT takes what a file asks for
    lambda home: [_of("digits-int8"), _of("digits-float16")],
    _with_its_hash,
    _run,
)
