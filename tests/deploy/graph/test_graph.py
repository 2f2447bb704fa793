"""The inference graph: each rewrite removes operators, and none changes the outputs."""

import copy
import dataclasses
import functools
import itertools
import re
from collections import Counter

import numpy as np
import pytest
from scipy.special import softmax

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit.deploy.graph import inference
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import forward, inference_module, prepare
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import parameters_of
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.models.pretrained import model_class
from keras_vit.specs import Preprocessing
from keras_vit.weights.names import weight_names

ALL = frozenset(REWRITES)
TOKEN = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
variant = functools.partial(dataclasses.replace, TOKEN)
ARCHITECTURES = {
    "token": TOKEN,
    "gap": variant(pooling="gap"),
    "map": variant(pooling="map", position_embedding="sincos2d"),
    "distilled": variant(pooling="distilled"),
    "none": variant(pooling="none", position_embedding="relative"),
    "relative": variant(position_embedding="relative", representation_dim=20),
    "stem": variant(patch_size=2, pooling="gap", stem=keras_vit.ResNetStem(())),
    "stages": variant(patch_size=1, stem=keras_vit.ResNetStem((1, 1))),
    "bit": keras_vit.ResNetSpec((1, 1, 2, 1)),
}


def slow_but(quick, cases):
    """The cases of a test, of which only some are quick."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


@pytest.fixture
def build(randomised):
    """Builds a model with random weights, none of them zero."""

    def built(spec, image_size=(16, 24)):
        preprocessing = Preprocessing(
            *image_size, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0)
        )
        return randomised(model_class(spec)(spec, 5, image_size, preprocessing=preprocessing))

    return built


@pytest.fixture
def model(build, request):
    """A model of `ARCHITECTURES`."""
    large = request.param in ("stem", "stages", "bit")
    return build(ARCHITECTURES[request.param], (32, 64) if large else (16, 24))


@pytest.fixture
def token(build):
    return build(TOKEN)


@pytest.fixture
def eager():
    """Runs graphs without tracing, which is faster for hundreds of graphs."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def graph_with(model, parameters, batch=None, **options):
    options = GraphOptions(batch=batch, **options)
    return InferenceGraph(model.spec, parameters, model.image_size, model.preprocessing, options)


def module_of(model, **options):
    return inference_module(prepare(graph_with(model, parameters_of(model), **options)))


def pixels_of(model):
    return np.random.default_rng(0).integers(0, 256, (3, *model.image_size, 3), np.uint8)


def inputs_of(model):
    preprocessing = model.preprocessing
    return (
        (pixels_of(model) - np.array(preprocessing.mean)) / np.array(preprocessing.scale)
    ).astype(np.float32)


def outputs_of(model):
    """Keras' outputs, by the names that a graph gives them."""
    images = inputs_of(model)
    logits = np.asarray(model(images, training=False))
    inner = model.intermediates("pre_logits", "feature_map")(images, training=False)
    return {
        "logits": logits,
        "probabilities": softmax(logits, axis=-1),
        "features": np.asarray(inner["pre_logits"]),
        "feature_map": np.asarray(inner["feature_map"]),
    }


def assert_equals_keras(model, outputs=("logits",), sets_of_rewrites=(ALL, frozenset())):
    expected, images = outputs_of(model), {"float32": inputs_of(model), "uint8": pixels_of(model)}
    for output, given, rewrites in itertools.product(outputs, images, sets_of_rewrites):
        module = module_of(model, output=output, input=given, rewrites=rewrites)
        [(name, found)] = module.serve(images[given]).items()
        assert (name, found.shape) == (output, expected[output].shape)
        difference = np.abs(found.numpy() - expected[output]).max() / np.abs(expected[output]).max()
        assert difference < 1e-5, (model.spec, output, given, rewrites)


@pytest.mark.parametrize(
    "form",
    slow_but(
        [("gap", 20), ("map", None), ("distilled", None)],
        [*itertools.product(("token", "gap", "map", "none"), (None, 20)), ("distilled", None)],
    ),
)
def test_rewritten_equals_keras_for_every_pooling_and_position(build, eager, form):
    pooling, representation = form
    for kind, positions in POSITION_EMBEDDINGS.items():
        if pooling == "distilled" and positions.bias:
            continue  # refused by ViTSpec
        activation = "erf" if representation else "tanh"
        options = {
            "pooling": pooling,
            "representation_dim": representation,
            "activation": activation,
        }
        assert_equals_keras(build(variant(depth=1, position_embedding=kind, **options)))


@pytest.mark.slow
@pytest.mark.parametrize("model", ARCHITECTURES, indirect=True)
def test_each_rewrite_alone_and_each_left_out_equals_keras(model, eager):
    sets = [ALL, frozenset(), *(ALL - {name} for name in ALL), *(ALL & {name} for name in ALL)]
    assert_equals_keras(model, sets_of_rewrites=sets)


@pytest.mark.parametrize("model", slow_but(("token", "distilled"), ARCHITECTURES), indirect=True)
def test_probabilities_and_features_equal_keras(model, eager):
    assert_equals_keras(model, ("probabilities", "features", "feature_map"))


@pytest.mark.parametrize("model", slow_but(("token", "stages"), ARCHITECTURES), indirect=True)
def test_every_size_of_a_graph_for_one_image_is_fixed(model):
    graph = module_of(model, batch=1).serve.get_concrete_function().graph
    shapes = [tensor.shape for op in graph.get_operations() for tensor in op.outputs]
    assert all(shape.is_fully_defined() for shape in shapes)
    assert not {"Shape", "Tile", "Pack", "BroadcastTo", "ExpandDims"} & counted(graph).keys()


@pytest.mark.parametrize("spread", [0.0, 3.0], ids=["even", "outliers"])
@pytest.mark.parametrize(
    ("model", "left_out"),
    [
        *((kind, None) for kind in ("token", "gap", "map", "distilled", "none", "stages")),
        *(("token", "attention_biases"), ("token", "constants")),
    ],
    indirect=["model"],
)
def test_balancing_does_not_change_the_outputs(model, left_out, spread, rng, monkeypatch):
    def drawn(graph, images):
        return {
            name: np.exp2(rng.normal(0, spread, len(each))).astype(np.float32)
            for name, each in measured(graph, images).items()
        }

    measured, images = inference.channel_ranges, inputs_of(model)
    monkeypatch.setattr(inference, "channel_ranges", drawn)
    parameters = parameters_of(model)
    for name in [n for n in parameters if n.endswith(("query/kernel", "dense_0/kernel"))]:
        parameters[name][5] *= 50 * spread + 1  # a large row, so that smoothing is applied
    plain, balanced = (
        graph_with(model, copy.deepcopy(parameters), rewrites=ALL - {left_out}) for _ in range(2)
    )
    before = forward(prepare(plain), images).numpy()
    after = forward(prepare(balanced, images), images).numpy()
    np.testing.assert_allclose(after, before, atol=2e-5 * np.abs(before).max(), rtol=0)
    scale = balanced.weights["stream/scale"]
    assert (scale.max() > 1) == (spread > 0)
    assert np.array_equal(np.log2(scale), np.rint(np.log2(scale)))
    assert ("encoderblock_1/norm_mlp/smooth" in balanced.weights) == (spread > 0)


@pytest.mark.parametrize(
    ("model", "left_out"),
    [("token", "centre"), ("token", "fold_norms"), ("bit", None)],
    indirect=["model"],
)
def test_balancing_requires_norms_without_mean_and_shift(model, left_out):
    graph = graph_with(model, parameters_of(model), rewrites=ALL - {left_out})
    assert "stream/scale" not in prepare(graph, inputs_of(model)).weights


BALANCED = keras_vit.ViTSpec(patch_size=8, hidden_dim=192, depth=4, num_heads=6, mlp_dim=384)


def cosine(model, images, quantize):
    content = deploy.to_tflite(model, quantize, images[8:])
    expected = np.asarray(model(images[:8], training=False))
    found = deploy.Runner(content).predict(images[:8])
    return deploy.compare("int8", expected, found).cosine


@pytest.mark.slow
@pytest.mark.parametrize("compensated", [True, False])
def test_int8_keeps_its_accuracy_because_outlier_channels_are_balanced(
    trained_like, pictures, compensated, monkeypatch
):
    # Five channels of the residual stream are 30 to 100 times larger than others. The norms either
    # compensate for that, so that their outputs stay the same, or do not.
    model, images = trained_like(keras_vit.ViT(BALANCED, 20, (32, 32))), pictures(72, (32, 32))
    generator = np.random.default_rng(9)
    channels = np.ones(192, np.float32)
    chosen = generator.choice(192, 5, replace=False)
    channels[chosen] = generator.uniform(30, 100, 5)
    for name in weight_names(BALANCED, 20, (32, 32)):
        variable = name.variable(model)
        layer, _ = name.path.rsplit("/", 1)
        if layer.startswith("patch_encoder") or layer.endswith(("attention/out", "dense_1")):
            variable.assign(np.asarray(variable) * channels)
        elif compensated and name.path.endswith("/gamma"):
            variable.assign(np.asarray(variable) / channels)

    assert cosine(model, images, "int8") > 0.995
    monkeypatch.setattr(inference, "balances", lambda *_: False)
    assert cosine(model, images, "int8") < 0.985
    if compensated:  # and where the stream is in int8 too
        assert cosine(model, images, "int8-full") < 0.93


def counted(graph) -> Counter:
    return Counter(op.type for op in graph.get_operations())


def graph_of(model, **options):
    """The names of the weights with their shapes, and the traced graph."""
    module = module_of(model, batch=1, **options)
    graph = module.serve.get_concrete_function().graph
    return {v.name.removesuffix(":0"): tuple(v.shape) for v in module.variables_of_graph}, graph


READING = {"Const", "Placeholder", "ReadVariableOp"}
PROBE = r"pooling/(probe|attention/query/kernel|attention/query/bias|attention/key/kernel)"


@pytest.mark.parametrize(
    ("model", "left_out", "weights", "operators"),
    [
        ("token", "fold_norms", ".*norm.*/(gamma|beta)", {"Mul": 5, "AddV2": 5}),
        ("token", "attention_biases", ".*/(key|value)/bias", {"Mul": 2, "AddV2": 4}),
        ("token", "centre", "", {"Mean": 5, "Sub": 5}),
        ("token", "uint8_input", "", {"Sub": 1, "Mul": 1}),
        ("token", "constants", "patch_encoder/(class_position|projection/bias)", {"AddV2": 2}),
        (
            *("map", "constants", f"patch_encoder/projection/bias|{PROBE}"),
            {"AddV2": 2, "BatchMatMulV2": 2, "Reshape": 1, "Transpose": 1},
        ),
    ],
    indirect=["model"],
)
def test_a_rewrite_removes_weights_and_operators(model, left_out, weights, operators):
    names, graph = graph_of(model, input="uint8")
    left, other = graph_of(model, input="uint8", rewrites=ALL - {left_out})
    assert left.keys() - names.keys() == {name for name in left if re.fullmatch(weights, name)}
    more = counted(other) - counted(graph)
    assert {op: n for op, n in more.items() if op not in READING} == operators


def test_a_norm_without_a_dense_layer_after_it_keeps_its_scale_and_shift(token):
    names, _ = graph_of(token, output="features")
    kept = {name for name in names if name.endswith(("gamma", "beta"))}
    assert kept == {"encoder_norm/gamma", "encoder_norm/beta"}


def test_pixels_are_scaled_inside_the_first_kernel_unless_it_pads(token, build):
    _, graph = graph_of(token, input="uint8")
    assert graph.inputs[0].dtype.name == "uint8"
    assert counted(graph)["Sub"] == 0
    # Zero padding means grey after scaling, but black before it.
    _, graph = graph_of(build(ARCHITECTURES["stem"], (64, 96)), input="uint8")
    scaling = [op.type for op in graph.get_operations() if op.name.startswith("pixels/")]
    assert {"Sub", "Mul"} <= set(scaling)


@pytest.mark.parametrize("model", slow_but(["stages"], ["stages", "bit"]), indirect=True)
def test_kernels_are_standardised_once(model):
    _, graph = graph_of(model)
    assert counted(graph)["Sqrt"] == 0
    _, other = graph_of(model, rewrites=ALL - {"standardised_kernels"})
    assert counted(other)["Sqrt"] == counted(graph)["Conv2D"] > 5


def test_no_pad_is_before_a_pool(build):
    _, graph = graph_of(build(ARCHITECTURES["bit"], (32, 64)))
    [pool] = [op for op in graph.get_operations() if op.type == "MaxPool"]
    assert pool.inputs[0].op.type == "Maximum"


@pytest.mark.parametrize("model", ARCHITECTURES, indirect=True)
def test_the_form_for_npus_gives_the_same_without_space_to_depth(model, eager):
    graph, images = graph_with(model, parameters_of(model)), inputs_of(model)
    module = inference_module(prepare(dataclasses.replace(graph, for_npus=True)))
    [found] = module.serve(images).values()
    expected = outputs_of(model)["logits"]
    assert np.abs(found.numpy() - expected).max() < 1e-5 * np.abs(expected).max()
    assert counted(module.serve.get_concrete_function().graph)["SpaceToDepth"] == 0


@pytest.mark.parametrize("kind", ["stages", "bit"])
def test_no_kernel_of_one_pixel_has_strides(build, eager, kind):
    model = build(ARCHITECTURES[kind], (36, 64))  # 9 x 16 before the second stage
    assert_equals_keras(model, sets_of_rewrites=[ALL])
    _, graph = graph_of(model)
    convolutions = [op for op in graph.get_operations() if op.type == "Conv2D"]
    steps = [(op.inputs[1].shape[0], op.get_attr("strides")[1]) for op in convolutions]
    assert (3, 2) in steps
    assert (1, 2) not in steps


@pytest.mark.parametrize(("kind", "prefix"), [("token", 1), ("distilled", 2)])
def test_the_last_block_computes_only_the_class_and_distillation_tokens(build, kind, prefix):
    model = build(ARCHITECTURES[kind], (64, 96))
    tokens, width, mlp = 96 + prefix, 48, 112
    one = 2 * width**2 + 2 * tokens * width + 2 * width * mlp  # query, output and MLP
    for rewrites, computed in ((ALL, prefix), (ALL - {"class_token_only"}, tokens)):
        products = [
            op.outputs[0].shape.num_elements() * op.inputs[0].shape[-1]
            for op in graph_of(model, rewrites=rewrites)[1].get_operations()
            if op.type in ("MatMul", "BatchMatMulV2") and op.name.startswith("encoderblock_1/")
        ]
        assert sum(products) == 2 * tokens * width**2 + computed * one  # all keys and values


def test_a_distilled_graph_has_one_head_and_one_weight_of_both_tokens(build):
    names, _ = graph_of(build(ARCHITECTURES["distilled"]))
    assert names["head/kernel"] == (2 * 48, 5)
    assert names["patch_encoder/class_token"] == (1, 2, 48)
    assert not [name for name in names if "distillation" in name]


# And a factor of a product that only a norm reads.
@pytest.mark.parametrize(
    ("fields", "factors"),
    [({}, ""), ({"mlp_kind": "gated_norm"}, "|dense_0/"), ({"embedding_norm": True}, "")],
)
def test_only_writers_of_the_stream_are_divided_for_half_precision(build, fields, factors):
    model = build(variant(**fields))
    divided, whole = (
        {v.name: v.numpy() for v in module_of(model, rewrites=rewrites).variables_of_graph}
        for rewrites in (ALL, ALL - {"scaled_stream"})
    )
    assert divided.keys() == whole.keys()
    for name, values in whole.items():
        writes = re.search(rf"patch_encoder/|attention/out/|dense_1/{factors}", name)
        np.testing.assert_array_equal(divided[name], values / 16 if writes else values)


def test_weights_become_variables_from_the_last_to_the_first(token):
    parameters = prepare(graph_with(token, parameters_of(token))).weights
    module = inference_module(graph_with(token, parameters))
    variables = [v.name.removesuffix(":0") for v in module.variables_of_graph]
    assert variables == [*reversed(parameters)]
    assert len(variables) > 10
    assert all(hasattr(v, "assign") and not v.trainable for v in module.variables_of_graph)


def test_an_unknown_rewrite_is_refused():
    with pytest.raises(UsageError, match=r"unknown rewrite 'fold_norm'; did you mean fold_norms\?"):
        GraphOptions(rewrites=["fold_norm"])
