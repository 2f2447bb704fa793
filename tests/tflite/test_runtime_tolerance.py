"""The tolerance in golden.json covers kernels that round differently from XNNPACK."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from keras_vit.deploy import Runner
from keras_vit.tflite.runner import as_source, runtime_tolerance


@pytest.mark.parametrize("name", ["dynamic", "int8", "int8-full", "int16x8"])
def test_reference_kernels_stay_within_the_tolerance(sample, name):
    content = sample.file(name)
    runner = Runner(content)
    # As in golden.json, which always allows a thousandth of the scores.
    tolerance = max(
        runtime_tolerance(content, sample.images, runner), 1e-3 * np.ptp(sample.expected) / 2
    )
    reference = Runner(content)
    reference.interpreter = Interpreter(
        **as_source(content), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    reference.interpreter.allocate_tensors()
    found, expected = reference.predict(sample.images), runner.predict(sample.images)
    assert np.abs(found - expected).max() <= tolerance
    assert tolerance < 0.2 * np.ptp(expected)  # a wrong input must still be noticed


def test_without_xnnpack_nothing_is_delegated_and_scores_are_as_near(sample):
    runner = Runner(sample.file("none"), xnnpack=False)
    names = [op["op_name"] for op in runner.interpreter._get_ops_details()]
    assert "TfLiteXNNPackDelegate" not in names
    np.testing.assert_allclose(runner.predict(sample.images), sample.expected, atol=1e-4)
