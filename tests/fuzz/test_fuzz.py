"""The fuzzer finds faults that were planted, makes their inputs small and stores them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzzing.driver import fuzz
from fuzzing.findings import Finding, Store, packed, unpacked
from fuzzing.kind import damaged, load
from fuzzing.kinds import KINDS
from fuzzing.minimise import fewest, smallest
from fuzzing.mutations import images, json_text, lines, npy, raw, records, tensors, zips
from fuzzing.process import Worker

PLANTED = '''
"""A kind whose reader has a fault that an input with FAULT in it meets."""

MEMORY = 32 << 20


def seeds(home):
    return [{"a.txt": b"0123456789" * 20, "b.txt": b"x"}]


def mutate(rng, files):
    at = rng.randrange(200)
    return files | {"a.txt": files["a.txt"][:at] + rng.choice((b"FAULT", b"no")) + bytes(9)}


def read(folder, home):
    if b"FAULT" in (folder / "a.txt").read_bytes():
        fault()
    raise FileNotFoundError("a.txt does not exist.")


def fault():
'''
# {the body of `fault`: how the fault begins}
FAULTS = {
    "{}['absent']": "KeyError, ",
    "bytearray(500 << 20)": "too much memory, ",
    "bytearray(1 << 40)": "MemoryError, ",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL, ",
    "import os; os._exit(3)": "exit code 3, ",
    "raise FileNotFoundError('x' * 20_000)": "a message of more than ",
    "raise FileNotFoundError('\\x1b[2J')": "a message that is not ",
    "raise KeyboardInterrupt": "KeyboardInterrupt, ",
}
SLOW = "import time; time.sleep(60)"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Writes a kind with a fault, and returns the table of kinds."""

    def plant(body):
        (tmp_path / "planted.py").write_text(f"{PLANTED}    {body}\n")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
        return {"planted": "planted"}

    return plant


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, id=fault.split(",")[0], marks=[pytest.mark.soak(of="fuzz")] * (i > 0))
        for i, (body, fault) in enumerate(FAULTS.items())
    ],
)
def test_a_planted_fault_is_found_made_small_and_stored(planted, tmp_path, body):
    store = Store(tmp_path / "findings")
    tallies = fuzz(planted(body), 3, 0, 1, store, say=print)
    [fault] = tallies["planted"].findings
    assert fault.startswith(FAULTS[body])
    [file] = store.all()
    assert unpacked(file.read_bytes()) == Finding("planted", fault, {"a.txt": b"FAULT"})


@pytest.mark.soak(of="fuzz")
def test_an_input_that_takes_too_long_is_found(planted, tmp_path):
    kinds, file = planted(SLOW), tmp_path / "slow.zip"
    file.write_bytes(packed(Finding("planted", "", {"a.txt": b"FAULT"})))
    worker = Worker(kinds, tmp_path)
    try:
        answer = worker.read("planted", file)
        assert answer["fault"].startswith("more than 10 s")
        assert answer["seconds"] >= 10
        file.write_bytes(packed(Finding("planted", "", {"a.txt": b""})))
        assert worker.read("planted", file)["fault"] == ""  # in a new process
    finally:
        worker.stop()


def test_a_fault_that_is_stored_already_is_not_stored_again(tmp_path):
    store = Store(tmp_path)
    first = store.add(Finding("npz", "KeyError, here", {"a": b"1"}), lambda file: True)
    again = store.add(Finding("npz", "KeyError, here", {"a": b"2"}), lambda file: True)
    other = store.add(Finding("npz", "KeyError, there", {"a": b"2"}), lambda file: True)
    assert first == again != other
    fixed = store.add(Finding("npz", "KeyError, here", {"a": b"3"}), lambda file: False)
    assert store.all() == sorted([first, other, fixed])


def test_the_smallest_input_keeps_what_fails():
    rng = random.Random(0)
    files = {"a": rng.randbytes(300) + b"FAULT" + rng.randbytes(300), "b": b"x"}
    assert smallest(files, lambda files: b"FAULT" in files.get("a", b"")) == {"a": b"FAULT"}
    assert fewest([1, 2, 3, 4, 5], lambda some: {2, 5} <= set(some)) == [2, 5]
    json = {"a.json": b'{"x": [1, {"y": "FAULT", "z": 2}], "more": {"a": [1, 2, 3]}}'}
    less = smallest(json, lambda files: b'"y"' in files.get("a.json", b""))
    assert len(less["a.json"]) < 10


@pytest.mark.soak(of="fuzz")
def test_the_command_prints_the_table_and_exits_with_0_without_findings(tmp_path):
    command = [sys.executable, "tests/fuzz/fuzz.py", "--seconds", "2", "--seed", "0"]
    done = subprocess.run(
        [*command, "--kinds", "foreign", "--out", tmp_path], capture_output=True, text=True,
        cwd=Path(__file__).parents[2], timeout=200,
    )  # fmt: skip
    assert "findings" in done.stdout
    assert "\nforeign " in done.stdout
    assert done.returncode == bool(list(tmp_path.iterdir()))


@pytest.mark.soak(of="fuzz")
def test_ctrl_c_ends_it_with_the_table(tmp_path):
    command = [sys.executable, "tests/fuzz/fuzz.py", "--seconds", "1000", "--seed", "0"]
    with subprocess.Popen(
        [*command, "--kinds", "foreign", "--out", tmp_path], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    ) as process:  # fmt: skip
        while "s left" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert "ended by Ctrl-C\n" in rest
    assert "\nforeign " in rest
    assert process.returncode in (0, 1)


@pytest.mark.parametrize(
    ("mutate", "content"),
    [
        (raw.mutated, bytes(range(256))),
        (json_text.mutated, b'{"a": [1, 2.5, "x", null, true, {"b": {}}]}'),
        (lines.mutated, b'a,b,1\n{"x": 1}\nc'),
        (npy.mutated, npy.of(np.ones((3, 4), np.float32))),
        (tensors.mutated, b""),
        (zips.mutated, b""),
        (images.mutated, images._bomb(50, 2)),
        (lambda rng, content: records.mutated(rng, content, raw.mutated), records.framed(b"abc")),
    ],
    ids=["raw", "json", "lines", "npy", "safetensors", "zip", "picture", "records"],
)
def test_a_mutation_depends_only_on_its_generator_and_may_follow_any_other(mutate, content):
    once, again = content, content
    different = set()
    for number in range(300):
        once, again = (mutate(random.Random(number), each) for each in (once, again))
        assert once == again
        different.add(once)
        if len(once) > 1 << 16:
            once = again = content
    assert len(different) > 100


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("kind", KINDS)
def test_intact_inputs_of_every_kind_are_read(kind, tmp_path):
    """Else the mutations would meet only the first check."""
    module = load(KINDS[kind])
    seeds = module.seeds(tmp_path)
    read = 0
    for i, files in enumerate(seeds):
        folder = tmp_path / f"input {i}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        try:
            module.read(folder, tmp_path)
            read += 1
        except ValueError:
            pass
    assert read >= (0 if kind == "foreign" else 1)
    assert damaged(module, seeds, "0", [1, 2]) == damaged(module, seeds, "0", [1, 2])
