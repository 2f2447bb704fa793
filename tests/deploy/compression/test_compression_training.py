"""Compression trains with the rounding of the file, and gives the requested zeros and values."""

import dataclasses
import json
from unittest.mock import Mock

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, _files, deploy
from keras_vit._errors import RefusedError
from keras_vit._keras import LEGACY, keras
from keras_vit.data import digits, load
from keras_vit.deploy import compression
from keras_vit.deploy.compression import Compression, FineTuning, compressed_file
from keras_vit.deploy.compression.dense_layers import fold_norms
from keras_vit.deploy.resolve import parameters_of
from keras_vit.tflite.flatbuffer import read_graph

pytestmark = pytest.mark.flavours

__test__ = LEGACY  # tensorflow-model-optimization works on tf_keras alone

SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=32, depth=1, num_heads=4, mlp_dim=48)
MEAN = dataclasses.replace(SPEC, pooling="gap")
PRUNE = Compression("prune")


@pytest.fixture
def model(randomised, request):
    return randomised(keras_vit.ViT(getattr(request, "param", SPEC), 10, 16))


@pytest.fixture
def images(rng):
    return rng.uniform(-1, 1, (24, 16, 16, 3)).astype(np.float32)


@pytest.fixture
def train(model, images):
    """Compresses: (wrapped model, what came of it)."""

    def steps(wrapped, callbacks):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        wrapped.compile(keras.optimizers.Adam(1e-3), loss, run_eagerly=True)  # no tracing
        wrapped.fit(images, np.arange(24) % 10, 8, 2, verbose=0, callbacks=callbacks)

    def run(method, quantize="none", **settings):
        trained = Mock(side_effect=steps)
        made = compression.compress(model, Compression(method, quantize, **settings), trained, 6)
        return trained.call_args.args[0], made

    return run


def kernels(model):
    found = parameters_of(model)
    return {path: weights for path, weights in found.items() if path.endswith("/kernel")}


@pytest.mark.soak(of="compression")
def test_pruning_gives_the_requested_fraction_or_pattern_of_zeros(train, images):
    wrapped, made = train("prune", sparsity=0.75)
    scores = deploy.predict(made.model, images)
    np.testing.assert_allclose(scores, deploy.predict(wrapped, images), atol=1e-5)
    for path, kernel in kernels(made.model).items():
        assert (kernel == 0).mean() == pytest.approx(0.75, abs=1e-3), path
    _, made = train("prune", pattern="2:4")
    for path, kernel in kernels(made.model).items():
        fours = kernel.reshape(-1, 4, kernel.shape[1])
        assert (np.count_nonzero(fours, axis=1) == 2).all(), path


@pytest.mark.soak(of="compression")
def test_clustering_gives_the_requested_values_and_keeps_zeros_in_the_file(train, images):
    wrapped, made = train("prune+cluster", clusters=5)
    scores = deploy.predict(made.model, images)
    np.testing.assert_allclose(scores, deploy.predict(wrapped, images), atol=1e-5)
    assert {len(np.unique(kernel)) for kernel in kernels(made.model).values()} == {5}
    found = compression.summary(compressed_file(made))
    assert {kernel["distinct"] for kernel in found["kernels"]} == {5}
    assert found["sparsity"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.soak(of="compression")
def test_the_file_computes_what_was_trained(train, images):
    wrapped, made = train("prune+qat", "int4")
    content = compressed_file(made)
    stored = {kernel.layer: kernel.values.T for kernel in compression.stored_kernels(content)}
    for path, kernel in kernels(made.model).items():
        layer = path.removesuffix("/kernel")
        scale = SPEC.head_dim**-0.5 if layer.endswith("query") else 1
        np.testing.assert_allclose(stored[layer], kernel * scale, rtol=1e-5, atol=1e-9)
        assert (kernel == 0).mean() >= 0.5 - 1e-3
    found = deploy.Runner(content).predict(images)
    trained, float_scores = (deploy.predict(m, images) for m in (wrapped, made.model))
    # Occasionally the last digit decides how a number is rounded.
    assert np.median(np.abs(found - trained)) < 0.1 * np.median(np.abs(found - float_scores))


@pytest.mark.soak(of="compression")
# With a class token, the file's last block computes that token alone, training all of them: their
# ranges may differ by any factor.
@pytest.mark.parametrize("model", [MEAN], ids=["gap"], indirect=True)
def test_fixed_ranges_are_those_of_training(train, images):
    wrapped, made = train("qat", "int8")
    content = compressed_file(made, images)
    measured = compressed_file(dataclasses.replace(made, ranges={}), images)
    graph, others = read_graph(content), []
    stored, usual = (
        [tensor["quantization"] for tensor in deploy.Runner(f).interpreter.get_tensor_details()]
        for f in (content, measured)
    )
    for operator in (each for each in graph.operators if each.name == "FULLY_CONNECTED"):
        tensors = operator.inputs[0], operator.outputs[0]
        for tensor, (low, high) in zip(tensors, made.ranges[graph.layer(operator)], strict=True):
            assert low < 0 < high
            scale = (high - low) / 255
            assert 0.8 < stored[tensor][0] / usual[tensor][0] < 1.25
            point = pytest.approx(-128 - low / scale, abs=0.51)
            if stored[tensor] != (pytest.approx(scale, rel=1e-5), point):
                others.append(graph.written(operator)[0].name)
    assert others == ["patch_encoder/projection/MatMul1"]  # its bias goes into the positions
    found, expected = deploy.Runner(content).predict(images), deploy.predict(wrapped, images)
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("method", ["qat", pytest.param("cluster", marks=pytest.mark.slow)])
def test_all_but_the_norms_learn(train, model, method):
    _, made = train(method, "dynamic")
    before = parameters_of(fold_norms(model))
    for path, after in parameters_of(made.model).items():
        if "norm" in path:
            np.testing.assert_array_equal(after, before[path])
        elif not path.endswith("key/bias"):  # softmax does not see it
            assert np.abs(after - before[path]).max() > 1e-4, path


@pytest.mark.parametrize(
    "fields",
    [
        {"pooling": "map", "representation_dim": 16, "position_embedding": "relative"},
        {"pooling": "distilled"},
        {"rotation": "dinov3", "key_bias": False, "query_bias": False},
        pytest.param({"stem": keras_vit.ResNetStem((1,)), "patch_size": 1}, marks=pytest.mark.slow),
    ],
    ids=["map", "distilled", "dinov3", "stem"],
)
def test_wrapping_and_unwrapping_changes_nothing(randomised, rng, fields):
    from keras_vit.deploy.compression import stages

    model = randomised(keras_vit.ViT(dataclasses.replace(SPEC, **fields), 5, 32))
    images, train = rng.uniform(-1, 1, (2, 32, 32, 3)).astype(np.float32), Mock()
    back, _ = stages.train_stage("prune", model, train, PRUNE, 1, keep_zeros=False)
    wrapped, _ = train.call_args.args
    expected = deploy.predict(model, images)
    np.testing.assert_allclose(deploy.predict(wrapped, images), expected, atol=1e-5)
    np.testing.assert_array_equal(deploy.predict(back, images), expected)


@pytest.mark.soak(of="compression")
def test_fine_tuning_is_reproducible_and_reports_its_progress():
    preprocessing, report = keras_vit.Preprocessing(16, 16), Mock()
    tune = FineTuning(digits(), np.arange(200), preprocessing, 12, 8, 1e-3, "shift", report=report)
    layers = keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(10)
    model = keras.Sequential(layers)
    start, found = model.get_weights(), []
    for _ in range(2):
        model.set_weights(start)
        tune(model, [])
        found.append(model.get_weights()[0])
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0] - start[0]).max() > 1e-3
    reports = [call.args for call in report.call_args_list]
    assert [step for step, _, _ in reports] == 2 * [2, 4, 6, 8, 10, 12]
    assert reports[:6] == reports[6:]


def test_fine_tuning_begins_with_the_loss_of_the_trained_model(model):
    source, indices = digits(), np.arange(40)
    inputs, targets = load(source, indices, model.preprocessing)
    logits = deploy.predict(model, inputs).astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    report = Mock()
    tune = FineTuning(source, indices, model.preprocessing, 1, 40, 0.0, jit=False, report=report)
    tune(model, [])
    ((_, loss, accuracy),) = [call.args for call in report.call_args_list]
    assert loss == pytest.approx(-logs[np.arange(40), targets].mean(), rel=1e-4)
    assert accuracy == pytest.approx((logits.argmax(-1) == targets).mean())


@pytest.mark.soak(of="compression")
def test_divergence_stops(model):
    preprocessing = keras_vit.Preprocessing(16, 16)
    tune = FineTuning(digits(), np.arange(50), preprocessing, 9, 8, 1e30, jit=False)
    with pytest.raises(RefusedError, match="diverged at step .*lower learning_rate"):
        tune(model, [])


NEVER = Mock(steps=1, side_effect=AssertionError("something was trained"))


@pytest.mark.soak(of="compression")
def test_compressions_that_diverge_or_lose_too_much_are_not_written(trained_run, tmp_path):
    def diverge_then_confuse(model, callbacks):
        if training.call_count == 1:
            raise RefusedError("the fine-tuning diverged.")
        for variable in model.trainable_variables[-2:]:  # the head's classes in another order
            variable.assign(np.roll(variable, 1, axis=-1))

    training = Mock(steps=1, side_effect=diverge_then_confuse)
    wanted, given = [PRUNE, Compression("cluster")], deploy.of_run(trained_run.path)
    limits = {"max_drop": 5.0, "images": 60}
    record = compression.compress_bundles(given, wanted, training, tmp_path, **limits)
    assert list(record["refused"]) == ["prune-float32", "cluster-float32"]
    assert record["refused"]["prune-float32"] == "the fine-tuning diverged."
    assert "may lose 5 points of accuracy. Received: " in record["refused"]["cluster-float32"]
    assert [row["name"] for row in record["rows"]] == ["none-float32"]
    assert [path.name for path in tmp_path.iterdir()] == ["table.json"]
    assert json.loads((tmp_path / "table.json").read_text()) == record


def test_folders_that_cannot_be_written_are_refused_before_training(trained_run, tmp_path):
    given = deploy.of_run(trained_run.path)
    foreign = tmp_path / "foreign" / "prune-float32" / "letters"
    foreign.mkdir(parents=True)
    (tmp_path / "file").touch()
    for folder, wanted, message in (
        ("locked", [PRUNE], "another process is writing .*locked; choose another"),
        ("foreign", [PRUNE], "holds no export; choose another folder"),
        ("file", [PRUNE], "is a file; choose another folder"),
        ("new", [PRUNE, Compression("prune", sparsity=0.7)], "needs a different name"),
    ):
        with _files.locked(tmp_path / "locked"), pytest.raises(UsageError, match=message):
            compression.compress_bundles(given, wanted, NEVER, tmp_path / folder)
    assert foreign.is_dir()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("unknown", ["scores of tokens", "classes"])
def test_without_accuracy_nothing_is_trained(trained_run, tmp_path, randomised, unknown):
    given = deploy.of_run(trained_run.path)
    if unknown == "classes":
        given = dataclasses.replace(given, labelled=False)
    else:
        spec = dataclasses.replace(given.load().spec, pooling="none")
        tokens = randomised(keras_vit.ViT(spec, 10, 16))
        given = dataclasses.replace(given, load=lambda: tokens)
    with pytest.raises(UsageError, match="compression is judged by its loss of accuracy"):
        compression.compress_bundles(given, [PRUNE], NEVER, tmp_path, images=20)
