"""Files on GPUs and in half precision: what is run, what is reported, and what is refused."""

import dataclasses
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.judge.gpu import NOT_ASKED, judge_on_gpu
from keras_vit.deploy.judge.judged_file import judge_half_precision
from keras_vit.deploy.judge.layer_differences import block_ends
from keras_vit.tflite.compiled_model import GpuOutputs, run_on_gpu
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.float16_emulation import Emulated, emulate


def cpu_as_gpu(change=lambda graph, scores: scores):
    """A device that computes on the CPU, and changes the scores of some files."""

    def run(content, inputs, limit_s):
        scores = deploy.Runner(content).predict(inputs[:, 0])
        return GpuOutputs("Test GPU", [change(read_graph(content), scores)], [1.0])

    return run


def judged(sample, run, name="none"):
    return judge_on_gpu(sample.file(name), deploy.precision_of(name), sample.images, 2.0, run)


def test_a_right_file_has_no_problem(sample):
    found = judged(sample, cpu_as_gpu())
    assert (found.device, found.problem, found.images) == ("Test GPU", "", 2)
    assert found.max_difference < 1e-5
    assert [half.sums for half in found.half_precision] == ["float32", "float16"]
    assert all(1e-5 < half.max_difference < 0.04 for half in found.half_precision)
    found.check("float32")


def test_the_first_wrong_block_of_a_wrong_file_is_named(sample):
    def second_block_wrong(graph, scores):
        return scores * 1.5 if "encoderblock_1" in block_ends(graph) else scores

    found = judged(sample, cpu_as_gpu(second_block_wrong))
    assert found.block == "encoderblock_1"
    assert found.problem.startswith("scores differ from the CPU's by ")
    with pytest.raises(RefusedError, match="on Test GPU.*The first block.*is encoderblock_1"):
        found.check("float32")
    found = judged(sample, cpu_as_gpu(lambda graph, scores: scores * np.nan))
    assert (found.problem, found.max_difference) == ("scores that are not finite", None)
    assert found.block == "encoderblock_0"


def test_a_refused_file_keeps_the_reason_and_the_device(sample):
    refusal = RefusedError("Test GPU: the accelerator does not take GATHER_ND")
    found = judged(sample, Mock(side_effect=refusal), "int8")
    assert (found.device, found.images, found.half_precision) == ("Test GPU", 0, ())
    assert found.problem == "the accelerator does not take GATHER_ND"
    with pytest.raises(RefusedError, match="the int8 file fails on Test GPU: the accelerator"):
        found.check("int8")


def test_without_a_device_nothing_is_wrong_but_a_demand_is_not_met(sample, monkeypatch):
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere.json")
    found = judged(sample, run_on_gpu)
    assert (found.device, found.problems) == ("", [])
    assert found.problem.startswith("no Vulkan device: ")
    with pytest.raises(RefusedError, match="float32 file was not run on a GPU: no Vulkan device"):
        found.check("float32")
    assert NOT_ASKED.problem.startswith("not asked for")


@pytest.mark.parametrize(
    ("emulated", "message"),
    [
        (RefusedError("EXP is not emulated"), "float32 sums: not emulated: EXP is not emulated"),
        (2 * [Emulated(None, "MEAN of encoderblock_0")], "overflow in MEAN of encoderblock_0"),
    ],
    ids=["not emulated", "overflow"],
)
def test_what_half_precision_does_not_give_fails_a_demand(sample, monkeypatch, emulated, message):
    monkeypatch.setattr("keras_vit.deploy.judge.gpu.emulate", Mock(side_effect=emulated))
    found = judged(sample, cpu_as_gpu())
    assert found.problem == ""
    with pytest.raises(RefusedError, match=message):
        found.check("float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "float16", "dynamic", "int8"])
def test_the_accelerator_takes_our_files_and_gives_their_scores(sample, on_gpu, name):
    found = judged(sample, run_on_gpu, name)
    assert found.device
    assert found.problems == []
    assert found.max_difference < (2e-4 if name in ("none", "float16") else found.allowed)


@pytest.mark.parametrize("name", ["none", "float16"])
def test_float_files_run_in_half_precision_and_are_judged_in_it(sample, name):
    exported = sample.exported(name)
    assert exported.half.problem == ""
    difference = exported.half.verdict.max_difference / exported.half.verdict.scale
    assert 1e-5 < difference < 5e-3  # it is half precision, and a good one
    assert exported.verdict.max_difference < exported.half.verdict.max_difference
    assert sample.exported("int8").half is None


@pytest.mark.slow
def test_squares_of_a_large_stream_fit_into_half_precision(trained_like, pictures):
    # Today's XNNPACK sums squares in float32, but older versions and GPUs do not.
    undivided = frozenset(REWRITES) - {"scaled_stream"}
    for factor, rewrites in ((400, undivided), (800, frozenset(REWRITES))):
        model = trained_like(keras_vit.ViT(keras_vit.ViTSpec(8, 96, 2, 3, 80), 5, (16, 24)))
        encoder = model.get_layer("patch_encoder")
        for variable in (encoder.projection.kernel, encoder.positions, encoder.class_token):
            variable.assign(np.asarray(variable) * factor)  # as trained models may have it
        content = deploy.to_tflite(model, options=GraphOptions(rewrites=rewrites))
        overflow = emulate(content, pictures(1, (16, 24)), "float32").overflow
        assert bool(overflow) == (rewrites is undivided), overflow


def test_a_file_that_does_not_run_in_half_precision_is_reported_and_not_refused(converted, sample):
    import tensorflow as tf

    shape, kernel = (1, 1, 4, 16), np.ones((3, 16, 8), np.float32)  # XNNPACK refuses it
    content = converted(lambda x: {"y": tf.matmul(tf.tile(x, (1, 3, 1, 1)), kernel)}, shape)
    images = deploy.Reference(np.ones(shape, np.float32), np.ones((1, 3, 4, 8)))
    made = deploy.MadeFile(deploy.precision_of("none"), content, deploy.About("product"))
    found = judge_half_precision(made, images)
    assert found.verdict is None
    assert found.problem.startswith("LiteRT does not run the file in half precision: ")
    assert found.to_dict() == {"problem": found.problem}
    deploy.check(dataclasses.replace(sample.exported("none"), half=found))
