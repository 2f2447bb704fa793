"""The inference graph: each rewrite removes operators, and none changes the outputs."""

import dataclasses
import functools
import itertools
import re
from collections import Counter

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError
from keras_vit.deploy.graph.balance import balance
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import forward, inference_module, prepare
from keras_vit.deploy.graph.rewrites import REWRITES, resolve_parameters, rewrite
from keras_vit.deploy.resolve import parameters_of
from keras_vit.models.pretrained import model_class
from keras_vit.parts.positions import POSITION_EMBEDDINGS
from keras_vit.specs import Preprocessing

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
        how = Preprocessing(*image_size, mean=(120.0, 110.0, 100.0), scale=(60.0, 50.0, 70.0))
        return randomised(model_class(spec)(spec, 5, image_size, preprocessing=how))

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
    how = model.preprocessing
    return ((pixels_of(model) - np.array(how.mean)) / np.array(how.scale)).astype(np.float32)


def scores_of(model):
    return np.asarray(model(inputs_of(model), training=False))


def assert_equals_keras(model, expected, **options):
    given = pixels_of(model) if options.get("input") == "uint8" else inputs_of(model)
    [(name, found)] = module_of(model, **options).serve(given).items()
    assert name == options.get("output", "logits")
    assert found.shape == expected.shape
    difference = np.abs(found.numpy() - expected).max() / np.abs(expected).max()
    assert difference < 1e-5, (model.spec, options)


@pytest.mark.parametrize(
    "pooling_and_representation",
    slow_but(
        [("gap", 20), ("map", None), ("distilled", None)],
        [*itertools.product(("token", "gap", "map", "none"), (None, 20)), ("distilled", None)],
    ),
)
def test_rewritten_equals_keras_for_every_pooling_and_position(
    build, eager, pooling_and_representation
):
    pooling, representation = pooling_and_representation
    for kind, positions in POSITION_EMBEDDINGS.items():
        if pooling == "distilled" and positions.bias:
            continue  # refused by ViTSpec
        gelu = "erf" if representation else "tanh"
        options = {"pooling": pooling, "representation_dim": representation, "gelu": gelu}
        model = build(variant(depth=1, position_embedding=kind, **options))
        expected = scores_of(model)
        for given in ("float32", "uint8"):
            for rewrites in (ALL, frozenset()):
                assert_equals_keras(model, expected, input=given, rewrites=rewrites)


@pytest.mark.slow
@pytest.mark.parametrize("model", ARCHITECTURES, indirect=True)
def test_each_rewrite_alone_and_each_left_out_equals_keras(model, eager):
    expected = scores_of(model)
    sets = [ALL, frozenset(), *(ALL - {name} for name in ALL), *(ALL & {name} for name in ALL)]
    for rewrites in sets:
        for given in ("float32", "uint8"):
            assert_equals_keras(model, expected, input=given, rewrites=rewrites)


@pytest.mark.parametrize("model", slow_but(("token", "distilled"), ARCHITECTURES), indirect=True)
def test_probabilities_and_features_equal_keras(model, eager):
    outputs = model.intermediates("pre_logits", "logits")(inputs_of(model), training=False)
    features, logits = (np.asarray(outputs[name]) for name in ("pre_logits", "logits"))
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    expected = exponents / exponents.sum(-1, keepdims=True)
    for rewrites in (ALL, frozenset()):
        for given in ("float32", "uint8"):
            options = {"input": given, "rewrites": rewrites}
            assert_equals_keras(model, expected, output="probabilities", **options)
            assert_equals_keras(model, features, output="features", **options)


@pytest.mark.parametrize(
    "model",
    slow_but(("token", "stages"), ("token", "stages", "map", "distilled", "bit")),
    indirect=True,
)
def test_a_traced_graph_accepts_any_batch_unless_it_is_fixed(model):
    images, expected = inputs_of(model), scores_of(model)
    serve = module_of(model).serve.get_concrete_function()
    for count in (1, 3):
        found = serve(images[:count])["logits"].numpy()
        np.testing.assert_allclose(found, expected[:count], atol=1e-5 * np.abs(expected).max())
    fixed = module_of(model, batch=1).serve.get_concrete_function().graph
    shapes = [tensor.shape for op in fixed.get_operations() for tensor in op.outputs]
    assert all(shape.is_fully_defined() for shape in shapes)
    assert not {"Shape", "Tile", "Pack", "BroadcastTo", "ExpandDims"} & counted(fixed).keys()


@pytest.mark.parametrize(
    "model", ["token", "gap", "map", "distilled", "none", "stages"], indirect=True
)
def test_balancing_does_not_change_the_outputs(model, rng):
    spec, images, expected = model.spec, inputs_of(model), scores_of(model)
    layers = "encoderblock_0/attention/query", "pooling/attention/probed", "head"
    layers += tuple(f"encoderblock_{i}{layer}" for i in (0, 1) for layer in ("", "/mlp/dense_0"))
    for spread in (0.0, 3.0):
        parameters = parameters_of(model)
        for name in [n for n in parameters if n.endswith(("query/kernel", "dense_0/kernel"))]:
            parameters[name][5] *= 50 * spread + 1  # a large row, so that smoothing is applied
        graph = graph_with(model, parameters)
        resolve_parameters(spec, parameters, model.grid)
        rewrite(spec, parameters, model.preprocessing, ALL, uint8=False)
        before = forward(graph, images).numpy()
        sizes = {name: len(parameters.get(f"{name}/kernel", range(48))) for name in layers}
        ranges = {
            name: np.exp2(rng.normal(0, spread, size)).astype(np.float32)
            for name, size in sizes.items()
        }
        balance(spec, parameters, ranges)
        scale = parameters["stream/scale"]
        assert (scale.max() > 1) == (spread > 0)
        assert np.array_equal(np.log2(scale), np.rint(np.log2(scale)))
        smoothed = {name for name in parameters if name.endswith("/smooth")}
        assert ("encoderblock_1/norm_mlp/smooth" in smoothed) == (spread > 0)
        after = forward(graph, images).numpy()
        np.testing.assert_allclose(after, before, atol=2e-5 * np.abs(before).max(), rtol=0)
        if not spread:
            np.testing.assert_allclose(after, expected, atol=1e-5 * np.abs(expected).max())


def counted(graph) -> Counter:
    return Counter(op.type for op in graph.get_operations())


def graph_of(model, **options):
    """The names of the weights with their shapes, and the traced graph."""
    module = module_of(model, batch=1, **options)
    graph = module.serve.get_concrete_function().graph
    return {v.name.removesuffix(":0"): tuple(v.shape) for v in module.variables_of_graph}, graph


def test_folded_norms_have_no_scale_and_no_shift(token):
    names, graph = graph_of(token)
    assert not [name for name in names if name.endswith(("gamma", "beta"))]
    left, other = graph_of(token, rewrites=ALL - {"fold_norms"})
    assert sum(name.endswith(("gamma", "beta")) for name in left) == 2 * 5
    assert counted(other)["Mul"] == counted(graph)["Mul"] + 5
    # The last norm has no reader if the output is the features.
    features, _ = graph_of(token, output="features")
    kept = {n for n in features if n.endswith(("gamma", "beta"))}
    assert kept == {"encoder_norm/gamma", "encoder_norm/beta"}


def test_queries_contain_the_scale_and_keys_and_values_have_no_bias(token):
    names, graph = graph_of(token)
    assert not [name for name in names if name.endswith(("key/bias", "value/bias"))]
    left, other = graph_of(token, rewrites=ALL - {"attention_biases"})
    assert {n for n in left if n not in names} == {
        f"encoderblock_{i}/attention/{layer}/bias" for i in (0, 1) for layer in ("key", "value")
    }
    assert counted(other)["Mul"] == counted(graph)["Mul"] + 2


def test_norms_of_a_centred_stream_compute_no_mean(token):
    _, graph = graph_of(token)
    assert counted(graph)["Mean"] == 5
    assert counted(graph)["Sub"] == 0
    _, other = graph_of(token, rewrites=ALL - {"centre"})
    assert (counted(other)["Mean"], counted(other)["Sub"]) == (10, 5)


def test_constants_are_folded_into_one(token, build):
    names, graph = graph_of(token)
    left, other = graph_of(token, rewrites=ALL - {"constants"})
    gone = {"patch_encoder/class_position", "patch_encoder/projection/bias"}
    assert {n for n in left if n not in names} == gone
    assert counted(other)["AddV2"] == counted(graph)["AddV2"] + 2
    probed = build(ARCHITECTURES["map"])
    names, _ = graph_of(probed)
    assert names["pooling/attention/probed/kernel"] == (48, 3)
    assert not {"pooling/probe", "pooling/attention/query/kernel"} & names.keys()
    left, _ = graph_of(probed, rewrites=ALL - {"constants"})
    assert {"pooling/probe", "pooling/attention/query/kernel"} <= left.keys()


def test_pixels_are_scaled_inside_the_first_kernel(token, build):
    def on_pixels(graph):
        return {op.type for op in graph.get_operations() if op.name.startswith("pixels/")}

    _, graph = graph_of(token, input="uint8")
    assert graph.inputs[0].dtype.name == "uint8"
    assert not on_pixels(graph)
    assert counted(graph)["Sub"] == 0
    _, other = graph_of(token, input="uint8", rewrites=ALL - {"uint8_input"})
    assert {"Sub", "Mul"} <= on_pixels(other)
    # Zero padding means grey after scaling, but black before it.
    stem = build(ARCHITECTURES["stem"], (64, 96))
    assert {"Sub", "Mul"} <= on_pixels(graph_of(stem, input="uint8")[1])


@pytest.mark.parametrize("kind", ["stages", pytest.param("bit", marks=pytest.mark.slow)])
def test_kernels_are_standardised_once(build, kind):
    model = build(ARCHITECTURES[kind], (64, 96))
    _, graph = graph_of(model)
    assert counted(graph)["Sqrt"] == 0
    _, other = graph_of(model, rewrites=ALL - {"standardised_kernels"})
    assert counted(other)["Sqrt"] == counted(graph)["Conv2D"] > 5


def test_no_pad_is_before_a_pool(build):
    _, graph = graph_of(build(ARCHITECTURES["bit"], (32, 64)))
    [pool] = [op for op in graph.get_operations() if op.type == "MaxPool"]
    assert pool.inputs[0].op.type == "Maximum"


@pytest.mark.parametrize("kind", ["stages", "bit"])
def test_no_kernel_of_one_pixel_has_strides(build, eager, kind):
    model = build(ARCHITECTURES[kind], (36, 64))  # 9 x 16 before the second stage
    assert_equals_keras(model, scores_of(model))
    _, graph = graph_of(model)
    convolutions = [op for op in graph.get_operations() if op.type == "Conv2D"]
    steps = [(op.inputs[1].shape[0], op.get_attr("strides")[1]) for op in convolutions]
    assert (3, 2) in steps
    assert (1, 2) not in steps


def last_block(graph) -> int:
    """The multiplications of the matrix products of the last block."""
    return sum(
        op.outputs[0].shape.num_elements() * op.inputs[0].shape[-1]
        for op in graph.get_operations()
        if op.type in ("MatMul", "BatchMatMulV2") and op.name.startswith("encoderblock_1/")
    )


def test_the_last_block_computes_only_the_class_token(build):
    model = build(TOKEN, (64, 96))
    alone, whole = (
        last_block(graph_of(model, rewrites=ALL - left_out)[1])
        for left_out in (set(), {"class_token_only"})
    )
    tokens, width, mlp = 97, 48, 112
    assert whole == tokens * (4 * width**2 + 2 * width * mlp) + 2 * tokens**2 * width
    one = 2 * width**2 + 2 * width * mlp  # query, output and MLP for one token
    assert alone == 2 * tokens * width**2 + 2 * tokens * width + one


def test_a_distilled_graph_has_one_head_and_computes_two_tokens_in_the_last_block(build):
    model = build(ARCHITECTURES["distilled"], (64, 96))
    names, graph = graph_of(model)
    assert names["head/kernel"] == (2 * 48, 5)
    assert names["patch_encoder/class_token"] == (1, 2, 48)
    assert not [name for name in names if "distillation" in name]
    tokens, width, mlp = 98, 48, 112
    each = 2 * width**2 + 2 * tokens * width + 2 * width * mlp
    assert last_block(graph) == 2 * tokens * width**2 + 2 * each  # keys and values of all tokens


def test_only_writers_of_the_stream_are_divided_for_half_precision(token):
    names, _ = graph_of(token)
    assert names == graph_of(token, rewrites=ALL - {"scaled_stream"})[0]
    divided, whole = (
        {v.name: v.numpy() for v in module_of(token, rewrites=rewrites).variables_of_graph}
        for rewrites in (ALL, ALL - {"scaled_stream"})
    )
    for name, values in whole.items():
        writes = re.search(r"patch_encoder/|attention/out/|dense_1/", name)
        np.testing.assert_array_equal(divided[name], values / 16 if writes else values)


def test_weights_are_moved_into_variables(token):
    parameters = parameters_of(token)
    module = inference_module(prepare(graph_with(token, parameters)))
    assert parameters == {}
    assert all(hasattr(v, "assign") and not v.trainable for v in module.variables_of_graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewrites": ["fold_norm"]}, "unknown rewrite 'fold_norm'; did you mean fold_norms?"),
        ({"input": "int8"}, "input must be one of float32, uint8. Received: input='int8'"),
        ({"output": "scores"}, "output must be one of logits, probabilities, features. Received"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        GraphOptions(**options)
