"""The table of precisions is complete, consistent and cheap to import."""

import dataclasses

import pytest

from keras_vit import UsageError
from keras_vit.deploy.precisions import PRECISIONS, precision_named, precision_of


def test_precisions_are_found_by_argument_and_by_name():
    for quantize, precision in PRECISIONS.items():
        assert precision_of(quantize) is precision
        assert precision_named(precision.name) is precision
    assert precision_of(None) is PRECISIONS["none"]
    assert PRECISIONS["none"].name == "float32"
    with pytest.raises(UsageError, match="unknown quantize='int-8'; did you mean int8"):
        precision_of("int-8")
    with pytest.raises(UsageError, match="precision must be one of float32, .* Received: 'none'"):
        precision_named("none")


def test_the_last_rule_for_an_operator_wins():
    kinds = [PRECISIONS["int4"].kind(name) for name in ("FULLY_CONNECTED", "CONV_2D", "SOFTMAX")]
    assert kinds == ["dynamic4", "dynamic8", "float"]
    assert PRECISIONS["int16x8"].kind("INPUT") == "float"


def test_an_unknown_kind_of_quantisation_is_refused():
    with pytest.raises(UsageError, match="int8: unknown kind 'static4' for CONV_2D; did you mean"):
        dataclasses.replace(PRECISIONS["int8"], rules=(("CONV_2D", "static4"),))


def test_auto_is_its_base_with_a_choice_of_layers():
    auto = PRECISIONS["auto"]
    base = PRECISIONS[auto.base]
    assert (auto.rules, auto.budget, auto.calibrated) == (base.rules, base.budget, base.calibrated)
    assert [name for name, p in PRECISIONS.items() if p.base] == ["auto"]
