"""Distillation against its formulas in NumPy, and a student that learns from a teacher."""

import dataclasses

import numpy as np
import pytest
from scipy.special import softmax

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import keras
from keras_vit.specs import Preprocessing
from keras_vit.training import Recipe
from keras_vit.training.distillation import Distillation
from keras_vit.training.learner import Learner
from keras_vit.training.tasks import SingleLabel
from keras_vit.weights.hashing import weights_sha256

pytestmark = pytest.mark.flavours

CLASSES = 3
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=24, depth=1, num_heads=3, mlp_dim=32)
TWO_TOKENS = dataclasses.replace(SPEC, pooling="distilled")


def teacher_of(randomised, size=16):
    # PyTorch's constants, unlike the student's.
    preprocessing = Preprocessing(
        size, size, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375)
    )
    model = keras_vit.ViT(SPEC, CLASSES, size, preprocessing=preprocessing, dtype="float32")
    return randomised(model)


@pytest.mark.parametrize("classifiers", [1, 2])
@pytest.mark.parametrize(
    ("kind", "weight", "temperature"), [("soft", None, 3.0), ("soft", 0.7, 1.5), ("hard", None, 3)]
)
def test_the_loss_is_that_of_the_paper(rng, randomised, kind, weight, temperature, classifiers):
    student, other, teacher = rng.normal(0, 3, (3, 5, CLASSES))
    distilled = other if classifiers == 2 else student
    targets = np.eye(CLASSES)[rng.integers(0, CLASSES, 5)]
    task = Distillation(SingleLabel(CLASSES), teacher_of(randomised), kind, weight, temperature)
    weight = {"soft": 0.1, "hard": 0.5}[kind] if weight is None else weight
    labels = -(targets * np.log(softmax(student, -1))).sum(-1)
    if kind == "hard":
        taught = -np.log(softmax(distilled, -1)[np.arange(5), teacher.argmax(-1)])
    else:
        p, q = softmax(teacher / temperature, -1), softmax(distilled / temperature, -1)
        taught = temperature**2 * (p * np.log(p / q)).sum(-1)
    expected = ((1 - weight) * labels + weight * taught).mean()
    students = [student, distilled][:classifiers]
    stacked = np.stack([*students, teacher], axis=1).astype(np.float32)
    actual = float(task.loss()(targets.astype(np.float32), stacked))
    assert actual == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("spec", [SPEC, TWO_TOKENS], ids=["one token", "two tokens"])
def test_each_token_has_logits_of_its_own_and_accuracy_is_that_of_the_mean(rng, randomised, spec):
    teacher, student = teacher_of(randomised), randomised(keras_vit.ViT(spec, CLASSES, 16))
    head = student.get_layer("head")
    head.bias.assign([4.0, 0.0, 0.0])
    two_tokens = spec is TWO_TOKENS
    if two_tokens:
        head.distillation_bias.assign([0.0, 0.0, 8.0])  # stronger, so the mean is of its opinion
    images = rng.integers(0, 256, (8, 16, 16, 3), np.uint8)
    inputs = keras_vit.preprocess(images, student)
    task = Distillation(SingleLabel(CLASSES), teacher)
    learner = Learner(student, task)
    learner.compile(loss=task.loss(), metrics=task.metrics(), run_eagerly=True)
    *own, of_teacher = np.moveaxis(learner.predict(images, verbose=0), 1, 0)
    features = keras.Model(student.input, student.features)(inputs)
    expected = head(features, both=True) if two_tokens else head(features)[:, None]
    np.testing.assert_allclose(np.stack(own, 1), expected, atol=1e-5)
    taught = np.asarray(teacher(keras_vit.preprocess(images, teacher)))
    np.testing.assert_allclose(of_teacher, taught, atol=1e-5)
    mean, alone = np.asarray(student(inputs)).argmax(-1), own[0].argmax(-1)
    assert (mean != alone).all() == two_tokens
    targets = np.where(np.arange(8) < 5, mean, (mean + 1) % CLASSES)
    found = learner.evaluate(images, np.eye(CLASSES)[targets], verbose=0, return_dict=True)
    assert found["accuracy"] == pytest.approx(5 / 8)
    assert found["agreement"] == pytest.approx((mean == taught.argmax(-1)).mean())


@pytest.mark.parametrize(("weight", "still"), [(0.0, "distillation_kernel"), (1.0, "kernel")])
def test_each_classifier_learns_its_own_part_only(rng, randomised, weight, still):
    student, teacher = keras_vit.ViT(TWO_TOKENS, CLASSES, 16), teacher_of(randomised)
    before = weights_sha256(teacher)
    task = Distillation(SingleLabel(CLASSES), teacher, weight=weight)
    learner = Learner(student, task)
    learner.compile(keras.optimizers.SGD(0.5), loss=task.loss(), run_eagerly=True)
    images = rng.integers(0, 256, (4, 16, 16, 3), np.uint8)
    learner.fit(images, np.eye(CLASSES, dtype=np.float32)[[0, 1, 2, 0]], verbose=0)
    assert weights_sha256(teacher) == before
    head = student.get_layer("head")
    moved = {n for n in ("kernel", "distillation_kernel") if np.any(np.asarray(getattr(head, n)))}
    assert moved == {"kernel", "distillation_kernel"} - {still}


RECIPE = Recipe(
    image_size=16, duration="40 steps", batch_size=8, augment="none", jit=False,
    distillation="hard", learning_rate=3e-3,
)  # fmt: skip


@pytest.mark.slow
def test_a_student_comes_to_agree_with_a_teacher_of_another_size(source, train_tiny):
    # A teacher that has the classes the wrong way round: only it can have taught that.
    keras.utils.set_random_seed(1)
    teacher = keras_vit.ViT(SPEC, 2, 24, labels=source.labels)
    colours = np.zeros((8, 24, 24, 3), np.uint8)
    colours[:4, ..., 2], colours[4:, ..., 0] = 200, 200  # blue, red
    wrong = np.array([1] * 4 + [0] * 4)
    teacher.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(True))
    teacher.fit(keras_vit.preprocess(colours, teacher), wrong, epochs=20, verbose=0)
    changes = {"distillation_weight": 0.9, "checkpoint_every": "40 steps", "teacher": teacher}
    run = train_tiny(RECIPE, **changes)
    last = run.metrics()[-1]
    assert (last["val_agreement"], last["val_accuracy"]) == (1.0, 0.0)
    assert run.recipe["teacher"] == {"name": teacher.name, "sha256": weights_sha256(teacher)}

    with np.load(run.path / "checkpoints" / "step-000000040.npz") as state:
        shapes = [state[name].shape for name in state.files]
    assert not [shape for shape in shapes if SPEC.hidden_dim in shape]  # the teacher's width
    other = keras_vit.ViT(SPEC, 2, 24, labels=source.labels, name="other")
    with pytest.raises(UsageError, match="its own teacher, vit. Received: other, whose weights"):
        train_tiny(RECIPE, **changes | {"teacher": other}, resume=True)


def test_a_teacher_and_its_setting_need_each_other(train_tiny, randomised):
    teacher = teacher_of(randomised)
    needs = "a teacher needs distillation='soft' or distillation='hard'"
    with pytest.raises(UsageError, match=needs):
        train_tiny(RECIPE, distillation="none", teacher=teacher)
    with pytest.raises(UsageError, match="distillation='soft' needs a teacher"):
        train_tiny(RECIPE, distillation="soft")
    with pytest.raises(UsageError, match="teacher must have 2 classes"):
        train_tiny(RECIPE, teacher=teacher)
