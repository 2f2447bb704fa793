"""Durations, schedules and optimisers, whose steps equal those of an independent loop."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.training import Recipe
from keras_vit.training.callbacks import averages
from keras_vit.training.learner import Learner
from keras_vit.training.optimisers import Schedule, optimizer
from keras_vit.training.plan import to_steps
from keras_vit.training.tasks import MultiLabel, SingleLabel


@pytest.mark.parametrize(
    ("duration", "steps"),
    [
        ("3 epochs", 30),
        ("1 epoch", 10),
        ("0.5 epochs", 5),
        ("7 steps", 7),
        ("1 step", 1),
        ("1e3 examples", 16),
        ("10%", 20),
        ("2.5 %", 5),
        (" 0 steps ", 0),
        ("3 epochs, at least 7 steps", 30),
        ("7 steps, at least 3 epochs", 30),
    ],
)
def test_durations_become_steps(duration, steps):
    # 10 whole batches of 64 in 680 examples
    assert to_steps(duration, batch_size=64, num_examples=680, total_steps=200) == steps


@pytest.mark.parametrize(
    "duration", ["", "3", "epochs", "-1 epochs", "inf steps", "3 weeks", "1 step, at least 2", "5%"]
)
def test_durations_that_cannot_be_read(duration):  # a percentage needs a total
    expected = "warmup must be a number and a unit, such as '5 epochs', '5 steps', '5 examples'"
    with pytest.raises(UsageError, match=expected):
        to_steps(duration, batch_size=64, num_examples=680, field="warmup")


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("schedule", "warmup", "rates"),
    [
        (("cosine", 0.4, 0.0), 10, {0: 0, 5: 0.2, 10: 0.4, 60: 0.2, 110: 0, 200: 0}),
        (("cosine", 0.4, 0.0), 0, {0: 0.4}),
        (("linear", 0.4, 0.1), 10, {0: 0, 5: 0.2, 10: 0.4, 60: 0.25, 110: 0.1}),
        (("constant", 0.4, 0.0), 4, {2: 0.2, 4: 0.4, 110: 0.4}),
    ],
)
def test_the_rate_rises_linearly_and_then_falls_as_the_schedule_says(schedule, warmup, rates):
    rate = Schedule(*schedule, warmup_steps=warmup, total_steps=110)
    assert [float(rate(step)) for step in rates] == pytest.approx([*rates.values()], abs=1e-6)


PLAIN = {"optimizer": "sgd", "momentum": 0.0, "learning_rate": 1.0, "schedule": "constant"}


def moved(recipe, model, gradient):
    """What a step with this value as the gradient of every weight adds to each variable."""
    variables = model.trainable_variables
    before = [np.array(variable) for variable in variables]
    gradients = [tf.fill(v.shape, np.float32(gradient)) for v in variables]
    step = optimizer(recipe, model, total_steps=10**6, warmup_steps=0)
    step.apply_gradients(zip(gradients, variables, strict=True))
    return [(v, np.array(v) - old) for v, old in zip(variables, before, strict=True)]


def blocks_behind(variable):
    """How many blocks of two, and the head, come after what a variable is in."""
    path = getattr(variable, "path", variable.name)
    places = {"encoderblock_0": 2, "encoderblock_1": 1, "encoder_norm": 0, "head": 0}
    return next((place for layer, place in places.items() if layer in path), 3)


@pytest.mark.flavours
@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
@pytest.mark.parametrize("name", ["adamw", "lion", "lamb", "muon"])
def test_weight_decay_acts_on_kernels_only(small_spec, name, layer_decay):
    if LEGACY and (name in ("lamb", "muon") or layer_decay < 1):
        pytest.skip("tf_keras does not have it")
    model = keras_vit.ViT(small_spec, 5, 16)
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape, np.float32))
    assert sum("kernel" in v.name for v in model.trainable_variables) == 2 + 2 * 6
    recipe = Recipe(optimizer=name, weight_decay=0.5, learning_rate=0.1, layer_decay=layer_decay)
    classes = type(optimizer(recipe, model, total_steps=10, warmup_steps=0)).__mro__
    assert layer_decay < 1 or name in [each.__name__.lower() for each in classes]
    for variable, change in moved(recipe, model, 0.0):
        rate = 0.1 * layer_decay ** blocks_behind(variable)
        decay = 0.5 if "kernel" in variable.name else 0.0
        np.testing.assert_allclose(change, -decay * rate, atol=1e-6, err_msg=variable.name)


@pytest.mark.flavours
@pytest.mark.skipif(LEGACY, reason="layer-wise rates need Keras 3")
def test_earlier_blocks_learn_more_slowly(small_spec):
    recipe = Recipe(**PLAIN, layer_decay=0.5, clip_norm=0.0)
    for variable, change in moved(recipe, keras_vit.ViT(small_spec, 5, 16), 1.0):
        expected = -(0.5 ** blocks_behind(variable))
        np.testing.assert_allclose(change, expected, rtol=1e-5, err_msg=variable.name)


@pytest.mark.flavours
def test_the_gradient_is_clipped_by_its_global_norm(small_spec):
    recipe = Recipe(**PLAIN, clip_norm=1.0)
    changes = [change for _, change in moved(recipe, keras_vit.ViT(small_spec, 5, 16), 3.0)]
    assert np.sqrt(sum((m**2).sum() for m in changes)) == pytest.approx(1, rel=1e-3)


CLASSES, BATCH, STEPS, WARMUP, WIDTH = 3, 8, 10, 3, 8
RECIPE = Recipe(
    image_size=8, batch_size=BATCH, learning_rate=0.002, end_learning_rate=4e-4, clip_norm=0.5,
    weight_decay=0.1, ema=0.9, jit=False,
)  # fmt: skip
SGD = {"optimizer": "sgd", "weight_decay": None, "learning_rate": 0.1}
SPEC = keras_vit.ViTSpec(patch_size=4, hidden_dim=WIDTH, depth=1, num_heads=2, mlp_dim=12)


def learner_of(recipe):
    keras.utils.set_random_seed(0)
    model = keras_vit.ViT(SPEC, CLASSES, 8)
    # Zeros in the head would keep gradients from the body in the first step. Small tokens would be
    # divided by their size in layer normalisation, and their rounding errors with them.
    rng = np.random.default_rng(0)
    encoder = model.get_layer("patch_encoder")
    for weight in (model.get_layer("head").kernel, encoder.class_token, encoder.positions):
        weight.assign(rng.normal(size=weight.shape))
    task = SingleLabel(CLASSES)
    learner = Learner(model, task, recipe.accumulate or 1)
    step = optimizer(recipe, model, STEPS, WARMUP)
    learner.compile(step, task.loss(), metrics=task.metrics(), jit_compile=recipe.jit)
    return model, learner


def batches(count=STEPS, size=BATCH):
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (count, size, 8, 8, 3), np.uint8)
    classes = rng.integers(0, CLASSES, (count, size))
    return images, np.eye(CLASSES, dtype=np.float32)[classes]


def fit(learner, images, targets):
    """Trains a step a batch; returns the losses."""
    data = tf.data.Dataset.from_tensor_slices((images, targets))
    history = learner.fit(data, epochs=len(images), steps_per_epoch=1, verbose=0, shuffle=False)
    return history.history["loss"]


def rate(recipe, step):
    done = max(0.0, (step - WARMUP) / (STEPS - WARMUP))
    left = (1 + np.cos(np.pi * done)) / 2
    peak, end = recipe.learning_rate, recipe.end_learning_rate
    return min(1.0, step / WARMUP) * (end + (peak - end) * left)


def trained(recipe, weights, batches):
    """The losses, the weights and their average after training in NumPy and float64."""
    names = list(weights)
    average = {name: np.zeros_like(weights[name]) for name in names}
    first, second, losses, norms = dict(average), dict(average), [], []
    for step, (x, t) in enumerate(batches):
        loss, gradients = vit_gradients(weights, x, t)
        losses.append(loss)
        norms.append(np.sqrt(sum((g**2).sum() for g in gradients.values())))
        lr = rate(recipe, step)
        for name in names:
            g = gradients[name] * min(1.0, recipe.clip_norm / norms[-1])
            if recipe.optimizer == "sgd":
                first[name] = recipe.momentum * first[name] - lr * g
                weights[name] = weights[name] + first[name]
            else:
                decay = recipe.weight_decay if "kernel" in name else 0.0
                weights[name] = weights[name] * (1 - lr * decay)
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g**2
                corrected = lr * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
                weights[name] -= corrected * first[name] / (np.sqrt(second[name]) + 1e-7)
        # Keras' average begins with the weights after the first step.
        keep = recipe.ema if step else 0.0
        average = {n: keep * average[n] + (1 - keep) * weights[n] for n in names}
    assert max(norms) > recipe.clip_norm  # clipping is active
    return losses, weights, average


def logits(w, images):
    """The ViT of the paper, equations 1 to 4, from weights with the names of the official code."""
    import jax
    import jax.numpy as jnp

    def norm(x, name):
        return jax.nn.standardize(x, epsilon=1e-6) * w[f"{name}/scale"] + w[f"{name}/bias"]

    def dense(x, name, axes=1):
        return jnp.tensordot(x, w[f"{name}/kernel"], axes) + w[f"{name}/bias"]

    rows = images.reshape(-1, 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 48)
    patches = rows @ w["embedding/kernel"].reshape(48, -1) + w["embedding/bias"]
    token = jnp.broadcast_to(w["cls"], (len(images), 1, WIDTH))
    x = jnp.concatenate([token, patches], 1) + w["Transformer/posembed_input/pos_embedding"]
    block = "Transformer/encoderblock_0"
    attention = f"{block}/MultiHeadDotProductAttention_1"
    y = norm(x, f"{block}/LayerNorm_0")
    query, key, value = (dense(y, f"{attention}/{name}") for name in ("query", "key", "value"))
    scores = jnp.einsum("bnhe,bmhe->bhnm", query, key) / np.sqrt(query.shape[-1])
    attended = jnp.einsum("bhnm,bmhe->bnhe", jax.nn.softmax(scores), value)
    x = x + dense(attended, f"{attention}/out", axes=2)
    y = dense(norm(x, f"{block}/LayerNorm_2"), f"{block}/MlpBlock_3/Dense_0")
    x = x + dense(jax.nn.gelu(y), f"{block}/MlpBlock_3/Dense_1")
    return dense(norm(x, "Transformer/encoder_norm")[:, 0], "head")


def vit_gradients(weights, images, targets):
    import jax

    def loss(w):
        return -(jax.nn.log_softmax(logits(w, images)) * targets).sum(-1).mean()

    with jax.enable_x64(True):
        value, gradients = jax.value_and_grad(loss)(weights)
        return float(value), {name: np.asarray(gradients[name]) for name in weights}


def saved(model, path):
    keras_vit.save_weights(model, path)
    with np.load(path) as file:
        return {name: file[name].astype(np.float64) for name in file.files}


def assert_near(actual, expected, optimizer="adamw"):
    for name in expected:
        # The keys' bias adds the same to all scores of a query. Its gradient is rounding error,
        # which Adam divides by its size.
        if optimizer == "sgd" or not name.endswith("key/bias"):
            np.testing.assert_allclose(actual[name], expected[name], atol=1e-5, err_msg=name)


@pytest.mark.flavours
@pytest.mark.parametrize(
    "change", [{}, pytest.param(SGD, marks=pytest.mark.slow)], ids=["adamw", "sgd"]
)
def test_ten_steps_equal_an_independent_loop(change, tmp_path):
    pytest.importorskip("jax", reason="it differentiates the independent model")
    recipe = dataclasses.replace(RECIPE, **change)
    model, learner = learner_of(recipe)
    images, targets = batches()
    pixels = (images.astype(np.float64) - 127.5) / 127.5
    start, data = saved(model, tmp_path / "0.npz"), zip(pixels, targets, strict=True)
    losses, weights, average = trained(recipe, start, data)
    assert fit(learner, images, targets) == pytest.approx(losses, abs=1e-5)
    found = saved(model, tmp_path / "1.npz")
    for variable, mean in zip(model.trainable_variables, averages(learner.optimizer), strict=True):
        variable.assign(np.array(mean))
    assert_near(found, weights, recipe.optimizer)
    assert_near(saved(model, tmp_path / "2.npz"), average, recipe.optimizer)
    assert np.abs(weights["head/kernel"] - average["head/kernel"]).max() > 1e-3


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "jit"), [(4, False), pytest.param(2, True, marks=pytest.mark.soak(of="trainings"))]
)
def test_accumulated_parts_equal_the_whole_batch(parts, jit, tmp_path):
    images, targets = batches(size=64)
    found = []
    for accumulate in (1, parts):
        recipe = dataclasses.replace(RECIPE, accumulate=accumulate, jit=jit, ema=0.0)
        model, learner = learner_of(recipe)
        found.append((fit(learner, images, targets), saved(model, tmp_path / "weights.npz")))
    (losses, weights), (other_losses, other_weights) = found
    assert other_losses == pytest.approx(losses, abs=1e-5)
    assert_near(other_weights, weights)


def test_a_sigmoid_task_sums_the_losses_of_the_classes():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 30, (5, CLASSES)).astype(np.float32)
    targets = rng.integers(0, 2, (5, CLASSES)).astype(np.float32)
    signed = np.where(targets, logits, -logits).astype(np.float64)
    expected = -np.log(1 / (1 + np.exp(-signed))).sum(-1).mean()
    assert float(MultiLabel(CLASSES).loss()(targets, logits)) == pytest.approx(expected, rel=1e-5)
