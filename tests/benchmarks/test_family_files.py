"""benchmarks/family_files.py on a few families, and what it calls a fault."""

import family_files
import pytest

pytestmark = pytest.mark.soak(of="benchmarks")
FEW = ("--image-size", "32", "--rounds", "1", "--families")


def test_files_of_a_family_are_judged_and_timed_and_full_integers_refused(invoke, tmp_path):
    words = (*FEW, "average pooling")
    code, out, error = invoke("benchmarks/family_files.py", *words, cwd=tmp_path)
    assert (code, error) == (0, "")
    *_, plain, registers = map(str.rstrip, out.splitlines())
    assert plain.split("  ")[0] == "ViT"
    assert plain.count(" 1.00 ") == 4  # the time of the plain ViT is the unit
    assert plain.endswith("no registers")
    assert registers.startswith("timm, average pooling and registers")
    assert registers.endswith("refused")


def test_a_refused_file_is_a_fault(monkeypatch):
    monkeypatch.setattr(family_files.deploy, "check", refuse)
    with pytest.raises(family_files.RefusedError, match="ViT, none: no; .*ViT, int8: no"):
        family_files.main(family_files.Arguments(("nothing",), 32, rounds=1))


def refuse(judged):
    raise family_files.RefusedError("no")
