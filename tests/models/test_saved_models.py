"""Saving and loading keeps the policy, frozen layers, the optimiser, and therefore the losses."""

from dataclasses import replace

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetSpec, ResNetStem, UsageError, ViTSpec
from keras_vit._keras import LEGACY, keras, ops
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.evaluation.attention_scores import attention_maps
from keras_vit.models.dtypes import dtype_policy
from keras_vit.models.image_model import Intermediates
from keras_vit.models.pretrained import model_class

pytestmark = pytest.mark.flavours

VIT = ViTSpec(patch_size=8, hidden_dim=16, depth=1, num_heads=2, mlp_dim=24)
HYBRID = ViTSpec(1, 16, 1, 2, 24, "map", stem=ResNetStem((1,), width=0.5))
BIT = ResNetSpec((1, 1, 1, 1))
without_legacy = pytest.mark.skipif(LEGACY, reason="tf_keras has no quantize")
# HDF5 files store names of classes without their package.
OUR_CLASSES = {"ViT": keras_vit.ViT, "Intermediates": Intermediates}


def only_the_head(model):
    for layer in model.layers:
        layer.trainable = layer.name == "head"


def parts_of_blocks(model):
    model.get_layer("patch_encoder").trainable = False
    block = model.get_layer("encoderblock_0")
    block.attention.query.trainable = False
    block.norm_mlp.trainable = False


def all_but_parts_of_blocks(model):
    only_the_head(model)
    model.get_layer("encoderblock_0").trainable = True
    model.get_layer("encoderblock_0").mlp.trainable = False


def everything(model):
    model.trainable = False


# HDF5 loses the optimiser of every functional model in Keras 3, and any loss scale in tf_keras.
TRAINED = [
    pytest.param("float32", None, "keras", marks=pytest.mark.slow),
    pytest.param("mixed_bfloat16", parts_of_blocks, "keras", marks=pytest.mark.slow),
    ("mixed_float16", only_the_head, "keras"),
    *([("mixed_bfloat16", parts_of_blocks, "h5")] if LEGACY else []),
]
FROZEN = [only_the_head, parts_of_blocks, all_but_parts_of_blocks, everything]


@pytest.fixture
def reloaded(tmp_path):
    """Saves a model in a format and loads it."""

    def save_and_load(model, suffix="keras"):
        path = tmp_path / f"model.{suffix}"
        model.save(path)
        return keras.models.load_model(path, OUR_CLASSES if suffix == "h5" else None)

    return save_and_load


def compiled(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, run_eagerly=True)
    return model


def losses(model, rng):
    images = rng.normal(size=(4, *model.image_size, 3)).astype(np.float32)
    fitted = model.fit(images, np.arange(4) % 3, epochs=3, shuffle=False, verbose=0)
    return fitted.history["loss"]


def assert_same_training(model, again):
    """The same weights are trained, with the same state of the optimiser."""
    names = [[v.name for v in each.trainable_variables] for each in (model, again)]
    assert names[0] == names[1]
    for expected, actual in zip(_state(model.optimizer), _state(again.optimizer), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


EVA02 = {"rotation": "eva02", "mlp_kind": "gated_norm", "key_bias": False}
SAVED = {
    **{kind: replace(VIT, position_embedding=kind) for kind in POSITION_EMBEDDINGS},
    "distilled": replace(VIT, pooling="distilled", activation="erf", dropout=0.1, drop_path=0.1),
    "dinov2": replace(VIT, registers=4, layer_scale=0.1, mlp_kind="gated", pooling="token_mean"),
    "timm": replace(VIT, registers=4, qk_norm=True, pooling="gap", norm_after_pooling=True),
    "eva02": replace(VIT, pooling="token_gap", norm_after_pooling=True, **EVA02),
    "clip": replace(VIT, embedding_norm=True, patch_bias=False, projection_dim=40),
    "cosine": replace(VIT, normalized_features=True, head_activation="sigmoid"),
    "hybrid with map": HYBRID,
    "bit": BIT,
}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_gives_the_same_logits(reloaded, randomised, rng, name):
    spec = SAVED[name]
    model = randomised(model_class(spec)(spec, 3, (16, 24), name="mine", labels=["a", "b", "c"]))
    again = reloaded(model)
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(model(images)), np.asarray(again(images)))
    assert (type(again), again.spec) == (type(model), spec)
    assert (again.name, again.labels) == ("mine", ("a", "b", "c"))
    assert again.preprocessing == model.preprocessing


def test_features_are_normalised_in_float32(randomised, rng):
    model = randomised(keras_vit.ViT(SAVED["cosine"], 0, (16, 24), dtype="mixed_float16"))
    gamma = model.get_layer("encoder_norm").gamma
    gamma.assign(np.full(gamma.shape, 1000, np.float32))  # whose squares half precision cannot hold
    features = np.asarray(model(rng.normal(size=(2, 16, 24, 3)).astype(np.float32)), np.float32)
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1, atol=1e-3)


@pytest.mark.parametrize(("policy", "freeze", "suffix"), TRAINED)
def test_training_a_loaded_model_continues_exactly(reloaded, rng, suffix, policy, freeze):
    model = keras_vit.ViT(VIT, 3, 16, dtype=policy)
    if freeze is not None:
        freeze(model)
    compiled(model)
    losses(model, rng)
    again = reloaded(model, suffix)
    again.run_eagerly = True  # tf_keras does not save it
    assert_same_training(model, again)
    actual, expected = (losses(m, np.random.default_rng(5)) for m in (again, model))
    assert actual == expected


@pytest.mark.parametrize(
    ("freeze", "suffix"), [*((freeze, "keras") for freeze in FROZEN), (parts_of_blocks, "h5")]
)
def test_a_loaded_model_has_the_same_trainable_weights(reloaded, freeze, suffix):
    model = keras_vit.ViT(VIT, 3, 16)
    freeze(model)
    again = reloaded(model, suffix)
    assert _trainable(again) == _trainable(model)
    assert len(again.trainable_weights) == len(model.trainable_weights)
    for one, other in zip(model.layers, again.layers, strict=True):
        assert (one.name, one.trainable) == (other.name, other.trainable)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [VIT, BIT])
def test_frozen_layers_under_another_head_stay_frozen(reloaded, rng, spec):
    model = model_class(spec)(spec, 3, 32)
    only_the_head(model)
    other = keras.Model(model.inputs, keras.layers.Dense(3, name="other")(model.features))
    compiled(other).fit(rng.normal(size=(4, 32, 32, 3)), np.arange(4) % 3, verbose=0)
    again = reloaded(other)
    assert _trainable(again) == _trainable(other)
    assert_same_training(other, again)


@pytest.mark.parametrize(
    ("policy", "spec"),
    [("float32", VIT), ("mixed_bfloat16", VIT), ("mixed_float16", HYBRID), ("mixed_bfloat16", BIT)],
)
def test_every_layer_has_the_policy_before_and_after_saving(reloaded, policy, spec):
    other = "float32" if policy != "float32" else "mixed_bfloat16"
    with dtype_policy(other):  # as a user's script sets it
        model = model_class(spec)(spec, 3, (16, 24), dtype=policy)
        again = reloaded(model)
    for built in (model, again):
        assert built.dtype_policy.name == policy
        others = (keras.Model, keras.layers.InputLayer)
        of_model = [each for each in built._flatten_layers() if not isinstance(each, others)]
        actual = {layer.name: layer.dtype_policy.name for layer in of_model}
        assert actual.pop("head") == "float32"
        assert set(actual.values()) == {policy}


def test_a_policy_may_be_an_object_or_a_numpy_type_but_not_unknown():
    mixed = keras.mixed_precision.Policy("mixed_bfloat16")
    assert keras_vit.ViT(VIT, 3, 16, dtype=mixed).dtype_policy.name == "mixed_bfloat16"
    for dtype in (np.float16, np.dtype("float16")):
        assert keras_vit.ViT(VIT, 3, 16, dtype=dtype).dtype_policy.name == "float16"
    for dtype in ("mixed_bfloat17", 5, np.ones):
        with pytest.raises(UsageError, match="dtype must be a policy or the name of one"):
            keras_vit.ViT(VIT, 3, 16, dtype=dtype)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_a_saved_model_of_intermediate_outputs_gives_the_same_ones(
    reloaded, randomised, rng, suffix
):
    model = randomised(keras_vit.ViT(VIT, 3, (16, 24), dtype="mixed_bfloat16"))
    outputs = model.intermediates("patch_embeddings", "attention_0", "encoderblock_0", "encoded")
    again = reloaded(outputs, suffix)
    images = rng.normal(size=(2, 16, 24, 3)).astype(np.float32)
    expected, actual = outputs(images), again(images)
    assert sorted(actual) == sorted(expected)
    for name in expected:
        assert actual[name].dtype == expected[name].dtype
        values = [np.asarray(ops.cast(each[name], "float32")) for each in (actual, expected)]
        np.testing.assert_array_equal(*values)


@without_legacy
@pytest.mark.parametrize(
    ("mode", "spec"),
    [
        ("int4", VIT),
        pytest.param("int8", VIT, marks=pytest.mark.slow),
        pytest.param("float8", VIT, marks=pytest.mark.slow),
        ("int8", HYBRID),
    ],
)
def test_a_quantised_model_is_loaded_as_it_was_saved(
    reloaded, randomised, rng, tmp_path, mode, spec
):
    model = randomised(keras_vit.ViT(spec, 3, 16, labels=["a", "b", "c"]))
    only_the_head(model)
    model.quantize(mode, filters=lambda layer: layer.name != "head")
    again = reloaded(model)
    images = rng.normal(size=(2, 16, 16, 3)).astype(np.float32)
    np.testing.assert_array_equal(again(images), model(images))
    assert [(v.name, v.dtype, v.trainable) for v in again.weights] == [
        (v.name, v.dtype, v.trainable) for v in model.weights
    ]
    assert again.get_layer("head").quantization_mode is None
    assert again.get_layer("encoderblock_0").mlp.dense_0.quantization_mode == mode
    with pytest.raises(UsageError, match=rf"Keras has quantised .*/kernel \({mode}\)"):
        keras_vit.save_weights(model, tmp_path / "weights.npz")
    assert not (tmp_path / "weights.npz").exists()


@without_legacy
def test_saving_refuses_a_quantisation_that_cannot_be_loaded(tmp_path):
    model = keras_vit.ViT(VIT, 3, 16)
    config = keras.quantizers.GPTQConfig(
        dataset=[], tokenizer=None, quantization_layer_structure={"pre_block_layers": []}
    )
    model.get_layer("encoderblock_0").mlp.dense_0.quantize("gptq", config=config)
    with pytest.raises(UsageError, match=r"mlp/dense_0 \(gptq\); save the model before"):
        model.save(tmp_path / "model.keras")


def test_errors_for_a_cloned_model_explain_how_to_copy_a_model(tmp_path):
    model = keras_vit.ViT(VIT, 3, 16, labels=["a", "b", "c"])
    clone = keras.models.clone_model(
        model, clone_function=lambda layer: type(layer).from_config(layer.get_config())
    )
    images = np.zeros((1, 16, 16, 3), np.uint8)
    for use in (
        lambda: keras_vit.load_weights(clone, tmp_path / "weights.npz"),
        lambda: keras_vit.save_weights(clone, tmp_path / "weights.npz"),
        lambda: keras_vit.preprocess(images, clone),
        lambda: keras_vit.decode_predictions(np.zeros((1, 3)), clone),
        lambda: attention_maps(clone, images),
    ):
        with pytest.raises(UsageError, match=r"Functional.*original\.get_config\(\)"):
            use()
    assert not list(tmp_path.iterdir())
    copy = keras_vit.ViT.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert (copy.spec, copy.labels) == (model.spec, model.labels)


def test_errors_for_a_model_around_ours_say_which_one_to_pass():
    vit, image = keras_vit.ViT(VIT, 0, 16, name="vit"), np.zeros((16, 16, 3), np.uint8)
    around = keras.Sequential([vit, keras.layers.Dense(2)])
    with pytest.raises(UsageError, match=r"a Sequential around the ViT 'vit'; pass that"):
        keras_vit.preprocess(image, around)
    assert keras_vit.preprocess(image, around.get_layer("vit")).shape == (1, 16, 16, 3)
    beside = keras.Model(vit.input, keras.layers.Dense(2)(vit.features))
    with pytest.raises(UsageError, match=r"other layers on the input of the ViT 'vit'"):
        keras_vit.preprocess(image, beside)


def test_configurations_written_before_policies_still_load():
    config = keras_vit.ViT(VIT, 3, 16).get_config()
    for field in ("dtype", "frozen"):
        del config[field]
    model = keras_vit.ViT.from_config(config)
    assert (model.spec, model.dtype_policy.name) == (VIT, "float32")
    assert len(model.trainable_weights) == len(model.weights)


def _state(optimizer):
    return optimizer.variables() if callable(optimizer.variables) else optimizer.variables


def _trainable(model):
    chosen = {id(v) for v in model.trainable_variables}
    return [id(v) in chosen for v in model.weights]
