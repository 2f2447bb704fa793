"""Every input that the fuzzer has found is read as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.findings import Store, unpacked
from fuzzing.kinds import KINDS
from fuzzing.process import Worker

FINDINGS = Store(Path(__file__).parent / "findings").all()


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    worker = Worker(KINDS, tmp_path_factory.mktemp("fuzz"))
    yield worker
    worker.stop()


@pytest.mark.parametrize("file", FINDINGS, ids=lambda file: file.stem)
def test_an_input_that_the_fuzzer_found_is_read_as_it_should_be(worker, file):
    kind = unpacked(file.read_bytes()).kind
    assert worker.read(kind, file)["fault"] == ""
