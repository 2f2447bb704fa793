"""The benchmark of the exporter's check, on few images: good files pass and bad ones do not."""

import gate
import pytest

pytestmark = pytest.mark.soak(of="benchmarks")


def test_the_gate_passes_equal_files_and_refuses_bad_ones():
    rates = gate.rates([100, 500, 2000], trials=30)
    found = {(name, kind): passed for name, kind, passed in rates}
    for name in ("balanced", "90/10"):
        assert min(found[name, "equal"]) >= 0.95
        assert max(found[name, "constant"]) == max(found[name, "shuffled"]) == 0
        # More than a hundred images are needed to prove this loss.
        few, some, many = found[name, "2 points worse"]
        assert few > some > many
        assert many <= 0.1
        assert found[name, "10 points worse"][0] <= 0.3
        assert found[name, "10 points worse"][1] == 0


def test_it_is_a_command(command, tmp_path):
    words = ("benchmarks/gate.py", "--images", "100", "--trials", "2")
    lines = command(*words, cwd=tmp_path, check=0).stdout.splitlines()
    assert lines[0] == "files that pass"
    assert [line.split()[0] for line in lines[3:]] == ["balanced"] * 7 + ["90/10"] * 7
    assert "--trials" in command(words[0], "--help", cwd=tmp_path, check=0).stdout
