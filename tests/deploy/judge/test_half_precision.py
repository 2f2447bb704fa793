"""Float files in half precision, which Android apps can allow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import keras_vit
from keras_vit import deploy
from keras_vit._errors import RefusedError
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.judge.judged_file import judge_half_precision
from keras_vit.tflite.compiled_model import predict_in_half_precision


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
    # Today's XNNPACK sums squares in float32, but older versions and GPUs do not, so the values
    # themselves are checked.
    model = trained_like(keras_vit.ViT(keras_vit.ViTSpec(8, 96, 2, 3, 80), 5, (16, 24)))
    encoder = model.get_layer("patch_encoder")
    for variable in (encoder.projection.kernel, encoder.positions, encoder.class_token):
        variable.assign(np.asarray(variable) * 400)  # as trained models may have it
    image, largest = pictures(1, (16, 24)), {}
    for name, rewrites in (("divided", REWRITES), ("undivided", {*REWRITES} - {"scaled_stream"})):
        content = deploy.to_tflite(model, options=GraphOptions(rewrites=frozenset(rewrites)))
        run = Interpreter(model_content=content, experimental_preserve_all_tensors=True)
        run.allocate_tensors()
        run.set_tensor(run.get_input_details()[0]["index"], image)
        run.invoke()
        written = [index for op in run._get_ops_details() for index in op["outputs"]]
        largest[name] = max(np.abs(run.get_tensor(index)).max() for index in written)
    assert largest["divided"] < np.finfo(np.float16).max / 4
    assert largest["undivided"] > np.finfo(np.float16).max


def test_a_file_that_does_not_run_in_half_precision_is_reported_and_not_refused(converted, sample):
    import tensorflow as tf

    kernel = np.ones((3, 16, 8), np.float32)  # XNNPACK refuses it in half precision

    def product(x):
        return {"y": tf.matmul(tf.tile(x, (1, 3, 1, 1)), kernel)}

    content = converted(product, (1, 1, 4, 16))
    with pytest.raises(RefusedError, match="LiteRT does not run the file in half precision: "):
        predict_in_half_precision(content, np.ones((1, 1, 4, 16), np.float32))
    images = deploy.Reference(np.ones((1, 1, 4, 16), np.float32), np.ones((1, 3, 4, 8)))
    made = deploy.MadeFile(deploy.precision_of("none"), content, deploy.About("product"))
    found = judge_half_precision(made, images)
    assert found.verdict is None
    assert found.to_dict() == {"problem": found.problem}
    deploy.check(dataclasses.replace(sample.exported("none"), half=found))
