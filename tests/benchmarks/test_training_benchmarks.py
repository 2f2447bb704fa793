"""The benchmarks of training and of its input: what they time is what they say."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import step_profile
import training_step

from keras_vit.models.profile import forward_flops
from keras_vit.variant_specs import VARIANTS

pytestmark = pytest.mark.soak(of="benchmarks")
ROOT = Path(__file__).parents[2]


def printed(script, *arguments):
    """The lines that a benchmark prints."""
    result = subprocess.run(
        [sys.executable, ROOT / script, *arguments],
        env={**os.environ, "TF_USE_LEGACY_KERAS": "0"}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def test_the_training_step_is_timed_in_turn(tmp_path):
    peers = ["keras_vit", "keras_vit_remat", "keras_vit_accumulate_4", "transformers"]
    lines = printed(
        "train/benchmark.py", "--peers", *peers, "--models", "Ti16", "--batch-sizes", "4",
        "--no-jit", "--rounds", "2", "--peak", "0.05", "--json", tmp_path / "figures.json",
    )  # fmt: skip
    flops = forward_flops(VARIANTS["ViT-Ti_16"], 1000, 224)
    # Each product has two more in the backward pass, but the gradients of images are not computed.
    of_training = 3 * sum(flops.values()) - flops["patch_encoder"]
    (figures,) = json.loads((tmp_path / "figures.json").read_text()).values()
    left_out = [line for line in lines if "transformers: left out" in line]
    assert list(figures) == peers[: 4 - len(left_out)]
    for name in peers[:3]:
        # The head starts from zeros, so all classes are equally probable.
        assert figures[name]["first_loss"] == pytest.approx(math.log(1000), abs=1e-4)
        row = next(line for line in lines if line.startswith("Ti16") and f" {name} " in line)
        assert f"{figures[name]['images_per_wall_second']:.2f}" in row
        utilisation = of_training * figures[name]["images_per_wall_second"] / 0.05e12
        assert figures[name]["mfu"] == pytest.approx(utilisation)
        assert row.endswith(f" {utilisation:.2%}")
    assert figures["keras_vit"]["wall_ratio"] == figures["keras_vit"]["cpu_ratio"] == 1


def test_the_training_step_is_timed_in_bfloat16(tmp_path):
    lines = printed(
        "train/benchmark.py", "--peers", "keras_vit", "transformers", "--models", "Ti16",
        "--batch-sizes", "2", "--rounds", "1", "--precision", "mixed_bfloat16",
    )  # fmt: skip
    assert lines[0] == (
        "transformers: left out, its step is in float32 only. Received: --precision mixed_bfloat16"
    )
    assert lines[-1].startswith("Ti16   2 keras_vit ")


@pytest.mark.parametrize("precision", training_step.PRECISIONS)
def test_the_step_has_the_precision(precision, monkeypatch):
    monkeypatch.setattr(training_step, "_keras_step", lambda learner, *a, **k: learner)
    learner = training_step.keras_vit_step("Ti16", 2, precision, False)
    policies = {layer.name: layer.dtype_policy.name for layer in learner._flatten_layers()}
    assert policies["encoderblock_0"] == precision


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--peak 0", "--peak must be positive. Received: 0"),
        ("--peers transformers --precision mixed_bfloat16", "none of --peers can be timed"),
    ],
)
def test_mistakes_end_before_anything_is_timed(command, tmp_path, words, message):
    result = command("train/benchmark.py", *words.split(), cwd=tmp_path, check=2)
    assert result.stderr.endswith(f"error: {message}\n")


def test_the_profile_adds_up_operations_of_a_kind():
    events = [("MatMul.470", 2.0), ("MatMul_1.2", 3.0), ("dot", 4.0), ("ThunkExecutor::Execute", 9)]
    assert step_profile.by_kind(events) == {"MatMul": (5.0, 2), "dot": (4.0, 1)}


def test_the_profile_of_a_step_finds_its_products():
    words = ("--model", "Ti16", "--batch-size", "2")
    step, _, _, *rows = printed("benchmarks/step_profile.py", *words)
    milliseconds = float(re.match(r"(\d+) ms for the step", step)[1])
    kinds = {name: (float(ms), int(calls)) for ms, calls, name in (row.split() for row in rows)}
    ms, calls = kinds["MatMul"]
    # Six Dense layers in each of 12 blocks, forward and twice backward, and patches and head.
    assert calls >= 12 * 6 * 3
    assert 0 < ms < milliseconds * os.cpu_count()


def test_the_input_benchmark_times_every_pipeline():
    lines = printed("benchmarks/input.py", "--images", "96", "--size", "32", "--rounds", "1")
    for line in lines[1:]:
        _, speed, cpu, ratio = re.split(r"  +", line.strip())
        assert float(speed) > 0 <= float(cpu)
        assert float(ratio) > 0
    assert len(lines) == 1 + 9
