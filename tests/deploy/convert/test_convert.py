"""Keras models to `.tflite` files: keras_vit models are rewritten, other models are not."""

import dataclasses
import functools
import gc

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._keras import keras
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import backbone, resolve
from keras_vit.models.pretrained import model_class
from keras_vit.tflite.flatbuffer import check_static, operators, read_graph

layers = keras.layers
Dense = layers.Dense
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=1, num_heads=3, mlp_dim=64)


variant = functools.partial(dataclasses.replace, SPEC)
STEM = keras_vit.ResNetStem((1,), width=0.5)
ARCHITECTURES = {
    "hybrid": variant(patch_size=2, stem=STEM, pooling="gap", representation_dim=32),
    "map": variant(pooling="map", position_embedding="learned2d", activation="erf"),
    "distilled": variant(pooling="distilled"),
    "dinov2": variant(
        **{"registers": 4, "layer_scale": 0.1, "mlp_kind": "gated", "activation": "silu"},
        pooling="token_mean",
    ),
    "timm": variant(
        registers=4, qk_norm=True, pooling="gap", norm_after_pooling=True, activation="quick"
    ),
    "dinov3": variant(
        **{"registers": 4, "layer_scale": 0.1, "rotation": "dinov3", "key_bias": False},
        **{"position_embedding": "none", "activation": "erf"},
    ),
    "eva02": variant(
        **{"mlp_kind": "gated_norm", "activation": "silu", "rotation": "eva02", "key_bias": False},
        **{"pooling": "token_gap", "norm_after_pooling": True},
    ),
    "clip": variant(
        **{"embedding_norm": True, "patch_bias": False, "projection_dim": 40},
        **{"activation": "quick", "layer_norm_eps": 1e-5},
    ),
    "none": variant(pooling="none", position_embedding="relative"),
    "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
}
# The strides of the hybrid do not divide the image, nor its patches the output of the stem.
SIZES = {"bit": (32, 64), "hybrid": (33, 62)}
COSINES = {"dynamic": 0.99, "int8": 0.97, "int8-full": 0.95, "int16x8": 0.99, "int4": 0.8}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_converts_to_every_precision(kind, trained_like, pictures):
    spec, size = ARCHITECTURES[kind], SIZES.get(kind, (16, 24))
    model, images = trained_like(model_class(spec)(spec, 10, size)), pictures(32, size)
    inputs, expected = images[:4], np.asarray(model(images[:4], training=False))
    floats = [] if kind == "none" else ["none"]
    converter = deploy.Converter(resolve(model), [*COSINES, *floats], images[4:])
    reference, weights = deploy.Reference(inputs, expected), 4 * model.count_params()
    for content in (converter.float_file("int8").path.read_bytes(), *map(converter, floats)):
        made = deploy.MadeFile(deploy.PRECISIONS["none"], content, converter.about)
        found = deploy.judge_file(made, reference)
        deploy.check(found)
        assert found.verdict.max_difference < 1e-5 * found.verdict.scale
        # Kernels are standardised at conversion, and only the result is stored.
        assert len(content) < 1.05 * weights + 100_000
        assert (found.inspection.partitions, found.inspection.undelegated) == (1, ())
    for name, cosine in COSINES.items():
        found = deploy.judge_file(converter.made(name), reference)
        assert found.verdict.cosine > cosine, name
        check_static(found.content)
        assert len(found.content) < 0.3 * weights + 100_000, name  # all kernels are integers
        if name in ("dynamic", "int8", "int4"):
            assert (found.inspection.partitions, found.inspection.undelegated) == (1, ()), name


def test_a_file_with_pixel_input_scales_them_itself(trained_like, rng):
    preprocessing = keras_vit.Preprocessing(
        16, 24, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0)
    )
    model = trained_like(keras_vit.ViT(SPEC, 5, (16, 24), preprocessing=preprocessing))
    pixels = rng.integers(0, 256, (4, 16, 24, 3), np.uint8)
    resolved = resolve(model, GraphOptions("uint8", "probabilities"))
    reference = deploy.Reference(pixels, deploy.expected_scores(resolved, pixels))
    found = deploy.judge_file(deploy.Converter(resolved, ["none"]).made(), reference)
    assert found.verdict.max_difference < 1e-5
    assert deploy.Runner(found.content).input["dtype"] == np.uint8
    assert found.inspection.partitions == 1
    assert [node.operator for node in found.inspection.undelegated] == ["CAST"]
    assert "SUB" not in found.inspection.operators


def test_the_graph_has_no_more_operators_than_needed(sample):
    graph = read_graph(sample.file("none"))  # it refuses Flex and other custom operators
    small = {"MEAN", "RESHAPE", "TRANSPOSE", "SPACE_TO_DEPTH", "ADD", "MUL"}
    assert {name: n for name, n in operators(graph).items() if name not in small} == {
        "FULLY_CONNECTED": 1 + 6 + 6 + 1,  # patches, two blocks, the head
        "BATCH_MATMUL": 2 + 2,  # the attention scores and weighted values of both blocks
        **{"SOFTMAX": 2, "GELU": 2, "RSQRT": 5, "CONCATENATION": 1, "STRIDED_SLICE": 2},
    }
    found = sample.exported("none")
    assert found.verdict.max_difference < 1e-5 * found.verdict.scale
    assert (found.inspection.partitions, found.inspection.undelegated) == (1, ())
    check_static(found.content)


def small_vit(classes=0):
    return keras_vit.ViT(SPEC, classes, (16, 24))


def sequential(*tail):
    return keras.Sequential([keras.Input((16, 24, 3)), small_vit(), *tail])


def functional(forward, vit=None):
    images, vit = keras.Input((16, 24, 3)), vit or small_vit()
    return keras.Model(images, forward(vit, images))


def with_layers_of(layer, tensor="features"):
    """A model made of the layers of a keras_vit model that was deleted, and of another layer."""
    vit = small_vit(3)
    return keras.Model(vit.input, layer(getattr(vit, tensor)))


def shared():
    """A model whose backbone was also called by another model."""
    vit = small_vit()
    model = functional(lambda vit, x: Dense(5)(vit(x)), vit)
    model.other = functional(lambda vit, x: Dense(2)(vit(x)), vit)
    return model


def first_block():
    vit = small_vit()
    tokens = vit.get_layer("encoderblock_0").output
    return keras.Model(vit.input, Dense(5)(layers.GlobalAveragePooling1D()(tokens)))


def concatenated(vit, images):
    colour = layers.GlobalAveragePooling2D()(images)
    return Dense(5)(layers.Concatenate()([vit(images), colour]))


OURS = {
    "sequential": lambda: sequential(Dense(8, "relu"), Dense(5)),
    "not built": lambda: keras.Sequential([small_vit(), Dense(5)]),
    "normalised": lambda: sequential(layers.BatchNormalization(), layers.Dropout(0.5), Dense(5)),
    "functional": lambda: functional(lambda vit, x: Dense(5, "softmax")(vit(x))),
    "shared": shared,
    "another head": lambda: with_layers_of(Dense(3)),
    "no more layers": sequential,
    "no more layers, functional": lambda: functional(lambda vit, x: vit(x)),
}
OTHERS = {
    "first block": first_block,
    "features": lambda: with_layers_of(lambda features: features),
    "scaled images": lambda: functional(lambda vit, x: Dense(5)(vit(x / 2.0))),
    "called twice": lambda: functional(lambda vit, x: Dense(5)(vit(x) + vit(x))),
    "images read again": lambda: functional(concatenated),
    "something before": lambda: keras.Sequential([layers.Rescaling(0.5), small_vit(), Dense(5)]),
    "a head before": lambda: keras.Sequential([small_vit(3), Dense(5)]),
}


@pytest.mark.flavours
@pytest.mark.parametrize("kind", OURS)
def test_a_keras_vit_model_is_found_under_other_layers(kind, inputs):
    model = OURS[kind]()
    gc.collect()
    expected = np.asarray(model(inputs, training=False))
    vit, tail = backbone(model)
    assert isinstance(vit, keras_vit.ViT)
    found = vit.intermediates("pre_logits")(inputs, training=False)["pre_logits"]
    if tail is not None:
        found = np.asarray(tail(found, training=False))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    options = GraphOptions(output="features" if tail is None else "logits")
    found = deploy.expected_scores(resolve(model, options), inputs)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.flavours
@pytest.mark.parametrize("kind", OTHERS)
def test_layers_that_do_more_than_follow_the_vit_prevent_the_rewrite(kind):
    model = OTHERS[kind]()
    model(np.zeros((1, 16, 24, 3), np.float32))
    assert backbone(model) is None


def test_a_clone_is_no_keras_vit_model():
    assert backbone(keras.models.clone_model(small_vit(3))) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normalised", "functional", "another head"])
def test_a_model_is_exported_with_layers_of_ones_own(kind, rng, randomised, tmp_path):
    model = randomised(OURS[kind]())
    pixels = rng.integers(0, 256, (40, 16, 24, 3), np.uint8)
    images = keras_vit.preprocess(pixels, backbone(model)[0])
    expected = np.asarray(model(images, training=False))
    for options, tolerance in (({}, 1e-5), ({"quantize": "int8", "input": "uint8"}, 0.1)):
        path = tmp_path / "model.tflite"
        verdict = keras_vit.export_tflite(model, path, representative_data=images, **options)
        assert verdict.rewritten
        inputs = pixels if options else images
        differences = np.abs(deploy.Runner(path).predict(inputs) - expected)
        # In int8, scores beyond what the calibration images reach are cut off.
        assert np.quantile(differences, 0.97) < tolerance * np.abs(expected).max()
    count = operators(path.read_bytes())
    assert count["RSQRT"] == 3  # LayerNorm as keras_vit's graph writes it, not as Keras does
    assert "SQUARED_DIFFERENCE" not in count


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(("quantize", "tolerance"), [("none", 1e-5), ("int8", 0.05)])
def test_a_foreign_model_is_converted_as_it_is(foreign, inputs, tmp_path, quantize, tolerance):
    path, expected = tmp_path / "model.tflite", np.asarray(foreign(inputs))
    verdict = keras_vit.export_tflite(foreign, path, quantize, representative_data=inputs)
    assert (verdict.rewritten, verdict.note) == (False, "it is not a keras_vit model")
    found = deploy.Runner(path).predict(inputs)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    assert operators(path.read_bytes())["CONV_2D"] == 1


class Subclassed(keras.Model):
    """A model without a graph of layers."""

    def call(self, images, training=False):
        return images


REFUSED = OTHERS | {
    "sequential": OURS["sequential"],
    "functional": OURS["functional"],
    "no head": small_vit,
    "mixed precision": lambda: keras_vit.ViT(SPEC, 5, (16, 24), dtype="mixed_bfloat16"),
    "no graph": Subclassed,
    "any size": lambda: keras.Sequential(
        [keras.Input((None, None, 3)), layers.GlobalAveragePooling2D()]
    ),
    "two outputs": lambda: functional(lambda vit, x: [(y := vit(x)), Dense(5)(y)]),
    "two lines": lambda: keras.Sequential([keras.Input((8, 8, 3)), Dense(5)], name="a\nb"),
}
NO_IMAGE = "one image input .* of known size and one output"


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sequential", {"output": "probabilities"}, "output='probabilities' needs a keras_vit"),
        ("functional", {"output": "features"}, "output='features' needs a keras_vit model"),
        ("scaled images", {"input": "uint8"}, "input='uint8' needs a keras_vit .*'float32'"),
        ("first block", {"output": "probabilities"}, "output='probabilities' needs a keras_vit"),
        (
            "no head",
            {"output": "logits"},
            "which has no head, must be one of features, feature_map. Received: output='logits'",
        ),
        ("mixed precision", {}, "Received: layers that compute in bfloat16; build it"),
        ("no graph", {}, NO_IMAGE),
        ("any size", {}, NO_IMAGE),
        ("two outputs", {}, NO_IMAGE),
        ("two lines", {}, "expected one line of text as the name of the model"),
    ],
)
def test_models_that_cannot_be_exported_so_are_refused(kind, options, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        keras_vit.export_tflite(REFUSED[kind](), tmp_path / "model.tflite", **options)
    assert list(tmp_path.iterdir()) == []


ENDS = {
    "logits": lambda: sequential(Dense(1)),
    "a sigmoid": lambda: sequential(Dense(1, "sigmoid")),
    "a softmax": OURS["functional"],
    "a layer": lambda: sequential(Dense(5), layers.Softmax()),
    "a model": lambda: sequential(keras.Sequential([Dense(1), layers.Activation("sigmoid")])),
    "a head before": lambda: keras.Sequential([small_vit(1), layers.Activation("sigmoid")]),
    "a head inside": lambda: functional(lambda vit, x: layers.Softmax()(vit(x)), small_vit(3)),
    "after its head": lambda: with_layers_of(layers.Softmax(), "output"),
}


@pytest.mark.flavours
@pytest.mark.parametrize("kind", ENDS)
def test_models_that_end_in_a_softmax_or_a_sigmoid_give_probabilities(kind, inputs):
    model = ENDS[kind]()
    expected = np.asarray(model(inputs, training=False))
    resolved = resolve(model)
    assert resolved.about.options.output == ("logits" if kind == "logits" else "probabilities")
    assert resolved.about.preprocessing == keras_vit.Preprocessing(16, 24)
    np.testing.assert_allclose(deploy.expected_scores(resolved, inputs), expected, atol=1e-6)


@pytest.mark.flavours
@pytest.mark.parametrize("classes", [1, 5])
def test_the_probabilities_of_a_head_are_its_softmax_or_its_sigmoid(classes, trained_like, inputs):
    model = trained_like(keras_vit.ViT(SPEC, classes, (16, 24)))
    logits = np.asarray(model(inputs, training=False), np.float64)
    powers = np.exp(logits)
    expected = powers / (powers.sum(-1, keepdims=True) + (classes == 1))
    options, converters = GraphOptions(output="probabilities"), []
    for rewrite in (True, False):
        resolved = resolve(model, options, rewrite)
        np.testing.assert_allclose(deploy.expected_scores(resolved, inputs), expected, atol=1e-6)
        converters.append(deploy.Converter(resolved, ["none"]))
    for variable in model.weights:  # the converters do not keep the model
        variable.assign(np.zeros(variable.shape, np.float32))
    for converter in converters:
        found = deploy.Runner(converter("none")).predict(inputs)
        np.testing.assert_allclose(found, expected, atol=1e-6)
