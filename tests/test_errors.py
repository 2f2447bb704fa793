"""What messages show is short, in one line and the same in every process."""

import copy
import pickle

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit._errors import RefusedError, one_line, shown
from keras_vit.deploy.reference_scores import ParityError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"),
        ("a\nb\x1b[31m\u202e\ud800", r"'a\nb\x1b[31m\u202e\ud800'"),
        ([1, 2], "[1, 2]"),
        ([10**5000], "[an integer of 16,610 bits]"),
        ((1,) * 10**6, "(1, 1, 1, 1, 1, 1, ...)"),
        (object(), "<object object>"),
    ],
)
def test_a_value_is_shown_as_its_representation(value, expected):
    assert shown(value) == expected
    if type(value) is object:
        assert "0x" not in str(UsageError(f"expected a model. Received: {value}."))


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        dict.fromkeys(map(str, range(10**5))),
        ["x" * 10**6] * 100,
        np.zeros(10**6),
        [10**5000],
        [[[[[[[[[[1]]]]]]]]]] * 100,
    ],
)
def test_large_values_are_shortened(value):
    assert len(shown(value)) < 200


def test_a_message_is_one_line_with_a_beginning_and_an_end():
    text = str(UsageError("expected\n\x1b[2J a file, " + "x" * 10**7 + "; copy it again."))
    assert text.startswith(r"expected\n\x1b[2J a file, xxx")
    assert text.endswith("xxx; copy it again.")
    assert len(text) < 2_100


def test_details_are_further_lines():
    error = UsageError("it does not fit", ["- a\nb", *map(str, range(10**6))])
    first, second, *rest = str(error).splitlines()
    assert (first, second) == ("it does not fit", r"- a\nb")
    assert len(rest) < 1_000


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize(
    "error",
    [
        UsageError("it does not fit", ["- a\nb", "+ c"]),
        UsageError("too long", ["x" * 10_000] * 10_000),
        RefusedError("int8: too slow\nint4: too large"),
        ParityError("x" * 10_000),
    ],
)
def test_a_copied_error_says_the_same(error, again):
    error.note = "of its own"
    other = again(error)
    assert (type(other), str(other), other.note) == (type(error), str(error), "of its own")


def test_results_that_are_refused_are_shown_in_short_lines():
    text = str(RefusedError("int8: \x1b[2J a bad layer\nint4: " + "x" * 10**7 + "\n" * 10**6))
    first, second, *rest = text.splitlines()
    assert first == r"int8: \x1b[2J a bad layer"
    assert len(second) < 2_100
    assert len(text) < 8_100
    assert len(rest) < 1_000


def test_text_in_any_alphabet_stays_as_it_is():
    assert one_line("Füße 猫 кот /tmp/a b") == "Füße 猫 кот /tmp/a b"
