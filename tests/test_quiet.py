"""Messages of native libraries are hidden, and those of other threads are not."""

import logging
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_vit import _quiet
from keras_vit._quiet import ignore_log, ignore_warning, quiet

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@pytest.fixture(autouse=True)
def _in_a_command(monkeypatch):
    monkeypatch.delenv(LEVEL, raising=False)
    monkeypatch.setattr(_quiet, "_is_own_process", True)


def test_messages_are_held_back_but_for_the_real_standard_error(capfd):
    with quiet() as standard_error:
        os.write(2, b"noise\n")
        os.write(standard_error, b"a word\n")
        assert os.environ[LEVEL] == "3"
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "a word\nafter\n"
    assert LEVEL not in os.environ


@pytest.mark.parametrize(
    ("error", "shown"), [(RuntimeError, "the reason\n"), (KeyboardInterrupt, "")]
)
def test_messages_of_a_body_that_fails_are_shown_but_not_of_one_that_is_interrupted(
    capfd, error, shown
):
    with pytest.raises(error), quiet():
        os.write(2, b"the reason\n")
        raise error
    assert capfd.readouterr().err == shown


@pytest.mark.parametrize(
    ("in_a_command", "level", "shown"),
    [(True, "0", ""), (False, "0", "a word\n"), (False, None, "")],
)
def test_messages_are_hidden_but_in_a_script_with_a_log_level(
    capfd, monkeypatch, in_a_command, level, shown
):
    monkeypatch.setattr(_quiet, "_is_own_process", in_a_command)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    if level is not None:
        monkeypatch.setenv(LEVEL, level)
    with quiet():
        os.write(2, b"a word\n")
    assert capfd.readouterr().err == shown
    assert os.environ.get(LEVEL) == level


def test_threads_that_overlap_restore_standard_error(capfd):
    before, both = os.fstat(2), threading.Barrier(8)

    def work():
        for _ in range(50):
            both.wait()
            with quiet(), quiet():
                os.write(2, b"noise\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: work(), range(8)))
    assert (os.fstat(2).st_dev, os.fstat(2).st_ino) == (before.st_dev, before.st_ino)
    assert capfd.readouterr().err == ""
    assert LEVEL not in os.environ


def test_a_program_with_other_threads_loses_none_of_their_messages(capfd, monkeypatch):
    monkeypatch.setattr(_quiet, "_is_own_process", False)
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    with quiet() as standard_error:
        assert standard_error == 2
        assert LEVEL not in os.environ
        os.write(2, b"a line of the other thread\n")
    ended.set()
    other.join()
    assert capfd.readouterr().err == "a line of the other thread\n"


def test_one_warning_of_one_module_is_ignored_and_no_other():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        ignore_warning("fonts? missing", "some_library")
        for message, module in (
            ("font missing", "some_library.text"),
            ("font missing", "another"),
            ("number missing", "some_library.text"),
        ):
            warnings.warn_explicit(message, UserWarning, "file.py", 1, module)
    assert [str(warning.message) for warning in shown] == ["font missing", "number missing"]


def test_one_message_of_one_logger_is_ignored_and_no_other(caplog):
    logger, other = logging.getLogger("some_library"), logging.getLogger("another_library")
    for _ in range(2):
        ignore_log(r"\d+ fonts? missing", "some_library")
    logger.warning("%d fonts missing", 3)
    logger.warning("3 numbers missing")
    other.warning("3 fonts missing")
    assert caplog.messages == ["3 numbers missing", "3 fonts missing"]
    assert len(logger.filters) == 1
