"""benchmarks/runtimes.py: which runtimes run a bundle, and which ones should."""

import json
import sys

import numpy as np
import pytest
import runtimes

from keras_vit import deploy

pytestmark = pytest.mark.soak(of="benchmarks")


@pytest.fixture
def bundle(sample, tmp_path):
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    deploy.write_bundle(tmp_path / "int8", sample.exported("int8"), image)
    return tmp_path / "int8"


def compared(bundle, runtime="LiteRT 2.3.0"):
    return runtimes._compared([bundle], {runtime: sys.executable})


def test_a_runtime_that_gives_the_golden_scores_is_right(bundle):
    [row], wrong = compared(bundle)
    assert wrong == []
    assert (row[0], row[1], row[3]) == ("int8", "2.9.0", "0.0e+00")


def test_other_scores_are_wrong_where_the_runtime_is_not_older_than_the_floor(bundle):
    golden = json.loads((bundle / "golden.json").read_text())
    golden["tolerance"]["scores"] = -1.0
    (bundle / "golden.json").write_text(json.dumps(golden))
    _, wrong = compared(bundle)
    assert wrong == ["int8 on LiteRT 2.3.0: differs by 0, over -1"]
    [row], wrong = compared(bundle, "2.8.0")
    assert (row[3], wrong) == ("0.0e+00 (older)", [])


def test_a_refusal_counts_only_where_the_file_should_run(bundle):
    (bundle / "model.tflite").write_bytes(b"no model")
    for runtime, count in (("LiteRT 2.3.0", 1), ("2.8.0", 0)):
        [row], wrong = compared(bundle, runtime)
        assert row[3] == "refused"
        assert len(wrong) == count
