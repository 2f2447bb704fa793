"""The command that compresses a run, as a user runs it, with either flavour of Keras."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from keras_vit import _files, deploy
from keras_vit.deploy.compression import summary

QUICK = ("--duration", "4 steps", "--images", "40", "--max-drop", "40")


@pytest.mark.soak(of="compression")
def test_a_run_is_compressed_compared_and_bundled(command, trained_run, tmp_path):
    arguments = ("--run", trained_run.path, "--method", "qat", "--out", "small")
    result = command("export/compress.py", *arguments, *QUICK, cwd=tmp_path, check=0)
    assert result.stderr == ""
    assert "    step 4/4: loss " in result.stdout
    description, golden = deploy.read_bundle(tmp_path / "small/qat-int4")
    assert description["precision"] == "int4"
    content = (tmp_path / "small/qat-int4/model.tflite").read_bytes()
    scores = deploy.Runner(content)(golden["tensor"][None])[0]
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-4)
    table = json.loads((tmp_path / "small/table.json").read_text())
    rows = {row["name"]: row for row in table["rows"]}
    assert [*rows] == ["none-float32", "none-int4", "qat-int4"]
    row = rows["qat-int4"]
    assert row["bytes"] == len(content)
    assert row["deflated"] == summary(content)["deflated"] < rows["none-float32"]["deflated"]
    assert row["deflated_ratio"] == row["deflated"] / rows["none-float32"]["deflated"]
    assert table.keys() == {"format", "machine", "images", "rows", "refused"}
    assert (table["format"], table["images"], table["refused"]) == (1, 40, {})
    assert (row["precision"], row["sha256"]) == ("int4", description["sha256"])
    assert row["weights_sha256"] == description["weights_sha256"]
    assert row["weights_sha256"] != rows["none-int4"]["weights_sha256"]
    assert (rows["none-int4"]["compression"]["settings"], row["measured"]) == (None, None)
    kernels = row["compression"]["kernels"]
    assert {kernel["layer"] for kernel in kernels} >= {"head", "encoderblock_0/mlp/dense_1"}
    assert re.search(rf"qat-int4 +{row['accuracy']:.2%} ", result.stdout)
    assert result.stdout.endswith("export/run.py --bundle small/qat-int4 --verify\n")


@pytest.mark.soak(of="compression")
@pytest.mark.parametrize("script", ["compress", "to_tflite"])
def test_a_folder_that_another_process_writes_is_refused(command, trained_run, tmp_path, script):
    arguments = ("--run", trained_run.path, "--out", "small")
    with _files.locked(tmp_path / "small"):
        result = command(f"export/{script}.py", *arguments, cwd=tmp_path, check=2)
    assert result.stderr == (
        f"{script}.py: another process is writing small; choose another folder.\n"
    )
    assert not (tmp_path / "small").exists()
