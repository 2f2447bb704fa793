"""Quantisation of models with outlier channels, which trained vision transformers have."""

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy
from keras_vit.deploy.graph import inference as graph
from keras_vit.deploy.graph.balance import balances
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import parameters_of
from keras_vit.weights.names import weight_names

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=192, depth=4, num_heads=6, mlp_dim=384)


@pytest.fixture(scope="module")
def stressed(trained_like, pictures):
    """Models with five outlier channels in the residual stream, 30 to 100 times larger than others.

    The norms either compensate for them, so that their outputs stay the same, or do not.
    """

    def make(compensated):
        model = trained_like(keras_vit.ViT(SPEC, 20, (32, 32)))
        generator = np.random.default_rng(9)
        channels = np.ones(192, np.float32)
        chosen = generator.choice(192, 5, replace=False)
        channels[chosen] = generator.uniform(30, 100, 5)
        for name in weight_names(SPEC, 20, (32, 32)):
            variable = name.variable(model)
            layer, _ = name.path.rsplit("/", 1)
            if layer.startswith("patch_encoder") or layer.endswith(("attention/out", "dense_1")):
                variable.assign(np.asarray(variable) * channels)
            elif compensated and name.path.endswith("/gamma"):
                variable.assign(np.asarray(variable) / channels)
        return model, pictures(72, (32, 32))

    return make


def cosine(model, images, quantize):
    content = deploy.to_tflite(model, quantize, images[8:])
    expected = np.asarray(model(images[:8], training=False))
    found = deploy.Runner(content).predict(images[:8])
    return deploy.compare("int8", expected, found).cosine


@pytest.mark.slow
@pytest.mark.parametrize("compensated", [True, False])
def test_int8_keeps_its_accuracy_because_outlier_channels_are_balanced(
    stressed, compensated, monkeypatch
):
    model, images = stressed(compensated)
    assert cosine(model, images, "int8") > 0.995
    monkeypatch.setattr(graph, "balances", lambda *_: False)
    assert cosine(model, images, "int8") < 0.985
    if compensated:  # and where the stream is in int8 too
        assert cosine(model, images, "int8-full") < 0.93


def test_balancing_requires_norms_without_mean_and_shift():
    fit = frozenset(REWRITES)
    assert balances(SPEC, fit)
    for names in (fit - {"centre"}, fit - {"fold_norms"}):
        assert not balances(SPEC, names)
    assert not balances(keras_vit.ResNetSpec((1, 1, 1, 1)), fit)


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["centre", "fold_norms", "attention_biases", "constants"])
def test_calibrated_graphs_are_correct_without_any_one_rewrite(stressed, left_out):
    model, images = stressed(compensated=False)
    options = graph.GraphOptions(batch=None, rewrites=frozenset(REWRITES) - {left_out})
    built = graph.InferenceGraph(SPEC, parameters_of(model), (32, 32), model.preprocessing, options)
    module = graph.inference_module(graph.prepare(built, images[:4]))
    expected = np.asarray(model(images[8:12], training=False))
    found = module.serve(images[8:12])["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max(), rtol=0)
