"""Probes on frozen features against plain NumPy, and during training."""

import dataclasses
import functools
import json
import re
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, data, evaluation, frozen_features, preprocess
from keras_vit.data import InMemory
from keras_vit.training import Hooks, Recipe, train


def problem(rng, channels, count=60, classes=4):
    """Features of classes that overlap, with channels of different means and scales."""
    targets = rng.permutation(np.arange(count) % classes)
    centres = rng.normal(0, 1, (classes, channels))
    scales, means = rng.uniform(0.1, 5, channels), rng.normal(0, 10, channels)
    features = (centres[targets] + rng.normal(0, 2, (count, channels))) * scales + means
    return features.astype(np.float32), targets


def plain_accuracy(train, train_targets, test, test_targets, shots, l2, seed):
    """The definition, without any other form of it."""
    generator = np.random.default_rng(seed)
    classes = train_targets.max() + 1
    chosen = []
    for c in range(classes):
        members = np.flatnonzero(train_targets == c)
        chosen += list(members[generator.permutation(len(members))[:shots]])
    x, y = train[chosen].astype(np.float64), train_targets[chosen]
    mean, std = x.mean(0), x.std(0) + 1e-5
    bias = np.full((len(x), 1), 100.0)
    x = np.hstack([(x - mean) / std, bias])
    w = np.linalg.inv(x.T @ x + l2 * np.eye(x.shape[1])) @ x.T @ (2 * np.eye(classes)[y] - 1)
    z = np.hstack([(test - mean) / std, np.full((len(test), 1), 100.0)])
    return ((z @ w).argmax(-1) == test_targets).mean()


@pytest.mark.parametrize("channels", [6, 50], ids=["more images", "more features"])
def test_fewshot_accuracies_are_those_of_the_definition(rng, channels):
    train, test = problem(rng, channels), problem(rng, channels, 200)
    shots, l2, seeds = (1, 5, 10), (1e-2, 1.0, 2.0**10), (0, 1, 5, 6)
    sweep = evaluation.fewshot_sweep(*train, *test, shots, l2, seeds)
    assert sweep.shape == (3, 3, 4)
    for (i, j, k), accuracy in np.ndenumerate(sweep):
        combination = shots[i], l2[j], seeds[k]
        expected = plain_accuracy(*train, *test, *combination)
        assert accuracy == pytest.approx(expected, abs=1e-5), combination
        assert accuracy == evaluation.fewshot_accuracy(*train, *test, *combination)
    assert len(np.unique(sweep)) > 3


FEATURES, CLASSES = problem(np.random.default_rng(0), 5)
NAN = np.where(np.arange(5) == 2, np.nan, FEATURES)
NO_INTEGERS = "train_targets must be classes, integers from 0"
ONE_CLASS = "train_targets must have two classes or more. Received: only class"


@pytest.mark.parametrize(
    ("probe", "given", "message"),
    [
        ("knn_accuracy", {"test_features": NAN}, "test_features must be finite numbers"),
        ("linear_probe_accuracy", {"test_features": NAN}, "test_features must be finite numbers"),
        ("fewshot_accuracy", {"train_targets": CLASSES - 1}, NO_INTEGERS),
        ("fewshot_accuracy", {"train_targets": CLASSES.astype(float)}, NO_INTEGERS),
        ("fewshot_accuracy", {"train_targets": CLASSES.astype(str)}, NO_INTEGERS),
        ("fewshot_accuracy", {"train_targets": 0 * CLASSES}, f"{ONE_CLASS} 0"),
        ("knn_accuracy", {"train_targets": 0 * CLASSES + 3}, f"{ONE_CLASS} 3"),
        ("linear_probe_accuracy", {"train_targets": 0 * CLASSES + 3}, f"{ONE_CLASS} 3"),
        (
            "knn_accuracy",
            {"test_features": FEATURES[:0], "test_targets": CLASSES[:0]},
            r"one image or more. Received: \(0, 5\)",
        ),
        (
            "fewshot_accuracy",
            {"test_features": FEATURES[:, :4]},
            "the same number of channels. Received: 5 and 4",
        ),
        ("fewshot_accuracy", {"train_targets": CLASSES[1:]}, r"Received: \(60, 5\) and \(59,\)"),
        ("fewshot_accuracy", {"shots": 16}, "shots=16, and 15 images of class 0"),
        ("fewshot_accuracy", {"shots": -1}, "shots must be"),
        ("fewshot_accuracy", {"shots": 0}, "shots must be"),
        ("fewshot_accuracy", {"shots": 2.5}, "shots must be"),
        ("fewshot_accuracy", {"l2": 0.0}, "l2 must be positive"),
        ("fewshot_accuracy", {"seed": -1}, "seed must be an integer of at least 0"),
        ("fewshot_accuracy", {"seed": 1.5}, "seed must be an integer of at least 0"),
        ("fewshot_accuracy", {"l2": "a"}, "l2 must be a number"),
        ("fewshot_accuracy", {"l2": np.inf}, "l2 must be a number"),
        ("fewshot_sweep", {"shots": [1], "l2": 8.0}, r"l2=8.0; for one value: \[8.0\]"),
        ("fewshot_sweep", {"shots": 1}, "shots must be a list"),
        ("fewshot_sweep", {"shots": [1], "seeds": 1}, "seeds must be a list"),
        ("knn_accuracy", {"neighbours": 2.5}, "neighbours must be a positive integer"),
        ("knn_accuracy", {"neighbours": 61}, "training images, 60. Received: neighbours=61"),
        ("knn_accuracy", {"temperature": "a"}, "temperature must be a number"),
        ("knn_accuracy", {"temperature": 0.0}, "temperature must be positive"),
        ("linear_probe_accuracy", {"c": 1.0}, "c must be a list"),
        ("linear_probe_accuracy", {"c": [0]}, "c must be positive"),
        ("linear_probe_accuracy", {"seed": 2**32}, "and below 2\\*\\*32"),
    ],
)
def test_what_a_probe_cannot_use_is_refused(probe, given, message):
    usual = {"train_features": FEATURES, "train_targets": CLASSES}
    usual |= {"test_features": FEATURES, "test_targets": CLASSES}
    usual |= {"shots": 1} if probe == "fewshot_accuracy" else {}
    with pytest.raises(UsageError, match=message):
        getattr(evaluation, probe)(**usual | given)


def test_integers_may_be_floats(rng):
    train, test = problem(rng, 5), problem(rng, 5)
    assert evaluation.fewshot_accuracy(*train, *test, 2.0, seed=np.int64(1)) == (
        evaluation.fewshot_accuracy(*train, *test, 2, seed=1)
    )


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [({}, 0.07), ({"temperature": 100}, 100), ({"temperature": 1e-4}, 1e-4)],
)
def test_nearest_neighbours_equal_those_of_scikit_learn(rng, settings, temperature):
    from sklearn.neighbors import KNeighborsClassifier

    def weights(distance):
        return np.exp((distance.min(1, keepdims=True) - distance) / temperature)

    (train, targets), (test, expected) = problem(rng, 8, 300), problem(rng, 8, 1500)
    reference = KNeighborsClassifier(7, metric="cosine", weights=weights).fit(train, targets)
    actual = evaluation.knn_accuracy(train, targets, test, expected, 7, **settings)
    assert actual == pytest.approx(reference.score(test, expected), abs=1e-3)


def test_the_linear_probe_learns_what_a_few_images_do_not_show(rng):
    features, targets = problem(rng, 20, 2000)
    four = features[500:], targets[500:], features[:500], targets[:500]
    few = evaluation.fewshot_accuracy(*four, 2)
    assert evaluation.linear_probe_accuracy(*four) > few + 0.2


@pytest.fixture
def model(small_spec, randomised):
    return randomised(keras_vit.ViT(small_spec, 2, 16))


@pytest.mark.flavours
def test_features_are_what_the_head_reads(shared_folder, model):
    source, indices, seen = data.open_source(shared_folder), np.array([3, 0, 7]), []
    actual = evaluation.features_of(model, source, indices, batch_size=2, report=seen.append)
    images = np.stack([preprocess(source.image(i), model)[0] for i in indices])
    logits = actual @ np.asarray(model.get_layer("head").kernel)
    logits += np.asarray(model.get_layer("head").bias)
    np.testing.assert_allclose(logits, np.asarray(model(images)), atol=1e-4)
    assert seen == [2, 3]


def test_cached_features_are_those_of_the_same_weights_and_images(
    image_folder, model, tmp_path, monkeypatch
):
    source, cache = data.open_source(image_folder), tmp_path / "features.npz"
    split = data.split_source(source)
    computed = mock.Mock(wraps=frozen_features.features_of)
    monkeypatch.setattr(frozen_features, "features_of", computed)

    def features(source=source, split=split):
        computed.reset_mock()
        return evaluation.split_features(model, source, split, cache=cache)

    first = features()
    assert len(first.train) == len(split.train)
    np.testing.assert_array_equal(first.test_targets, source.targets[split.held_out])
    np.testing.assert_array_equal(features().test, first.test)
    assert not computed.called
    features(split=data.split_source(source, 0.4))
    assert computed.called, "other images"
    features()
    cache.write_bytes(cache.read_bytes()[:200])
    features()
    assert computed.called, "a damaged file"
    model.get_layer("head").bias.assign([1.0, 2.0])
    features()
    assert not computed.called, "features do not depend on the head"
    model.get_layer("encoder_norm").beta.assign(np.ones(48))
    features()
    assert computed.called, "other weights"

    path = image_folder / source.ids[0]
    Image.effect_noise(Image.open(path).size, 90).save(path)
    features(data.open_source(image_folder))
    assert computed.called, "a changed picture"
    digits = data.open_source("digits")
    inverted = dataclasses.replace(digits, image=InMemory(255 - digits.image.pixels))
    features(digits)
    features(inverted)
    assert computed.called, "changed pixels in memory"


def test_features_that_cannot_be_kept_are_computed(shared_folder, model, tmp_path):
    source, indices = data.open_source(shared_folder), np.array([3, 0])
    (tmp_path / "file").touch()
    found = frozen_features.kept_features(model, source, indices, tmp_path / "file" / "x.npz")
    np.testing.assert_array_equal(found, evaluation.features_of(model, source, indices))


@pytest.mark.flavours
def test_a_run_measures_its_features(shared_folder, tiny_model, tmp_path):
    recipe = Recipe(image_size=16, duration="2 steps", batch_size=4, jit=False, augment="none")
    source = data.open_source(shared_folder)
    built = []

    def probes(model, split):
        built.extend([model, split])
        return [evaluation.FewShotProbe(model, source, split, shots=(1, 2))]

    run = train(tiny_model, source, recipe, tmp_path / "run", hooks=Hooks(callbacks=probes))
    (record,) = run.metrics()
    model, split = built
    every = evaluation.split_features(model, source, split)
    values = dataclasses.astuple(every)
    for shots in (1, 2):
        expected = [evaluation.fewshot_accuracy(*values, shots, seed=seed) for seed in range(3)]
        assert record[f"fewshot_{shots}"] == pytest.approx(np.mean(expected))


@pytest.fixture
def fewshot(invoke, tmp_path):
    """Runs the command: (exit code, standard output, standard error)."""
    return functools.partial(invoke, "train/fewshot.py", cwd=tmp_path)


def test_the_command_prints_and_stores_the_accuracies(fewshot, trained_run, tiny_model, tmp_path):
    words = ("--run", trained_run.path, "--out", tmp_path / "probe", "--shots", "1", "10")
    words += ("--l2", "1", "1024", "--seeds", "2", "--linear")
    code, out, error = fewshot(*words)
    assert code == 0, error
    assert "1,438 images of 10 classes to learn from, 359 to test on" in out
    stored = json.loads((tmp_path / "probe/fewshot.json").read_text())
    found = {(e["shots"], e["l2"], e["seed"]): e["accuracy"] for e in stored["fewshot"]}
    assert len(found) == 8
    line = next(line for line in out.splitlines() if line.startswith("10 "))
    mean = np.mean([found[10, 1024.0, seed] for seed in (0, 1)])
    assert f"{100 * mean:.2f} \u00b1" in line
    assert stored["logistic_regression"]["accuracy"] > max(found.values()) > 0.2
    assert stored["nearest_neighbours"]["neighbours"] == 20
    words = ("--weights", trained_run.path / "weights.npz", "--model", tiny_model, *words[2:])
    code, again, _ = fewshot(*words, "--data", "digits")
    *lines, following = again.splitlines()
    assert lines == out.splitlines()[1:]
    assert re.match(r"next: .*train/fit\.py --data digits --weights ", following)


def test_wrong_options_of_the_command_are_one_line(fewshot, tmp_path):
    (tmp_path / "some.npz").touch()
    for words, message in (
        (("--weights", "some.npz"), "--weights need --data"),
        (("--model", "ViT_B16"), "--model is only used with --weights"),
        (("--l2", "0"), "--l2 must be positive"),
        (("--crop", "2"), r"--crop must lie in (0, 1]"),
        (("--shots", "0"), "--shots must be"),
    ):
        code, _, error = fewshot(*words)
        assert (code, len(error.splitlines())) == (2, 1), error
        assert message in error


def test_shots_that_a_small_class_does_not_have_are_left_out_or_refused(
    invoke, fewshot, image_folder, tiny_model, tmp_path
):
    for path in sorted((image_folder / "red").iterdir())[2:]:  # two pictures of red are left
        path.unlink()
    words = ("--data", image_folder, "--model", tiny_model, "--out", "run", "--image-size", "16")
    words += ("--duration", "2 steps", "--batch-size", "4", "--no-jit", "--augment", "none")
    code, _, error = invoke("train/fit.py", *words, "--fewshot", "1", "9", cwd=tmp_path)
    assert code == 2
    *_, error = error.splitlines()  # after a warning of few images
    assert "--fewshot=9, and 1 images of 'red'" in error
    assert not (tmp_path / "run").exists()
    assert invoke("train/fit.py", *words, "--fewshot", "1", cwd=tmp_path)[0] == 0
    code, out, error = fewshot("--run", "run", "--linear")
    assert code == 0, error
    assert "'red' has only 1 to learn from, so larger shots are left out" in error
    assert "logistic regression needs 2 images of each class; 'red' has 1" in error
    assert "nearest neighbours: " in out
    of_the_run = (tmp_path / "run/fewshot/fewshot.json").read_bytes()
    moved = image_folder.rename(tmp_path / "moved")  # the run's images are divided as in training
    code, out, error = fewshot("--run", "run", "--data", moved)
    assert code == 0, error
    split = json.loads((tmp_path / "run/split.json").read_text())
    assert f"{len(split['train'])} images of 2 classes to learn from" in out
    assert out.endswith("results: run/fewshot-moved/fewshot.json\n")
    assert (tmp_path / "run/fewshot/fewshot.json").read_bytes() == of_the_run
    code, out, error = fewshot("--run", "run", "--data", f"unlabelled:{moved}")
    assert " images of 1 class to learn from" in out
    assert (code, "whose images have one class only" in error) == (2, True)
    moved.rename(image_folder)
    code, _, error = fewshot("--run", "run", "--shots", "3")
    assert (code, "--shots=3, and 1 images of 'red'" in error) == (2, True)
