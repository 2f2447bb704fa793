"""Commands on files of strangers, or that change meanwhile: exit code 2, one line, or they work."""

import hashlib
import json
import random
import shutil
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from PIL import Image

from keras_vit import data, runs
from keras_vit.data import sources

BUNDLE = Path(__file__).parents[2] / "android_demo/testing/models/digits-int8"
DAMAGED = (b"", b"\0" * 100, b"PK\x05\x06" + bytes(18), b"\xff\xfe\n", b"a\rb\nc\x1b[2J\n")
QUICK = ("--image-size", "16", "--duration", "2 steps", "--batch-size", "4", "--no-jit")
JSON = ("spec.json", "recipe.json", "split.json")


@pytest.fixture
def bundle(tmp_path):
    """A copy of a good bundle, beside which there is the picture a.png."""
    Image.new("RGB", (9, 7), "red").save(tmp_path / "a.png")
    return shutil.copytree(BUNDLE, tmp_path / "bundle")


@pytest.fixture
def refusals(invoke, tmp_path):
    """The number of contents of a file with which a command refuses to work."""

    def count(file, contents, *command):
        good, refused = file.read_bytes(), 0
        for description, content in contents:
            file.write_bytes(content)
            code, out, error = invoke(*command, cwd=tmp_path)
            place = f"{file.name}, {description}: {error}"
            assert code in (0, 2), place
            assert "Traceback" not in out + error, place
            if code == 2:
                (line,) = error.splitlines()
                assert line.isprintable(), place
                assert len(line) < 1_500, place
                refused += 1
        file.write_bytes(good)
        return refused

    return count


def some(variants, file, count):
    return random.Random(0).sample(list(variants(file.read_bytes())), count)


def bytes_of(file):
    good = file.read_bytes()
    return [(repr(each[:9]), each) for each in (*DAMAGED, good[: len(good) // 2])]


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("name", [*JSON, "metrics.jsonl", "labels.txt", "weights.npz"])
def test_evaluate_refuses_a_strangers_run_in_one_line(refusals, variants, run, name):
    contents = some(variants, run / name, 25) if name in JSON else bytes_of(run / name)
    found = refusals(run / name, contents, "train/evaluate.py", "--run", run)
    assert found > (15 if name in JSON else 2 if name != "metrics.jsonl" else 0)


@pytest.mark.parametrize("name", ["model.json", "golden.json", "labels.txt", "model.tflite"])
def test_run_refuses_a_strangers_bundle_in_one_line(refusals, variants, bundle, name, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.bundle.golden._TIMED", 1)
    if name != "model.tflite":  # the file is intact, and a process for each input takes long
        monkeypatch.setattr("keras_vit.deploy.bundle.opened_bundle.try_file", lambda model: None)
    is_json = name.endswith(".json")
    contents = some(variants, bundle / name, 80) if is_json else bytes_of(bundle / name)
    word = "--verify" if name == "golden.json" else "a.png"
    found = refusals(bundle / name, contents, "export/run.py", "--bundle", bundle, word)
    assert found > (10 if is_json else 4)


def test_a_file_that_would_end_the_process_is_refused_in_one_line(refused, bundle):
    model = schema.ModelT.InitFromPackedBuf((bundle / "model.tflite").read_bytes())
    [graph] = model.subgraphs
    kernel = next(each for each in graph.tensors if each.name.endswith(b"value/MatMul"))
    kernel.quantization.scale = np.append(1.3e7, kernel.quantization.scale[1:])
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    content = bytes(builder.Output())
    (bundle / "model.tflite").write_bytes(content)
    about = json.loads((bundle / "model.json").read_text())
    about["sha256"] = hashlib.sha256(content).hexdigest()
    (bundle / "model.json").write_text(json.dumps(about))
    for word in ("a.png", "--verify"):
        line = refused("export/run.py", "--bundle", bundle, word, code=3)
        # Its memory decides whether LiteRT can still say what is wrong.
        assert "model.tflite is damaged: a process that runs" in line or "LiteRT refuses" in line


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_record_file_that_changes_under_a_command_is_named_in_one_line(
    invoke, done, refused, tiny_model, prepare_tfds, tmp_path, rng, monkeypatch, damage
):
    pixels = rng.integers(0, 256, (8, 20, 30, 3)).astype(np.uint8)
    examples = [{"image": each, "label": i % 2, "file_name": "a"} for i, each in enumerate(pixels)]
    folder = prepare_tfds("dtd", train=examples, validation=examples[:4])
    train, held_out = sorted(folder.glob("dtd-*.tfrecord*"))
    good = {file: file.read_bytes() for file in (train, held_out)}

    def opened_then_damaged(file):
        for each, content in good.items():
            each.write_bytes(content)

        def open_source(*arguments, **settings):
            source = sources.open_source(*arguments, **settings)
            content = bytearray(good[file])
            content[500] ^= 1
            file.write_bytes(content if damage == "flipped" else content[:100])
            return source

        monkeypatch.setattr(data, "open_source", open_source)
        monkeypatch.setattr(runs, "open_source", open_source)

    fit = ("train/fit.py", "--data", "tfds:dtd:train:validation", "--model", tiny_model, *QUICK)
    fit += ("--out", "run", "--overwrite")
    done(*fit)
    opened_then_damaged(held_out)
    line = refused("train/evaluate.py", "--run", "run")
    assert line.startswith(f"evaluate.py: {held_out}: expected the file of {len(good[held_out]):,}")
    for file in (train, held_out):  # read by the steps, and by the evaluation after them
        opened_then_damaged(file)
        code, _, error = invoke(*fit, cwd=tmp_path)
        assert code == 2, error
        *_, line = error.strip().splitlines()
        start = f"fit.py: training stopped after the last saved epoch: {file}: expected the file of"
        assert line.startswith(start)
        assert "Traceback" not in error
