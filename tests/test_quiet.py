"""Messages of native libraries are hidden, in all threads, and printed after a failure."""

from __future__ import annotations

import os
import threading

import pytest

from keras_vit._quiet import quiet

pytestmark = pytest.mark.once
LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@pytest.fixture(autouse=True)
def _no_level(monkeypatch):
    monkeypatch.delenv(LEVEL, raising=False)


def test_messages_are_held_back_but_for_the_real_standard_error(capfd):
    with quiet() as standard_error:
        os.write(2, b"noise\n")
        os.write(standard_error, b"a word\n")
        assert os.environ[LEVEL] == "3"
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "a word\nafter\n"
    assert LEVEL not in os.environ


def test_messages_of_a_body_that_fails_are_shown(capfd):
    with pytest.raises(RuntimeError), quiet():
        os.write(2, b"the reason\n")
        raise RuntimeError
    assert capfd.readouterr().err == "the reason\n"


def test_an_interrupt_shows_nothing(capfd):
    with pytest.raises(KeyboardInterrupt), quiet():
        os.write(2, b"noise\n")
        raise KeyboardInterrupt
    assert capfd.readouterr().err == ""


def test_the_users_log_level_is_respected(capfd, monkeypatch):
    monkeypatch.setenv(LEVEL, "0")
    with quiet():
        os.write(2, b"wanted\n")
    assert capfd.readouterr().err == "wanted\n"
    assert os.environ[LEVEL] == "0"


def test_threads_that_overlap_restore_standard_error(capfd):
    before, both = os.fstat(2), threading.Barrier(8)

    def work():
        for _ in range(50):
            both.wait()
            with quiet(), quiet():
                os.write(2, b"noise\n")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.path.sameopenfile(2, 2)
    assert (os.fstat(2).st_dev, os.fstat(2).st_ino) == (before.st_dev, before.st_ino)
    assert capfd.readouterr().err == ""
    assert LEVEL not in os.environ
