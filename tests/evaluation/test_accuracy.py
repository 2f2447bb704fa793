"""The accuracy of models on images of the same classes under other names or in another order."""

import json

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.data import InMemory, Source
from keras_vit.evaluation import accuracy_on, class_places, write_accuracy
from keras_vit.labels import imagenet2012_ids, imagenet2012_labels
from keras_vit.specs import Preprocessing


class Reader:
    """A model that reads its scores from the grey level of an image: the class, then the next."""

    labels = ("cat", "dog", "bird", "fish", "ant", "bee", "cow")
    num_classes = 7
    preprocessing = Preprocessing(2, 2, mean=0.0, scale=1.0)

    def predict_on_batch(self, images):
        first = np.asarray(images)[:, 0, 0, 0].astype(int)  # (b,)
        return -((np.arange(7)[None] - first[:, None]) % 7)  # (b, classes)


def source(levels, targets=None, multi_hot=None, labels=Reader.labels):
    pixels = np.repeat(np.uint8(levels), 12).reshape(-1, 2, 2, 3)  # (n, 2, 2, 3)
    targets = np.zeros(len(levels), np.int64) if targets is None else np.array(targets)
    ids = tuple(map(str, range(len(levels))))
    return Source("pictures", labels, ids, targets, InMemory(pixels), multi_hot=multi_hot)


def test_the_five_most_probable_classes_are_counted():
    # Right, second, fifth and sixth.
    images = source([0, 0, 0, 0], targets=[0, 1, 4, 5])
    done = []
    found = accuracy_on(
        Reader(), images, np.arange(4), batch_size=3, report=lambda *now: done.append(now)
    )
    assert (found.images, found.unlabelled, found.top1, found.top5) == (4, 0, 0.25, 0.75)
    assert done == [(3, 4, 1), (4, 4, 1)]
    assert found.classes[0] == {"label": "cat", "images": 1, "recognised": 1}


def test_classes_are_found_by_their_names():
    images = source([2, 0, 1], targets=[0, 1, 1], labels=("bird", "cat"))
    found = accuracy_on(Reader(), images, np.array([0, 1, 2]))
    assert found.top1 == 2 / 3


def test_one_of_several_classes_is_enough_and_images_without_any_are_left_out():
    rows = np.uint8([[0, 1, 1, 0, 0, 0, 0], [0] * 7, [0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0]])
    images = source([1, 1, 1, 1], multi_hot=rows)
    found = accuracy_on(Reader(), images, np.arange(4), batch_size=2)
    assert (found.images, found.unlabelled) == (3, 1)
    assert found.top1 == 1 / 3
    assert found.top5 == 1 / 3  # after class 1 come 2 to 5; 6 and 0 are the last
    assert found.classes == []
    with pytest.raises(UsageError, match="expected images with classes. Received: none"):
        accuracy_on(Reader(), images, np.array([1]))


def test_imagenets_classes_have_two_kinds_of_names():
    ids, words = imagenet2012_ids(), imagenet2012_labels()
    for labels in (ids, words, None):
        np.testing.assert_array_equal(class_places(ids, labels, 1000), np.arange(1000))
        np.testing.assert_array_equal(class_places(ids[5:2:-1], labels, 1000), [5, 4, 3])
    np.testing.assert_array_equal(class_places(words, ids, 1000), np.arange(1000))
    # A permutation of the same names, as of another data set.
    shuffled = np.random.default_rng(0).permutation(1000)
    names = tuple(ids[i] for i in shuffled)
    np.testing.assert_array_equal(class_places(names, words, 1000), shuffled)
    np.testing.assert_array_equal(class_places(names, None, 1000), shuffled)


class Binary(Reader):
    """A model of one logit, which is positive for images of the levels above 3."""

    num_classes = 1
    labels = ("dog",)

    def predict_on_batch(self, images):
        return np.asarray(images)[:, 0, :1, 0] - 3.0  # (b, 1)


def test_one_logit_tells_its_label_from_all_other_classes():
    images = source([9, 1, 2, 9, 3], targets=[1, 1, 0, 2, 2])  # right, wrong, right, wrong, right
    found = accuracy_on(Binary(), images, np.arange(5))
    assert (found.top1, found.images) == (0.6, 5)
    assert found.classes == [
        {"label": "not dog", "images": 3, "recognised": 2},
        {"label": "dog", "images": 2, "recognised": 1},
    ]
    with pytest.raises(UsageError, match="Received: cat, owl, which the model does not know"):
        accuracy_on(Binary(), source([1, 2], [0, 1], labels=("cat", "owl")), np.arange(2))


def test_one_logit_without_a_label_names_the_second_of_two_classes(monkeypatch):
    monkeypatch.setattr(Binary, "labels", None)
    images = source([9, 9, 1], targets=[1, 0, 0], labels=("cat", "dog"))
    assert accuracy_on(Binary(), images, np.arange(3)).top1 == 2 / 3
    with pytest.raises(UsageError, match="expected a model of the images' 7 classes"):
        accuracy_on(Binary(), source([1]), np.arange(1))


def test_other_classes_are_refused():
    with pytest.raises(UsageError, match="Received: 21843 classes without names"):
        class_places(("a", "b"), None, 21843)
    with pytest.raises(UsageError, match="Received: horse, which the model does not know"):
        class_places(("cat", "horse"), Reader.labels, 7)
    # A file without names may be of the data's classes.
    np.testing.assert_array_equal(class_places(("a", "b"), None, 2), [0, 1])


def test_the_page_lists_the_classes_that_are_recognised_least(tmp_path):
    images = source([0, 0, 1], targets=[0, 1, 1])
    found = accuracy_on(Reader(), images, np.arange(3))
    write_accuracy(tmp_path, "x on <y>", {"Accuracy": "1"}, found)
    text = (tmp_path / "index.html").read_text()
    assert "x on &lt;y&gt;" in text
    assert text.index("dog</td><td>50.00%") < text.index("cat</td><td>100.00%")
    assert "bird" not in text  # no image of it was judged
    assert json.loads((tmp_path / "report.json").read_text())["top1"] == pytest.approx(2 / 3)
