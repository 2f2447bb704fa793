"""ViTs, hybrids and BiT as Keras models: outputs, arguments, learning, policies, threads."""

import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetSpec, ResNetStem, UsageError, ViTSpec
from keras_vit._keras import LEGACY, keras
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.models import image_model
from keras_vit.models.dtypes import dtype_policy
from keras_vit.models.pretrained import model_class

VIT = ViTSpec(8, 48, 2, 3, 112)
HYBRID = ViTSpec(1, 48, 1, 3, 96, stem=ResNetStem((1, 1)))
BIT = ResNetSpec((1, 1, 1, 1))
KINDS = {"vit": VIT, "hybrid": HYBRID, "bit": BIT}
WITH_POOLINGS = {
    name: replace(VIT, pooling=name, representation_dim=None if name == "distilled" else 20)
    for name in POOLINGS
}


def build(spec, num_classes=3, image_size=(16, 24), **options):
    return model_class(spec)(spec, num_classes, image_size, **options)


@pytest.fixture
def images(rng):
    return rng.normal(size=(2, 16, 24, 3)).astype(np.float32)


def cases(specs):
    return [pytest.param(spec, id=name) for name, spec in specs.items()]


REFERENCES = {
    "vit_token": ViTSpec(16, 48, 2, 3, 112),
    "vit_token_unpooled": ViTSpec(16, 48, 2, 3, 112, pooling="none"),
    "vit_token_prelogits": ViTSpec(8, 64, 2, 4, 128, representation_dim=40),
    "hybrid_stem": ViTSpec(4, 48, 2, 3, 96, stem=ResNetStem()),
    "hybrid_stages": ViTSpec(2, 48, 2, 3, 96, stem=ResNetStem((2, 1))),
    "bit": ResNetSpec((2, 1, 1, 1)),
}
# Where an array of the fixtures has another name than the intermediate output.
OUTPUTS = {"embedded": "patch_embeddings", "gn_root_out": "gn_root"}


@pytest.mark.flavours
@pytest.mark.parametrize("fixture", REFERENCES)
def test_every_output_equals_the_reference(fixture, fixtures, seeded_weights):
    spec, expected = REFERENCES[fixture], np.load(fixtures / f"{fixture}.io.npz")
    size, classes = expected["images"].shape[1:3], expected["logits"].shape[-1]
    model = build(spec, classes, size)
    weights = fixtures / f"{fixture.removesuffix('_unpooled')}.weights.npz"
    if not weights.exists():
        weights = seeded_weights(spec, classes, size)
    keras_vit.load_weights(model, weights)
    names = {key: OUTPUTS.get(key, key) for key in expected.files if key != "images"}
    outputs = model.intermediates(*names.values())(expected["images"])
    for key, name in names.items():
        actual = np.asarray(outputs[name])
        tolerance = 2e-5 if key in ("logits", "embedded") else 5e-5
        if key == "embedded":
            actual = actual.reshape(expected[key].shape)
        elif key.startswith(("gn_root", "conv_root", "block")):
            step = 3 if fixture == "bit" and key != "conv_root" else 4
            actual = actual[:, ::step, ::step]  # the rows and columns in the file
            if fixture == "bit":  # its residual stream is not normalised, and its values reach 80
                tolerance = 5e-6 * np.abs(expected[key]).max()
        np.testing.assert_allclose(actual, expected[key], atol=tolerance, rtol=0, err_msg=key)


def shapes_of_outputs(model):
    outputs = model.intermediates(*model.intermediate_names)
    found = outputs(np.zeros((2, *model.image_size, 3), np.float32))
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    assert shapes == {name: (2, *tensor.shape[1:]) for name, tensor in outputs.output.items()}
    return shapes


@pytest.mark.flavours
@pytest.mark.parametrize("spec", cases(WITH_POOLINGS | {"hybrid": HYBRID}))
def test_shapes_of_every_named_intermediate_output_of_a_vit(spec):
    model = build(spec)
    assert model.grid == (2, 3)
    tokens = 6 + spec.prefix_tokens
    head = (2, tokens) if spec.pooling == "none" else (2,)
    expected = {
        "patch_embeddings": (2, 6, 48),
        "embedded": (2, tokens, 48),
        "encoded": (2, tokens, 48),
        "feature_map": (2, 2, 3, 48),
        "pre_logits": (*head, spec.representation_dim or 48 * POOLINGS[spec.pooling].width),
        "logits": (*head, 3),
    }
    for i in range(spec.depth):
        expected[f"attention_{i}"] = (2, 3, tokens, tokens)
        expected[f"encoderblock_{i}"] = (2, tokens, 48)
    if spec.stem:
        expected["gn_root"] = (2, 8, 12, 64)
        expected["block1_unit1"] = (2, 4, 6, 256)
        expected["block2_unit1"] = (2, 2, 3, 512)
    assert shapes_of_outputs(model) == expected


@pytest.mark.flavours
def test_named_intermediate_outputs_of_a_bit():
    shapes = shapes_of_outputs(build(BIT, image_size=(16, 25)))
    units = [f"block{i}_unit1" for i in range(1, 5)]
    assert list(shapes) == ["conv_root", *units, "encoded", "feature_map", "pre_logits", "logits"]
    assert shapes["block4_unit1"] == shapes["encoded"] == shapes["feature_map"] == (2, 1, 1, 2048)
    assert (shapes["pre_logits"], shapes["logits"]) == ((2, 2048), (2, 3))


def test_unknown_intermediate_output_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean attention_0"):
        build(VIT).intermediates("atention_0")
    with pytest.raises(UsageError, match="did you mean block2_unit1"):
        build(BIT).intermediates("block2_unit2")


@pytest.mark.flavours
def test_intermediate_attention_scores_are_those_of_the_block_without_dropout(randomised, images):
    spec = replace(VIT, position_embedding="relative", attention_dropout=0.5)
    model = randomised(build(spec))
    outputs = model.intermediates("embedded", "attention_0")(images)
    block = model.get_layer("encoderblock_0")
    y = block.norm_attention(outputs["embedded"])
    _, expected = block.attention(y, training=False, return_attention_scores=True)
    np.testing.assert_allclose(np.asarray(outputs["attention_0"]), np.asarray(expected), atol=1e-5)


@pytest.mark.flavours
@pytest.mark.parametrize("spec", cases(KINDS))
def test_fresh_head_gives_uniform_predictions(spec, images):
    assert not build(spec).predict(images, verbose=0).any()


@pytest.mark.flavours
def test_both_classifiers_of_a_distilled_model_start_at_zero_with_the_bias(images):
    model = build(WITH_POOLINGS["distilled"], head_bias=-10.0, dtype="mixed_bfloat16")
    both = model.get_layer("head")(keras.Model(model.input, model.features)(images), both=True)
    np.testing.assert_array_equal(np.asarray(both), np.full((2, 2, 3), -10, np.float32))
    assert np.asarray(model(images)).dtype == np.float32


@pytest.mark.flavours
@pytest.mark.parametrize("spec", cases(WITH_POOLINGS | KINDS))
def test_every_weight_gets_a_gradient(spec, images, rng, randomised):
    import tensorflow as tf

    model = randomised(build(spec))  # a fresh head and a fresh unit's last scale are zero
    with tf.GradientTape() as tape:
        y = model(images, training=True)
        loss = tf.reduce_sum(y * rng.normal(size=y.shape).astype(np.float32))
    gradients = tape.gradient(loss, model.trainable_variables)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert np.any(0 if gradient is None else np.asarray(gradient)), variable.name


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        *((kind, "mixed_bfloat16") for kind in KINDS),
        ("vit", "mixed_float16"),
        pytest.param("hybrid", "mixed_float16", marks=pytest.mark.slow),
        pytest.param("bit", "mixed_float16", marks=pytest.mark.slow),
    ],
)
def test_mixed_precision_stays_near_float32_with_the_same_weights(
    kind, policy, images, randomised, tmp_path
):
    model = randomised(build(KINDS[kind]))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    with dtype_policy(policy):  # as a user's script sets it
        mixed = build(KINDS[kind])
    keras_vit.load_weights(mixed, tmp_path / "weights.npz")
    for one, other in zip(model.weights, mixed.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=True)
    logits = np.asarray(mixed(images, training=False))
    assert logits.dtype == np.float32
    expected = np.asarray(model(images, training=False))
    assert 0 < np.abs(logits - expected).max() < 0.05 * np.abs(expected).max()
    layer = mixed.get_layer("encoderblock_0" if kind == "vit" else "block2_unit1")
    assert "float32" not in str(layer.output.dtype)


@pytest.mark.flavours
def test_the_epsilon_reaches_every_layer_norm_and_drop_path_rises_linearly():
    model = build(replace(VIT, depth=5, drop_path=0.2, layer_norm_eps=1e-12, pooling="map"))
    blocks = [model.get_layer(f"encoderblock_{i}") for i in range(5)]
    assert [block.drop_path for block in blocks] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    norms = [model.get_layer("encoder_norm"), model.get_layer("pooling").norm]
    norms += [norm for block in blocks for norm in (block.norm_attention, block.norm_mlp)]
    assert [norm.epsilon for norm in norms] == [1e-12] * 12


NOT_LABELS = ["ab", {"a", "b"}, {"a": 0, "b": 1}, [0, 1], 3]
NOT_LARGE = "at most 30,000,000,000 parameters"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_size": 30}, "multiple of patch_size=8. Received: 30 x 30; the nearest is 32 x 32"),
        ({"image_size": (16, 20)}, "Received: 16 x 20; the nearest is 16 x 16"),
        ({"image_size": (16, 16, 3)}, "positive integer, or .height, width."),
        ({"image_size": 0}, "must be a positive integer"),
        ({"num_classes": -1}, "num_classes must be 0"),
        ({"num_classes": 2.5}, "num_classes must be 0"),
        ({"num_classes": 10**7}, "must be 0 .* at most 1,000,000. Received: num_classes=10000000"),
        ({"labels": ["a"]}, "labels must name each of the 2 classes. Received: 1 labels"),
        *(({"labels": each}, "labels must be a sequence of strings") for each in NOT_LABELS),
        (
            {"preprocessing": keras_vit.Preprocessing(16, 16), "image_size": 32},
            "preprocessing must be for image_size=32 x 32",
        ),
        ({"spec": ViTSpec(8, 65_536, 2, 4, 262_144)}, NOT_LARGE),
        ({"spec": ViTSpec(8, 65_536, 2, 1, 112), "num_classes": 10**6}, NOT_LARGE),
        (
            {"spec": ViTSpec(1, 48, 2, 3, 112), "image_size": 8_192},
            "at most 65,536 patches. Received: 8192 x 8192",
        ),
    ],
)
def test_arguments_are_refused_before_anything_is_built(arguments, message):
    with pytest.raises(UsageError, match=message):
        keras_vit.ViT(**{"spec": VIT, "num_classes": 2, "image_size": 16, **arguments})


ODD = {
    "root alone": (ResNetStem(width=0.5), 2, (27, 33), (3, 4)),
    "stages": (ResNetStem((1, 1, 1), width=0.5), 1, (33, 49), (3, 4)),
    "cut off": (ResNetStem((1,), width=1.5), 3, (45, 50), (4, 4)),
}


@pytest.fixture(params=ODD)
def odd(request, randomised):
    """A hybrid with a fractional width, for a size that its strides do not divide."""
    stem, patch, size, grid = ODD[request.param]
    model = randomised(build(ViTSpec(patch, 48, 1, 3, 96, stem=stem), 5, size))
    assert model.grid == grid
    return model


def test_a_hybrid_takes_any_size_as_the_official_code_does(odd, rng):
    images = rng.normal(size=(2, *odd.image_size, 3)).astype(np.float32)
    last = odd.intermediate_names[odd.intermediate_names.index("patch_embeddings") - 1]
    actual = odd.intermediates(last, "patch_embeddings")(images)
    x = np.asarray(actual[last])
    if last == "gn_root":
        x = np.asarray(keras.layers.MaxPooling2D(3, 2, "same")(np.maximum(x, 0)))
    stride, (height, width) = odd.spec.stem.stride, odd.image_size
    assert x.shape[1:3] == (-(-height // stride), -(-width // stride))
    (rows, columns), patch = odd.grid, odd.spec.patch_size
    x = x[:, : rows * patch, : columns * patch]  # the official embedding is a "valid" convolution
    x = x.reshape(2, rows, patch, columns, patch, -1).swapaxes(2, 3)
    kernel, bias = odd.get_layer("patch_encoder").projection.get_weights()
    expected = x.reshape(2, rows * columns, -1) @ kernel + bias
    found = np.asarray(actual["patch_embeddings"])
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-5)


def test_weights_of_odd_hybrids_round_trip(odd, tmp_path, rng):
    keras_vit.save_weights(odd, tmp_path / "weights.npz")
    arrays = np.load(tmp_path / "weights.npz")
    assert arrays["conv_root/kernel"].shape[-1] == 64 * odd.spec.stem.width
    np.savez(tmp_path / "plain.npz", **arrays)  # without what only our files say
    images = rng.normal(size=(2, *odd.image_size, 3)).astype(np.float32)
    for file, stated in (("weights.npz", {}), ("plain.npz", {"image_size": odd.image_size})):
        again = keras_vit.model_from_weights(tmp_path / file, num_heads=3, **stated)
        assert (again.spec, again.image_size) == (odd.spec, odd.image_size)
        np.testing.assert_array_equal(np.asarray(odd(images)), np.asarray(again(images)))


def built_together(build, arguments, seconds):
    """Builds in threads that wait for each other where Keras is about to change base classes."""
    barrier, layer_name = threading.Barrier(len(arguments)), image_model.layer_name

    def waiting(name):
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(seconds)
        return layer_name(name)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(arguments)) as pool:
        patch.setattr(image_model, "layer_name", waiting)
        return list(pool.map(build, arguments))


def build_first_models():
    sys.setswitchinterval(1e-6)
    from keras_vit.training import learner  # noqa: F401, which has another model

    def count(name):
        model = keras_vit.ViT(keras_vit.ViTSpec(8, 8, 1, 1, 8), 3, 16, name=name)
        return model.count_params() + model.intermediates("logits").count_params()

    assert len(set(built_together(count, "abcdefgh", 1))) == 1


@pytest.mark.flavours
@pytest.mark.slow
def test_the_first_models_of_a_process_may_be_built_by_several_threads(python):
    program = f"import runpy; runpy.run_path({__file__!r})['build_first_models']()"
    python("-c", program, TF_USE_LEGACY_KERAS=str(int(LEGACY)))


@pytest.mark.flavours
def test_each_thread_gets_the_dtype_that_it_asked_for():
    def block(dtype):
        return build(VIT, dtype=dtype).get_layer("encoderblock_1").compute_dtype

    found = built_together(block, ["mixed_bfloat16", None, "mixed_float16", None], 0.2)
    assert found == ["bfloat16", "float32", "float16", "float32"]
