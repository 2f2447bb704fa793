"""A linear probe on features that are computed once trains the head that it would on images."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, data, frozen_features
from keras_vit.data.source import Vectors
from keras_vit.models.pretrained import model_class
from keras_vit.training import RECIPES, Recipe, dry_run, prepared
from keras_vit.training.settings import keeps_features

PROBE = Recipe(
    image_size=16, duration="25 steps", batch_size=4, learning_rate=0.01, freeze="body",
    augment="none", jit=False,
)  # fmt: skip
SPECS = {
    "vit": keras_vit.ViTSpec(8, 24, 1, 2, 32, pooling="token_mean"),
    "bit": keras_vit.ResNetSpec((1, 1)),
}


@pytest.fixture
def file(request, tmp_path):
    spec = SPECS[getattr(request, "param", "vit")]
    keras_vit.save_weights(model_class(spec)(spec, 0, 16), tmp_path / "body.npz")
    return tmp_path / "body.npz"


def outcome(run):
    """The weights, and the losses and accuracies of each evaluation."""
    kinds = ("loss", "accuracy")
    figures = [[r[name] for name in sorted(r) if name.endswith(kinds)] for r in run.metrics()]
    with np.load(run.path / "weights.npz") as weights:
        return dict(weights), np.array(figures)


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("vit", {"accumulate": 2, "sampling": "balanced", "ema": 0.5, "weight_decay": 0.1}),
        ("bit", {"loss": "sigmoid", "optimizer": "sgd"}),
    ],
    indirect=["file"],
)
def test_the_steps_are_those_on_images(file, changes, train_tiny, monkeypatch):
    computed = mock.Mock(wraps=frozen_features.features_of)
    monkeypatch.setattr(frozen_features, "features_of", computed)
    weights, figures = outcome(train_tiny(PROBE, "kept", None, weights=file, **changes))
    again, _ = outcome(train_tiny(PROBE, "again", None, weights=file, **changes))
    np.testing.assert_equal(again, weights)
    monkeypatch.setattr(prepared, "keeps_features", lambda recipe, spec: False)
    expected, others = outcome(train_tiny(PROBE, "images", None, weights=file, **changes))
    assert [len(call.args[2]) for call in computed.call_args_list] == [12]
    for name, values in expected.items():
        np.testing.assert_allclose(weights[name], values, atol=2e-5, err_msg=name)
    assert np.abs(expected[next(name for name in expected if "head" in name)]).max() > 0.01
    np.testing.assert_allclose(figures, others, atol=1e-4)
    assert len(figures) == 3


def test_a_resumed_probe_equals_an_uninterrupted_one(file, train_tiny):
    whole, figures = outcome(train_tiny(PROBE, "whole", None, weights=file))
    train_tiny(PROBE, model=None, weights=file, dies_after=12, checkpoint_every="5 steps")
    resumed, others = outcome(train_tiny(PROBE, model=None, resume=True))
    np.testing.assert_array_equal(resumed["head/kernel"], whole["head/kernel"])
    np.testing.assert_array_equal(others, figures)


@pytest.mark.parametrize(
    "changes",
    [
        {"freeze": "none"},
        {"augment": "crop_flip"},
        {"mixup": 0.2},
        {"cutmix": 1.0},
        {"erase": 0.25},
    ],
)
def test_what_changes_from_step_to_step_is_not_kept(changes):
    assert keeps_features(PROBE, SPECS["vit"])
    assert not keeps_features(dataclasses.replace(PROBE, **changes), SPECS["vit"])


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "drop_path"])
def test_random_features_are_not_kept(rate):
    assert not keeps_features(PROBE, dataclasses.replace(SPECS["vit"], **{rate: 0.1}))


def test_the_recipe_keeps_features_of_models_with_dropout():
    recipe, large = RECIPES["linear-probe"], keras_vit.ViTSpec(8, 24, 1, 2, 32, dropout=0.1)
    spec = dataclasses.replace(large, **prepared.spec_fields(recipe, large))
    assert keeps_features(recipe, spec)


def test_a_preview_counts_the_features_once(file, source, monkeypatch):
    begun = []
    plan, costs = dry_run(
        None, source, PROBE, weights=file, started=lambda plan, costs: begun.append(plan)
    )
    assert begun[0].keeps_features
    assert plan.seconds > 0
    # 48 values of class token and mean of patches, two classes: forward, and gradients of weights.
    assert costs.step_flops == 4 * 2 * (2 * 48 * 2)
    assert costs.forward_flops > costs.step_flops
    monkeypatch.setattr(prepared, "_MOST_FEATURES", 4 * len(source) * 48 - 1)
    plan, _ = dry_run(None, source, PROBE, weights=file)
    assert not plan.keeps_features


def test_vectors_are_a_row_for_each_image(source):
    with pytest.raises(UsageError, match=r"values must be float32 \(12, channels\)"):
        dataclasses.replace(source, image=Vectors(np.zeros((11, 4), np.float32)))
    rows = np.arange(48, dtype=np.float32).reshape(12, 4)  # (48,) to (12, 4)
    vectors = dataclasses.replace(source, image=Vectors(rows), states=None)
    np.testing.assert_array_equal(vectors.image(3), rows[3])
    [(found, classes)] = data.evaluation_batches(
        vectors, np.array([5, 0]), keras_vit.Preprocessing(16, 16), 8
    )
    np.testing.assert_array_equal(found, rows[[5, 0]])
    np.testing.assert_array_equal(classes, source.targets[[5, 0]])
