"""Class names: those of ImageNet-1k in the order of the logits, and decoded predictions."""

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, decode_predictions, labels


def test_imagenet_has_its_1000_classes_in_the_order_of_the_logits():
    names, ids = labels.imagenet2012_labels(), labels.imagenet2012_ids()
    assert len(names) == len(ids) == len(set(ids)) == 1000
    assert list(ids) == sorted(ids)
    # Index, id and name as in Keras' imagenet_class_index.json.
    for index, wordnet_id, name in (
        (0, "n01440764", "tench, Tinca_tinca"),
        (134, "n02012849", "crane"),
        (281, "n02123045", "tabby, tabby_cat"),
        (517, "n03126707", "crane"),
        (639, "n03710721", "maillot, tank_suit"),
        (999, "n15075141", "toilet_tissue, toilet_paper, bathroom_tissue"),
    ):
        assert (ids[index], names[index]) == (wordnet_id, name)
    # The length of the official file in characters; no name is stretched or of another alphabet.
    text = "".join(f"{name}\n" for name in names)
    assert len(text) == 21_675
    assert text.isascii()
    assert not any(name != name.strip() or "  " in name for name in names)


def test_decodes_logits_best_first_by_their_softmax():
    logits = np.log([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]) + np.array([[3.0], [-800.0]])
    actual = decode_predictions(logits.astype(np.float32), ["a", "b", "c"], top=2)
    assert [[label for label, _ in image] for image in actual] == [["c", "b"], ["a", "b"]]
    shares = [[share for _, share in image] for image in actual]
    np.testing.assert_allclose(shares, [[0.7, 0.2], [0.5, 0.25]], atol=1e-4)
    assert all(type(share) is float for image in shares for share in image)


def test_probabilities_stay_as_they_are_and_huge_logits_do_not_overflow():
    actual = decode_predictions([[0.25, 0.75]], ("a", "b"), from_logits=False)
    assert actual == [[("b", 0.75), ("a", 0.25)]]  # two classes, though top is 5
    actual = decode_predictions(np.array([[1e4, 0.0, -1e4]]), list("abc"))
    assert actual == [[("a", 1.0), ("b", 0.0), ("c", 0.0)]]


@pytest.mark.parametrize("from_logits", [True, False])
def test_of_classes_that_do_not_exclude_each_other_each_has_its_sigmoid(small_spec, from_logits):
    logits, names = np.array([[0.0, 800.0, -800.0]]), ["cat", "dog", "emu"]
    predictions = logits if from_logits else 1 / (1 + np.exp(-np.clip(logits, -700, 700)))
    expected = [[("dog", 1.0), ("cat", 0.5), ("emu", 0.0)]]
    assert keras_vit.decode_predictions(predictions, names, 3, from_logits, "sigmoid") == [
        [(name, pytest.approx(p)) for name, p in expected[0]]
    ]
    spec = dataclasses.replace(small_spec, head_activation="sigmoid")
    model = keras_vit.ViT(spec, 3, 16, labels=names)
    assert model.head_activation == "sigmoid"
    found = keras_vit.decode_predictions(predictions, model, 3, from_logits)
    assert [label for label, _ in found[0]] == ["dog", "cat", "emu"]
    assert found[0][1][1] == pytest.approx(0.5)
    with pytest.raises(keras_vit.UsageError, match="activation.*tanh"):
        keras_vit.decode_predictions(predictions, names, activation="tanh")


def test_one_logit_answers_with_its_label_or_not_by_its_sigmoid():
    for logit in (2.0, -3.0, 0.0, -900.0):
        [found] = decode_predictions([[logit]], ["daisy"])
        assert found[0][0] == ("daisy" if logit > 0 else "not daisy")
        p = 1 / (1 + np.exp(-np.float128(logit)))
        assert dict(found) == pytest.approx({"daisy": float(p), "not daisy": float(1 - p)})
    [found] = decode_predictions([[0.25]], ["daisy"], from_logits=False)
    assert found == [("not daisy", 0.75), ("daisy", 0.25)]
    assert decode_predictions([[2.0]], ["daisy"], top=1)[0][0][0] == "daisy"


def test_labels_are_those_that_are_passed_then_those_of_a_model_then_imagenets(small_spec):
    logits = np.zeros((1, 1000))
    logits[0, 281] = 20
    named = [f"class {i}" for i in range(1000)]
    for given, expected in (
        (None, "tabby, tabby_cat"),
        (keras_vit.ViT(small_spec, 1000, 16), "tabby, tabby_cat"),
        (keras_vit.ViT(small_spec, 1000, 16, labels=named), "class 281"),
        (named, "class 281"),
    ):
        assert decode_predictions(logits, given)[0][0][0] == expected


@pytest.mark.parametrize(
    ("predictions", "names", "message"),
    [
        (np.zeros(3), list("abc"), r"numbers \(n, classes\). Received: float64 \(3,\)"),
        (np.array([["a"]]), ["a"], r"numbers \(n, classes\). Received: <U1"),
        (np.zeros((1, 5)), None, "no names for 5 classes; pass labels, a sequence of 5 names"),
        (np.zeros((1, 21843)), None, "21843 classes; ImageNet-21k's are not part of this library"),
        (np.zeros((2, 1)), None, "no name for the class; one score has one label, that of class 1"),
        (np.zeros((2, 1)), ["a", "b"], "one score has one label, that of class 1. Received: 2."),
        (np.zeros((1, 3)), ["a"], "predictions of 3 classes need as many labels. Received: 1."),
        (np.zeros((1, 3)), "abc", "the class names, or a keras_vit model. Received: str"),
        (np.zeros((1, 3)), [1, 2, 3], "the class names, or a keras_vit model. Received: list"),
        (np.zeros((1, 3)), 3, "the class names, or a keras_vit model. Received: int"),
        (np.full((1, 3), np.nan), list("abc"), "predictions must be finite"),
    ],
)
def test_predictions_that_cannot_be_decoded_are_refused(predictions, names, message):
    with pytest.raises(UsageError, match=message):
        decode_predictions(predictions, names)


def test_logits_passed_as_probabilities_are_refused():
    for scores, names, received in (
        ([[-2.0, 3.0]], ["a", "b"], "-2 to 3"),
        ([[0.5, 1.5]], ["a", "b"], "0 to 1.5"),
        ([[1.5]], ["a"], "0 to 1.5"),
    ):
        message = rf"lie in \[0, 1\]. Received: {received}; for logits pass"
        with pytest.raises(UsageError, match=message):
            decode_predictions(scores, names, from_logits=False)
    with pytest.raises(UsageError, match="top must be a positive integer"):
        decode_predictions([[0.0, 1.0]], ["a", "b"], top=0)


def test_a_file_of_more_lines_than_there_may_be_classes_is_refused(tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"\n" * 1_000_001)
    with pytest.raises(UsageError, match="expected at most 1,000,000 lines. Received: 1,000,001"):
        labels.read_labels(tmp_path / "labels.txt")
