"""A file that ends the process that runs it, or never finishes, does so in another process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.bundle import opened


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Replaces the interpreter of the other process by a shell script."""

    def replace(line):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return replace


def test_nothing_in_the_current_folder_is_imported(sample, tmp_path, monkeypatch):
    for name in ("numpy", "ai_edge_litert", "pathlib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    (tmp_path / "model.tflite").write_bytes(sample.file("none").read_bytes())
    monkeypatch.chdir(tmp_path)
    opened.try_file(Path("model.tflite"))
    assert not (tmp_path / "imported").exists()


def test_a_program_that_fails_otherwise_is_quoted(python, tmp_path):
    python("echo 'a trace' >&2; echo 'MemoryError: no memory' >&2; exit 1")
    with pytest.raises(RefusedError, match="is damaged: .* ends with 'MemoryError: no memory'; ex"):
        opened.try_file(tmp_path / "m.tflite")


@pytest.mark.parametrize("number", ["ABRT", "SEGV", "KILL"])
def test_the_signal_that_ended_the_process_is_named(python, tmp_path, number):
    python(f"kill -{number} $$")
    with pytest.raises(RefusedError, match=f"m.tflite is damaged: .* is ended by SIG{number}; exp"):
        opened.try_file(tmp_path / "m.tflite")


def test_a_file_that_does_not_finish_is_refused(python, tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "_SECONDS", 0.2)
    python("exec sleep 60")
    with pytest.raises(RefusedError, match="a process that runs it does not finish within 0.2 s"):
        opened.try_file(tmp_path / "m.tflite")


def test_a_good_file_passes_without_a_word(sample, tmp_path, capfd):
    good = tmp_path / "good.tflite"
    good.write_bytes(sample.file("int8").read_bytes())
    opened.try_file(good)
    assert capfd.readouterr() == ("", "")


def test_what_litert_refuses_there_is_not_loaded_here(tmp_path, python):
    file = tmp_path / "broken.tflite"
    file.write_bytes(b"no model")
    with pytest.raises(UsageError, match="broken.tflite is not a TFLite model: The model is not"):
        opened.try_file(file)
    python("echo 'node 3 failed to prepare.'; exit 3")
    with pytest.raises(RefusedError, match="refuses .*broken.tflite: node 3 failed to prepare;"):
        opened.try_file(file)


def test_only_untrusted_bundles_are_tried(sample, tmp_path, monkeypatch, rng):
    tried = []
    monkeypatch.setattr("keras_vit.deploy.bundle.opened.try_file", tried.append)
    picture = rng.integers(0, 255, (50, 40, 3)).astype("uint8")
    deploy.write_bundle(tmp_path / "float32", sample.exported("none"), picture)
    deploy.open_bundle(tmp_path / "float32")
    assert not tried
    deploy.open_bundle(tmp_path / "float32", trusted=False)
    assert tried == [tmp_path / "float32" / "model.tflite"]
