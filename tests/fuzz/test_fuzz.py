"""The fuzzer finds planted faults, and what it has found in keras_vit is read as it should be."""

import contextlib
import pkgutil
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzzing.driver import fuzz
from fuzzing.findings import Finding, Store, packed, unpacked
from fuzzing.kind import damaged, write
from fuzzing.kinds import KINDS
from fuzzing.minimise import fewest, smallest
from fuzzing.mutations import arrays, images, raw, records, text
from fuzzing.worker import Worker

FINDINGS = Store(Path(__file__).parent / "findings").all()

PLANTED = """
from fuzzing.kind import Kind


def mutate(rng, files):
    at = rng.randrange(200)
    return files | {"a.txt": files["a.txt"][:at] + rng.choice((b"FAULT", b"no")) + bytes(9)}


def read(folder, home):
    if b"FAULT" in (folder / "a.txt").read_bytes():
        fault()
    raise FileNotFoundError("a.txt does not exist.")


KIND = Kind(32 << 20, lambda home: [{"a.txt": b"0123456789" * 20, "b.txt": b"x"}], mutate, read)


def fault():
"""
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
    monkeypatch.syspath_prepend(tmp_path)

    def plant(body):
        (tmp_path / "planted.py").write_text(f"{PLANTED}    {body}\n")
        return {"planted": "planted:KIND"}

    return plant


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    worker = Worker(KINDS, tmp_path_factory.mktemp("fuzz"))
    yield worker
    worker.stop()


@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.stem)
def test_an_input_that_the_fuzzer_found_is_read_as_it_should_be(worker, file):
    kind = unpacked(file.read_bytes()).kind
    assert worker.read(kind, file)["fault"] == ""


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
@pytest.mark.parametrize("seconds", ["2", "1000"], ids=["in time", "with Ctrl-C"])
def test_the_command_ends_with_the_table(tmp_path, seconds):
    command = [sys.executable, "tests/fuzz/fuzz.py", "--seconds", seconds, "--seed", "0"]
    with subprocess.Popen(
        [*command, "--kinds", "foreign", "--out", tmp_path], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    ) as process:  # fmt: skip
        if seconds == "1000":
            while "s left" not in (line := process.stdout.readline()):
                assert line
            process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=200)
    assert ("ended by Ctrl-C\n" in rest) == (seconds == "1000")
    assert "findings" in rest
    assert "\nforeign " in rest
    assert process.returncode == any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mutate", "content"),
    [
        pytest.param(raw.mutated, bytes(range(256)), id="raw"),
        pytest.param(text.json_value, b'{"a": [1, 2.5, "x", null, true, {"b": {}}]}', id="json"),
        pytest.param(text.lines, b'a,b,1\n{"x": 1}\nc', id="lines"),
        pytest.param(arrays.npy, arrays.of(np.ones((3, 4), np.float32)), id="npy"),
        pytest.param(arrays.safetensors, b"", id="safetensors"),
        pytest.param(arrays.npz, b"", id="npz"),
        pytest.param(images.mutated, images._bomb(50, 2), id="picture"),
        pytest.param(records.mutated, records.framed(b"abc"), id="records"),
    ],
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
    made = pkgutil.resolve_name(KINDS[kind])
    seeds = made.seeds(tmp_path)
    read = 0
    for i, files in enumerate(seeds):
        with contextlib.suppress(ValueError):
            made.read(write(files, tmp_path / f"input {i}"), tmp_path)
            read += 1
    assert read >= (kind != "foreign")
    assert damaged(made, seeds, "0", [1, 2]) == damaged(made, seeds, "0", [1, 2])
