"""Commands whose data changes while they read it end with one line, not with a traceback."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from keras_vit import data, runs
from keras_vit.data import sources

tf = pytest.importorskip("tensorflow", reason="TensorFlow writes the records")
QUICK = ("--image-size", "16", "--duration", "2 steps", "--batch-size", "4", "--no-jit")


def write_records(file, rng, count):
    with tf.io.TFRecordWriter(str(file)) as writer:
        for i in range(count):
            stream = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)).save(stream, "PNG")
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[stream.getvalue()]))
            label = tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 2]))
            features = {"image/encoded": image, "image/class/label": label}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_record_file_that_changes_under_a_command_is_named_in_one_line(
    invoke, done, refused, tiny_model, tmp_path, rng, monkeypatch, damage
):
    folder = tmp_path / "records"
    folder.mkdir()
    train, held_out = folder / "train.tfrecord", folder / "validation.tfrecord"
    write_records(train, rng, 8)
    write_records(held_out, rng, 4)
    good = {file: file.read_bytes() for file in (train, held_out)}

    def opened_then_damaged(file):
        def open_source(*arguments, **settings):
            source = sources.open_source(*arguments, **settings)
            content = bytearray(good[file])
            content[500] ^= 1
            file.write_bytes(content if damage == "flipped" else content[:100])
            return source

        monkeypatch.setattr(data, "open_source", open_source)
        monkeypatch.setattr(runs, "open_source", open_source)

    fit = ("train/fit.py", "--data", f"tfrecords:{folder}", "--model", tiny_model, *QUICK)
    fit += ("--out", "run", "--overwrite")
    for file in (train, held_out):  # read by the steps, and by the evaluation after them
        opened_then_damaged(file)
        code, _, error = invoke(*fit, cwd=tmp_path)
        assert code == 2, error
        *_, line = error.strip().splitlines()
        start = f"fit.py: training stopped after the last saved epoch: {file}: expected the file of"
        assert line.startswith(start)
        assert "Traceback" not in error
        file.write_bytes(good[file])
    monkeypatch.undo()
    done(*fit)
    opened_then_damaged(held_out)
    line = refused("train/evaluate.py", "--run", "run")
    assert line.startswith(f"evaluate.py: {held_out}: expected the file of {len(good[held_out]):,}")
