"""The killer of `kill_exports.py` and `kill_training.py` hits writes, and counts them honestly."""

import os
import signal
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak(of="kills")

SLOW, QUICK = 0.3, 0.0
# Writes a file several times; each write takes some seconds.
WRITER = """
import sys, time
from keras_vit import _files

for seconds in map(float, sys.argv[2:]):
    with _files.replacing(sys.argv[1]) as temporary:
        temporary.write_text(str(seconds))
        time.sleep(seconds)
    time.sleep(0.05)
"""


@pytest.fixture
def kills(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    import kills

    return kills


@pytest.fixture
def writer(kills, tmp_path):
    """Starts a process that writes slow.txt, each time as slowly as told."""
    (tmp_path / "writer.py").write_text(WRITER)

    def start(*seconds):
        words = [tmp_path / "slow.txt", *map(str, seconds)]
        return lambda: kills.start(tmp_path / "writer.py", *words, cwd=tmp_path)

    return start


def test_a_process_is_killed_in_the_write_that_was_aimed_at(kills, writer, tmp_path):
    killer = kills.Killer(tmp_path)
    end = killer.kill_in_write(writer(SLOW, SLOW + 0.1, SLOW), earlier=1, delay=0)
    assert (end, killer.kills, killer.in_writes) == ("killed in a write", 1, 1)
    assert (tmp_path / "slow.txt").read_text() == str(SLOW)
    assert len(kills.unfinished(tmp_path)) == 1
    # What the killed process left does not count as a write of the next one.
    assert killer.kill_in_write(writer(), earlier=0, delay=0) == "ended"
    assert (killer.kills, killer.in_writes) == (1, 1)


def test_a_write_that_is_complete_before_the_process_stops_is_let_pass(kills, writer, tmp_path):
    killer = kills.Killer(tmp_path)
    assert killer.kill_in_write(writer(0.01, 0.01), earlier=0, delay=0.2) == "ended"
    assert (killer.kills, killer.in_writes) == (0, 0)
    assert kills.unfinished(tmp_path) == set()


def test_a_kill_between_writes_is_not_counted_as_one_in_a_write(kills, writer, tmp_path):
    killer = kills.Killer(tmp_path)

    def after_the_write():
        process = writer(QUICK, *[QUICK] * 200)()
        while not (tmp_path / "slow.txt").exists() or kills.unfinished(tmp_path):
            pass
        os.kill(process.pid, signal.SIGSTOP)
        return process

    end = killer.kill_after(after_the_write, seconds=0.1)
    left = bool(kills.unfinished(tmp_path))  # if the process began another write in between
    assert end == ("killed in a write" if left else "killed")
    assert (killer.kills, killer.in_writes) == (1, int(left))


def test_too_few_kills_in_writes_are_an_error(kills, tmp_path):
    killer = kills.Killer(tmp_path)
    killer.kills, killer.in_writes = 30, 19
    kills.check(killer, 19)
    with pytest.raises(SystemExit, match="expected 20 kills in a write. Received: 19 of 30"):
        kills.check(killer, 20)


def test_a_command_that_fails_is_no_kill(kills, writer, tmp_path):
    with pytest.raises(SystemExit, match="writer.py .*not-a-number exits with 1"):
        kills.Killer(tmp_path).kill_after(writer("not-a-number"), seconds=60)
