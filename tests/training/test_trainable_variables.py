"""Freezing, LoRA, rematerialisation, mixed precision and every optimiser, on a tiny model."""

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import LEGACY, keras
from keras_vit.training import Recipe
from keras_vit.training.callbacks import averages, sync
from keras_vit.training.learner import Learner
from keras_vit.training.optimisers import optimizer
from keras_vit.training.prepared import check_model
from keras_vit.training.tasks import SingleLabel
from keras_vit.training.trainable_variables import adapt, restoring_trainable

CLASSES, STEPS = 3, 12
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=24, depth=2, num_heads=3, mlp_dim=32)
RECIPE = Recipe(learning_rate=0.01, schedule="constant", batch_size=8, jit=False)
SHORT = dataclasses.replace(RECIPE, image_size=16, duration="6 steps", warmup="1 step")
KERAS_3 = pytest.mark.skipif(LEGACY, reason="this setting needs Keras 3")


def learner_of(recipe, **fields):
    keras.utils.set_random_seed(0)
    spec = dataclasses.replace(SPEC, **fields)
    model = keras_vit.ViT(spec, CLASSES, 16, dtype=recipe.precision)
    # The head's zeros would keep gradients from the body in the first step.
    model.get_layer("head").kernel.assign(np.random.default_rng(0).normal(0, 0.1, (24, CLASSES)))
    adapt(model, recipe)
    task = SingleLabel(CLASSES)
    learner = Learner(model, task, recipe.accumulate or 1)
    learner.compile(
        optimizer=optimizer(recipe, model, 100, 0),
        loss=task.loss(),
        jit_compile=recipe.jit,
        steps_per_execution=recipe.steps_per_execution,
    )
    return model, learner


def losses(learner, every=1, callbacks=()):
    """The loss of each step on the same 8 images, or of each execution of `every` steps."""
    import tensorflow as tf

    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (8, 16, 16, 3), np.uint8)
    targets = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, 8)]
    data = tf.data.Dataset.from_tensors((images, targets)).repeat()
    history = learner.fit(
        data, epochs=STEPS // every, steps_per_epoch=every, verbose=0, callbacks=list(callbacks)
    )
    return history.history["loss"]


def values(model):
    return {f"{layer.name}/{i}": np.array(v) for layer in model.layers
            for i, v in enumerate(layer.weights)}  # fmt: skip


def changed(model, before):
    return {name.split("/")[0] for name, v in values(model).items() if (v != before[name]).any()}


@pytest.mark.flavours
def test_a_frozen_body_leaves_the_head_to_learn():
    model, learner = learner_of(dataclasses.replace(RECIPE, freeze="body"))
    before = values(model)
    found = losses(learner)
    assert changed(model, before) == {"head"}
    assert found[-1] < 0.9 * found[0]


@pytest.mark.slow
def test_a_frozen_body_learns_in_the_next_training(train_tiny, small_spec):
    model = keras_vit.ViT(small_spec, 2, 16)
    for freeze, learns in (("body", False), ("none", True)):
        before = values(model)
        train_tiny(SHORT, freeze, model, freeze=freeze)
        assert "head" in changed(model, before)
        assert ("patch_encoder" in changed(model, before)) == learns


@pytest.mark.flavours
@pytest.mark.parametrize("frozen", ["model", "a part of a block"])
def test_what_was_frozen_before_a_training_is_frozen_after_it(small_spec, frozen):
    def trainable():
        layers = [layer.trainable for layer in model._flatten_layers()]
        return layers, [v.name for v in model.trainable_variables]

    model = keras_vit.ViT(small_spec, 2, 16)
    (model if frozen == "model" else model.get_layer("encoderblock_1").attention).trainable = False
    before = trainable()
    with restoring_trainable(model, None):
        adapt(model, dataclasses.replace(RECIPE, freeze="body"))
        assert trainable() != before
        model.trainable = not model.trainable  # as of a teacher
    assert trainable() == before


@pytest.mark.flavours
@KERAS_3
def test_a_model_with_lora_is_not_trained_again():
    model, _ = learner_of(dataclasses.replace(RECIPE, lora=2))
    for lora in (0, 2):
        with pytest.raises(UsageError, match="has LoRA's factors from an earlier run"):
            adapt(model, dataclasses.replace(RECIPE, lora=lora))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dropout": 0.5}, "for dropout=0.5. Received: a model with dropout=0.0"),
        ({"drop_path": 0.3}, "for drop_path=0.3. Received: a model with drop_path=0.0"),
        ({"position_embedding": "sincos2d"}, "for position_embedding='sincos2d'"),
        ({"representation": True}, "for representation_dim=.*Received: .*=None"),
        ({"distillation_token": True}, "for pooling='distilled'"),
        ({"head_bias": -10.0}, "for head_bias=-10.0. Received: a model with head_bias=0.0"),
        ({"interpolation": "mediapipe"}, "for interpolation='mediapipe'.*='bilinear'"),
        ({"crop": 0.9}, "for crop=0.9. Received: a model with crop=None"),
        ({"precision": "mixed_bfloat16"}, "dtype='bfloat16'. Received: .*dtype='float32'"),
    ],
)
def test_a_model_that_contradicts_the_recipe_is_refused(source, small_spec, setting, message):
    model = keras_vit.ViT(small_spec, len(source.labels), 16)
    check_model(model, source, SHORT)
    with pytest.raises(UsageError, match=message):
        check_model(model, source, dataclasses.replace(SHORT, **setting))


@pytest.mark.flavours
@pytest.mark.slow
@KERAS_3
def test_lora_trains_factors_and_its_merged_weights_are_those_of_a_plain_model(tmp_path):
    model, learner = learner_of(dataclasses.replace(RECIPE, lora=2))
    names = {v.name for v in learner.trainable_variables}
    assert names == {"lora_kernel_a", "lora_kernel_b", "kernel", "bias"}  # the last two: the head
    assert len(learner.trainable_variables) == 2 * 6 * SPEC.depth + 2
    kernel = np.array(model.get_layer("encoderblock_0").mlp.dense_0._kernel)
    found = losses(learner)
    assert found[-1] < 0.5 * found[0]
    keras_vit.save_weights(model, tmp_path / "merged.npz")
    plain = keras_vit.ViT(SPEC, CLASSES, 16)
    keras_vit.load_weights(plain, tmp_path / "merged.npz")
    dense = model.get_layer("encoderblock_0").mlp.dense_0
    np.testing.assert_array_equal(np.array(dense._kernel), kernel)
    merged = np.array(plain.get_layer("encoderblock_0").mlp.dense_0.kernel)
    assert np.abs(merged - kernel).max() > 0.01
    images = np.random.default_rng(2).normal(size=(4, 16, 16, 3)).astype(np.float32)
    expected = model.predict(images, verbose=0)
    np.testing.assert_allclose(plain.predict(images, verbose=0), expected, atol=1e-5)


@pytest.mark.flavours
@pytest.mark.slow
@KERAS_3
@pytest.mark.parametrize("accumulate", [1, pytest.param(2, marks=pytest.mark.soak(of="trainings"))])
def test_remat_draws_the_same_random_numbers_in_both_passes(accumulate):
    fields = {"dropout": 0.3, "attention_dropout": 0.2, "drop_path": 0.3}
    found = []
    for remat in (False, True):
        recipe = dataclasses.replace(RECIPE, remat=remat, accumulate=accumulate)
        model, learner = learner_of(recipe, **fields)
        found.append((losses(learner), values(model)))
    (expected, weights), (actual, others) = found
    assert actual == pytest.approx(expected, abs=1e-5)
    for name, value in weights.items():
        np.testing.assert_allclose(others[name], value, atol=1e-4, err_msg=name)


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize(("precision", "accumulate"), [("mixed_float16", 2), ("mixed_bfloat16", 1)])
def test_mixed_precision_follows_float32(precision, accumulate):
    def append(epoch, logs):
        sync(learner)
        history.append([np.array(v) for v in learner.trainable_variables])

    found, skipped = {}, 0
    for each in ("float32", precision):
        recipe = dataclasses.replace(RECIPE, precision=each, accumulate=accumulate, ema=0.9)
        model, learner = learner_of(recipe)
        # The average of Keras 3 begins with the weights after the first step, tf_keras' before it.
        history = [[np.array(v) for v in learner.trainable_variables]] if LEGACY else []
        appending = keras.callbacks.LambdaCallback(on_epoch_end=append)
        found[each] = losses(learner, callbacks=[appending])
        assert all(v.dtype in ("float32", np.float32) for v in model.trainable_variables)
        if each == "mixed_float16" and found[each][0] == found[each][1]:
            # The first loss scale, 2^15, was too large, and the step was skipped.
            skipped, history = 1, history[1:]
        expected = history[0]
        for weights in history[1:]:
            expected = [0.9 * a + 0.1 * b for a, b in zip(expected, weights, strict=True)]
        for average, value in zip(averages(learner.optimizer), expected, strict=True):
            np.testing.assert_allclose(np.array(average), value, atol=1e-5)
    expected, actual = found["float32"][: STEPS - skipped], found[precision][skipped:]
    assert actual == pytest.approx(expected, abs=0.05)
    assert found[precision][-1] < 0.5 * found[precision][0]


@pytest.mark.flavours
def test_loss_scaling_skips_a_step_whose_gradients_overflow():
    recipe = dataclasses.replace(RECIPE, precision="mixed_float16")
    model, learner = learner_of(recipe)
    before, variables = values(model), learner.trainable_variables
    infinite = [np.full(v.shape, np.inf, np.float32) for v in variables]
    learner.optimizer.build(variables)
    learner.optimizer.apply_gradients(zip(infinite, variables, strict=True))
    assert not changed(model, before)


@pytest.mark.flavours
@pytest.mark.slow
@pytest.mark.parametrize(  # test_optimisers.py has the others
    ("name", "rate"),
    [
        pytest.param("lamb", 0.01, marks=KERAS_3),
        ("lion", 1e-3),
        pytest.param("muon", 0.01, marks=KERAS_3),
    ],
)
def test_every_optimiser_learns(name, rate):
    found = losses(learner_of(dataclasses.replace(RECIPE, optimizer=name, learning_rate=rate))[1])
    assert found[-1] < 0.5 * found[0]


@pytest.mark.flavours
@KERAS_3
def test_muon_is_for_hidden_matrices_only():
    model, learner = learner_of(dataclasses.replace(RECIPE, optimizer="muon"))
    muon = learner.optimizer
    muon.build(model.trainable_variables)
    by_adam = {v.path for v in model.trainable_variables if muon._should_use_adamw(v)}
    hidden = {v.path for v in model.trainable_variables} - by_adam
    assert len(hidden) == 6 * SPEC.depth
    assert all("encoderblock_" in path and path.endswith("kernel") for path in hidden)


@pytest.mark.flavours
@pytest.mark.slow
def test_several_steps_in_one_execution_are_the_same_steps():
    # Not Adam, which makes steps of the noise in gradients that are zero, as of the key's bias.
    recipe = dataclasses.replace(RECIPE, optimizer="sgd", learning_rate=0.1)
    _, one = learner_of(recipe)
    _, four = learner_of(dataclasses.replace(recipe, steps_per_execution=4))
    losses(one)
    losses(four, every=4)
    assert int(np.array(four.optimizer.iterations)) == STEPS
    for a, b in zip(one.get_weights(), four.get_weights(), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5)


@pytest.mark.slow
def test_a_run_is_lengthened_to_whole_executions(train_tiny):
    run = train_tiny(SHORT, duration="13 steps", steps_per_execution=4)
    assert [line["step"] for line in run.metrics()] == [12, 16]
