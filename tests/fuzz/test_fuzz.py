"""The fuzzer finds planted faults, and what it has found in keras_vit is read as it should be."""

import contextlib
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzing.driver import Campaign
from fuzzing.kind import Finding, damaged, stored, write
from fuzzing.kinds import KINDS
from fuzzing.worker import Worker

FINDINGS = stored(Path(__file__).parent / "findings")

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
# {the body of `fault`, which does not end: how the fault begins}
SLOW = {
    "while True: pass": "more than 10 s, ",
    "import time; time.sleep(600)": "no end within 60 s, ",
}


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
    with contextlib.closing(Worker(KINDS, tmp_path_factory.mktemp("fuzz"))) as worker:
        yield worker


@pytest.mark.parametrize("found", FINDINGS.values(), ids=[file.stem for file in FINDINGS])
def test_an_input_that_the_fuzzer_found_is_read_as_it_should_be(worker, found):
    assert worker.read(found.kind, found.files).fault == ""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, id=fault.split(",")[0], marks=[pytest.mark.soak(of="fuzz")] * (i > 0))
        for i, (body, fault) in enumerate(FAULTS.items())
    ],
)
def test_a_planted_fault_is_found_made_small_and_stored(planted, tmp_path, body):
    campaign = Campaign(planted(body), 3, 0, tmp_path / "findings", say=print)
    campaign.run(jobs=1)
    [(_, fault)] = campaign.findings
    assert fault.startswith(FAULTS[body])
    [found] = stored(tmp_path / "findings").values()
    assert found == Finding("planted", fault, {"a.txt": b"FAULT"})


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("body", SLOW)
def test_an_input_that_takes_too_long_is_found(planted, tmp_path, body):
    with contextlib.closing(Worker(planted(body), tmp_path / "home")) as worker:
        assert worker.read("planted", {"a.txt": b"FAULT"}).fault.startswith(SLOW[body])
        assert worker.read("planted", {"a.txt": b""}).fault == ""  # in a new process


@pytest.mark.soak(of="fuzz")
def test_the_command_ends_with_the_table_after_ctrl_c(tmp_path):
    command = [sys.executable, "tests/fuzz/fuzz.py", "--seconds", "1000", "--kinds", "tflite"]
    with subprocess.Popen(
        [*command, "--out", tmp_path], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    ) as process:  # fmt: skip
        while " inputs, " not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=200)
    assert "ended by Ctrl-C\n" in rest
    assert "\ntflite " in rest
    assert process.returncode == any(tmp_path.iterdir())


@pytest.mark.soak(of="fuzz")
@pytest.mark.parametrize("kind", KINDS)
def test_intact_inputs_of_every_kind_are_read_and_damaged_by_the_seed_alone(kind, tmp_path):
    """Else the mutations would meet only the first check, and a run could not be repeated."""
    made = pkgutil.resolve_name(KINDS[kind])
    seeds = made.seeds(tmp_path)
    read = 0
    for i, files in enumerate(seeds):
        with contextlib.suppress(ValueError):
            made.read(write(files, tmp_path / f"input {i}"), tmp_path)
            read += 1
    assert read
    once, again = ([damaged(made, seeds, str(i), [i]) for i in range(60)] for _ in range(2))
    assert once == again
    assert sum(files not in seeds for files in once) > 40
