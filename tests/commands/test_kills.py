"""The killer of `kill_exports.py` and `kill_training.py` hits writes, and counts them honestly."""

import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak(of="kills")

# Writes a file several times, then sleeps for some seconds.
WRITER = """
import sys, time
from keras_vit import _files

for text in sys.argv[1:]:
    _files.write_text("written.txt", text)
time.sleep(float(text))
"""
SECOND_WRITE = 6  # its first step


@pytest.fixture
def killer(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    import kills

    (tmp_path / "writer.py").write_text(WRITER)
    return kills.Killer(tmp_path)


def test_a_process_is_killed_in_the_write_that_was_aimed_at(killer, tmp_path):
    assert killer.run("writer.py", "1", "0", step=SECOND_WRITE) == "killed in a write"
    assert (tmp_path / "written.txt").read_text() == "1"
    assert len([*tmp_path.glob(".written.txt.*")]) == 1
    # What the killed process left does not count as a write of the next one.
    assert killer.run("writer.py", "0", step=99) == "ended"
    assert (killer.kills, killer.in_writes) == (1, 1)


def test_a_kill_between_writes_is_not_counted_as_one_in_a_write(killer, tmp_path):
    def wait(process):
        while not (tmp_path / "written.txt").exists() or [*tmp_path.glob(".written.txt.*")]:
            time.sleep(0.01)

    assert killer.run("writer.py", "60", wait=wait) == "killed"
    assert (killer.kills, killer.in_writes) == (1, 0)


def test_too_few_kills_in_writes_are_an_error(killer):
    killer.kills, killer.in_writes = 30, 19
    killer.check(19)
    with pytest.raises(SystemExit, match="expected 20 kills in a write. Received: 19 of 30"):
        killer.check(20)


def test_a_command_that_fails_is_no_kill(killer):
    with pytest.raises(SystemExit, match="writer.py not-a-number exits with 1"):
        killer.run("writer.py", "not-a-number")
