"""Size, latency and memory of files, measured by the runtime in separate processes."""

import json
import re
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import UsageError
from keras_vit.tflite import timing_program as timing
from keras_vit.tflite.measure import Measured, latencies, machine, measure

SPEC = keras_vit.ViTSpec(8, 48, 1, 3, 112)
MIB = 2**20


@pytest.fixture(scope="module")
def content(graph_file):
    return graph_file(SPEC)


@pytest.fixture
def file(content, tmp_path):
    (tmp_path / "a.tflite").write_bytes(content)
    return tmp_path / "a.tflite"


def test_size_time_and_memory_of_each_file(content, file, graph_file, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pixels = graph_file(SPEC, input="uint8")
    start = time.monotonic()
    found = measure({"file": file, "content": pixels}, budget_s=0)
    elapsed = time.monotonic() - start
    assert list(found) == ["file", "content"]
    assert sum(measured.load_s for measured in found.values()) < elapsed
    for measured, expected in zip(found.values(), (content, pixels), strict=True):
        assert measured.bytes == len(expected)
        assert measured.compressed_bytes == len(zlib.compress(expected, 6)) < len(expected)
        assert measured.load_s > 1e-4
        # Python, NumPy and LiteRT; then the tensors of a tiny model.
        assert 10 * MIB < measured.before_bytes < 150 * MIB
        assert len(expected) / 2 < measured.own_bytes < 30 * MIB
        assert measured.own_bytes == measured.peak_bytes - measured.before_bytes
        assert [latency.threads for latency in measured.latency] == [1, 2]
        for latency in measured.latency:
            assert 1e-3 < latency.median_ms <= latency.p90_ms
            assert latency.runs >= 3
            assert latency.runs / 2 * latency.median_ms < 1000 * elapsed
        record = measured.to_dict()
        assert record["own_bytes"] == measured.own_bytes
        assert Measured.from_dict(json.loads(json.dumps(record))) == measured
    assert [path.name for path in tmp_path.iterdir()] == ["a.tflite"]


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int8, tf.int16], ids=lambda dtype: dtype.name)
def test_files_with_integer_inputs_are_timed(converted, dtype):
    file = converted(lambda x: {"y": tf.cast(x, tf.float32) * 2}, (1, 4, 4, 3), dtype=dtype)
    assert latencies({dtype.name: file}, threads=1, rounds=3)[dtype.name] > 0


@pytest.mark.slow
def test_memory_excludes_that_of_the_calling_process(converted):
    kernel = np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32)  # 16 MiB
    files = {
        "large": converted(lambda x: {"y": tf.matmul(x, kernel)}, (1, 2048)),
        "small": converted(lambda x: {"y": tf.matmul(x, kernel[:8, :8])}, (1, 8)),
    }
    ballast = np.ones(50 * MIB)  # 400 MiB
    found = measure(files, threads=[1], budget_s=0)
    del ballast
    assert 16 * MIB < found["large"].own_bytes < 64 * MIB
    assert found["small"].own_bytes < 8 * MIB
    assert max(measured.before_bytes for measured in found.values()) < 100 * MIB


def test_runs_of_files_are_interleaved_within_the_budget(monkeypatch):
    order, clock = [], [0.0]

    def runs(name):
        def run():
            order.append(name)
            clock[0] += 0.02 if name == "slow" else 0.002

        return run

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(timing, "_loaded", lambda file, threads: file)
    monkeypatch.setattr(timing, "_run", runs)
    times = timing.latencies(["slow", "quick"], threads=1, rounds=50, budget_s=0)
    warm_up, turns = order[:2], [order[i] for i in range(2, len(order)) if order[i] != order[i - 1]]
    assert warm_up == ["slow", "quick"]
    assert turns == ["slow", "quick"] * 3
    # The first of several quick runs in a row is not counted.
    assert [len(taken) for taken in times] == [3, order.count("quick") - 1 - 3]
    assert [min(taken) for taken in times] == pytest.approx([20, 2])
    order.clear()
    timing.latencies(["slow"], threads=1, rounds=5, budget_s=60)
    assert order == ["slow"] * 6


def test_the_measuring_process_imports_only_litert_and_numpy(file):
    source = Path(timing.__file__).read_text() + "\n    print(json.dumps(sorted(sys.modules)))\n"
    call = {"function": "loading", "file": str(file), "threads": 1}
    command = [sys.executable, "-c", source, json.dumps(call)]
    *_, last = subprocess.check_output(command).splitlines()
    loaded = {name.split(".")[0] for name in json.loads(last)}
    assert {"numpy", "ai_edge_litert"} <= loaded
    assert not loaded & {"keras_vit", "keras", "tf_keras", "tensorflow", "PIL", "matplotlib"}


def test_modules_in_the_users_folder_are_not_imported(file, monkeypatch):
    file.with_name("numpy.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(file.parent)
    assert latencies({"m": Path(file.name)}, rounds=3)["m"] > 0


@pytest.mark.parametrize(
    ("files", "threads", "message"),
    [
        ({"m": b"no flatbuffer at all"}, [1], "LiteRT cannot run m: ValueError: "),
        ({"m": Path("none.tflite")}, [1], "none.tflite: expected a .tflite file; there is no such"),
        ({"m": b""}, [0], "threads must be a positive integer. Received: threads=0"),
        ({"m": b""}, [], "there is nothing to measure"),
        ({}, [1], "there is nothing to measure"),
    ],
)
def test_files_that_cannot_be_measured_are_refused(files, threads, message):
    with pytest.raises(UsageError, match=message):
        measure(files, threads)


def test_a_killed_process_is_reported(content, tmp_path, monkeypatch):
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killed))
    message = "measuring m was ended by SIGKILL; is there enough"
    with pytest.raises(ChildProcessError, match=message):
        measure({"m": content})


def test_the_machine_is_described_in_one_line():
    assert re.fullmatch(".* CPUs.*", machine())
