"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from keras_vit import UsageError, _files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(RuntimeError), _files.replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("half of the n")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_failed_folder_leaves_the_old_one_and_nothing_else(tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "old.txt").write_text("old")
    with pytest.raises(OSError, match="disk"), _files.replacing_folder(tmp_path / "bundle") as new:
        (new / "new.txt").write_text("new")
        raise OSError(28, "the disk is full")
    assert names(tmp_path) == ["bundle"]
    assert names(tmp_path / "bundle") == ["old.txt"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced_whole(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:  # as on systems without renameat2
        monkeypatch.setattr(_files, "_exchange", lambda *_: False)
    for content in ("one", "two"):
        with _files.replacing_folder(tmp_path / "bundle") as new:
            (new / f"{content}.txt").write_text(content)
    assert names(tmp_path) == ["bundle"]
    assert names(tmp_path / "bundle") == ["two.txt"]


def test_files_get_the_permissions_of_ordinary_ones(tmp_path):
    _files.write_text(tmp_path / "a.txt", "x")
    (tmp_path / "b.txt").write_text("x")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


_WRITER = """
import sys
from keras_vit import _files
n = 0
while True:
    n += 1
    with _files.replacing_folder(sys.argv[1]) as new:
        for name in "abc":
            (new / name).write_text(str(n) * 1000)
"""


def test_killed_at_random_moments_the_folder_is_one_version_or_another(tmp_path, rng):
    folder = tmp_path / "bundle"
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    writer = None
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        marker = folder / "a"
        before = marker.stat().st_ino if marker.exists() else None
        while not marker.exists() or marker.stat().st_ino == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0.05, 0.3))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        contents = {(folder / name).read_text() for name in "abc"}
        assert len(contents) == 1
        assert len(contents.pop()) >= 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"format": 2}', "expected format 1. Received: 2; upgrade keras_vit"),
        ("{}", "expected format 1. Received: None"),
        ("[1]", "expected format 1. Received: None"),
        ('{"format": 1, "spec": {}}', r"a\.json lacks labels; write it anew"),
    ],
)
def test_foreign_json_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        _files.read_json(tmp_path / "a.json", format=1, fields=("spec", "labels"))


def test_absent_json_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"a\.json does not exist"):
        _files.read_json(tmp_path / "a.json", format=1)


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        _files.write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []
