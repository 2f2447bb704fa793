"""An imaginary part of each kind, added as CONTRIBUTING.md says.

Each is one record in its table, and the pooling has a Keras layer. Nothing else is changed, and all
rooms of the library must know them: a room with a list of kinds of its own fails here.
"""

import dataclasses

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, ViTSpec, deploy
from keras_vit._keras import keras, register
from keras_vit.deploy.graph.graph_options import GraphOptions, InferenceGraph
from keras_vit.deploy.graph.inference import inference_module, prepare
from keras_vit.deploy.graph.rewrites import REWRITES
from keras_vit.deploy.resolve import parameters_of
from keras_vit.encoder import block, embedding, positions
from keras_vit.encoder.poolings import POOLINGS, Pooling
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.encoder.weight_rows import Row, rows
from keras_vit.layers.pooling import POOLING_LAYERS, PoolingLayer
from keras_vit.training import Recipe, build
from keras_vit.training.settings import check_recipe

SIZE, LARGER = (16, 24), (24, 40)  # grids of 2 x 3 and 3 x 5 patches


# "ramp" acts in both places: slopes along rows and columns are added to the patches, and each head
# weighs the distance between two patches.
def _table(weights, tokens, width, ops):
    slopes = ops.reshape(weights["slopes"], (1, 2, width))
    rows, columns = np.indices(tokens.grid, np.float32).reshape(2, 1, -1, 1)  # (1, patches, 1)
    return slopes[:, :1] * rows + slopes[:, 1:] * columns  # (1, patches, width)


def _bias(weights, tokens, ops):
    places = np.indices(tokens.grid, np.float32).reshape(2, -1)  # (2, patches)
    distance = np.abs(places[:, :, None] - places[:, None]).sum(0)
    distance = np.pad(distance, (tokens.prefix, 0))  # (tokens, tokens)
    return ops.reshape(weights["decay"], (1, -1, 1, 1)) * distance  # (1, heads, tokens, tokens)


def _resample_slopes(slopes, old, new, prefix, method):
    return slopes * (np.subtract(old, 1) / np.subtract(new, 1))[:, None]


SLOPES = positions.PositionWeight("slopes", "slopes", lambda _, d: (2, d), _resample_slopes, 0.1)
DECAY = positions.PositionWeight("decay", "decay", lambda _, n: (1, n), lambda decay, *_: decay)
RAMP = positions.PositionEmbedding(
    (SLOPES,), table=_table, attention_weights=(DECAY,), bias=_bias, width_multiple=6
)


# "both" has the weights of two kinds: a file of it has the keys of each of them.
LEARNED, RELATIVE = POSITION_EMBEDDINGS["learned"], POSITION_EMBEDDINGS["relative"]
BOTH = dataclasses.replace(
    LEARNED, attention_weights=RELATIVE.attention_weights, bias=RELATIVE.bias
)


# "energy" has a weight, and is not linear.
@register
class EnergyPooling(PoolingLayer):
    kind = "energy"


ENERGY = Pooling(
    lambda ops, x: ops.scale("gains", ops.mean(ops.product(x, ops.dense("weigh", x)))),
    rows=rows("""
EnergyHead_0/gains           gains           ones      D
EnergyHead_0/weigh/kernel    weigh/kernel    glorot    D D
EnergyHead_0/weigh/bias      weigh/bias      zeros     D
"""),
)


# "memory" has two learned tokens more. It reads the last norm by itself and through a Dense layer.
@register
class MemoryPooling(PoolingLayer):
    kind = "memory"


MEMORY = Pooling(
    lambda ops, x: ops.add("sum", ops.flat(ops.first(x, 1)), ops.mean(ops.dense("recall", x))),
    ("class_token", "memory_token"),
    rows("""
MemoryHead_0/kernel    recall/kernel    glorot    D D
MemoryHead_0/bias      recall/bias      zeros     D
"""),
)
MEMORY_TOKEN = Row("memory", "memory_token", ("1", "2", "D"), "zeros")


# "squared" has a third Dense layer, whose output is multiplied with itself.
def _squared(ops, x):
    y = ops.dense("square", x)
    return ops.dense("dense_1", ops.product(ops.product(y, y), ops.dense("dense_0", x)))


_GATE = """
Square_0/kernel    square/kernel    glorot    D M
Square_0/bias      square/bias      tiny      M
"""
SQUARED = block.MLPKind(_squared, [*rows(_GATE), *block.PLAIN_ROWS])


# "doubled" reads a product by a norm and as it is.
def _doubled(ops, x):
    product = ops.product(ops.dense("square", x), ops.dense("dense_0", x))
    return ops.dense("dense_1", ops.add("both", product, ops.norm("norm", product)))


_NORM = """
Norm_0/scale    norm/gamma    ones     M
Norm_0/bias     norm/beta     zeros    M
"""
DOUBLED = block.MLPKind(_doubled, [*SQUARED.rows, *rows(_NORM)])


# "spin" turns by the number of the patch.
def _spin(grid, head_dim):
    return np.outer(np.arange(grid[0] * grid[1]), np.linspace(0.1, 1, head_dim // 2))


KINDS = {
    "ramp": {"position_embedding": "ramp"},
    "energy": {"pooling": "energy"},
    "memory": {"pooling": "memory"},
    "squared": {"mlp_kind": "squared"},
    "doubled": {"mlp_kind": "doubled"},
    "spin": {"rotation": "spin"},
    "both and scale": {"position_embedding": "both", "layer_scale": 0.1},
    "energy and ramp": {"position_embedding": "ramp", "pooling": "energy", "mlp_kind": "squared"},
    "memory and ramp": {"pooling": "memory", "position_embedding": "ramp"},
    "memory and spin": {
        **{"pooling": "memory", "rotation": "spin"},
        **{"layer_scale": 0.1, "qk_norm": True, "registers": 2},
        **{"query_bias": False, "key_bias": False},
    },
}


@pytest.fixture(params=KINDS)
def model(request, monkeypatch, randomised):
    """A model of the imaginary kinds, whose weights are not zeros and ones."""
    monkeypatch.setitem(POSITION_EMBEDDINGS, "ramp", RAMP)
    monkeypatch.setitem(POSITION_EMBEDDINGS, "both", BOTH)
    monkeypatch.setitem(POOLINGS, "energy", ENERGY)
    monkeypatch.setitem(POOLING_LAYERS, "energy", lambda spec, name: EnergyPooling(name=name))
    monkeypatch.setitem(embedding.TOKENS, "memory_token", MEMORY_TOKEN)
    monkeypatch.setitem(POOLINGS, "memory", MEMORY)
    monkeypatch.setitem(POOLING_LAYERS, "memory", lambda spec, name: MemoryPooling(name=name))
    monkeypatch.setitem(block.MLPS, "squared", SQUARED)
    monkeypatch.setitem(block.MLPS, "doubled", DOUBLED)
    monkeypatch.setitem(positions.ROTATIONS, "spin", _spin)
    spec = ViTSpec(8, 48, 2, 3, 112, **KINDS[request.param])
    return randomised(keras_vit.ViT(spec, 5, SIZE, labels=list("abcde")))


@pytest.fixture
def images(rng):
    return rng.normal(size=(4, *SIZE, 3)).astype(np.float32)


def assert_same(model, again, images):
    assert (again.spec, again.image_size) == (model.spec, model.image_size)
    np.testing.assert_array_equal(np.asarray(again(images)), np.asarray(model(images)))


def test_the_spec_knows_the_kinds_constraints(model):
    tokens = {"energy": 0, "token": 1, "memory": 3}[model.spec.pooling]
    assert model.spec.prefix_tokens == tokens + model.spec.registers
    if model.spec.position_embedding == "ramp":
        with pytest.raises(UsageError, match="'ramp' needs .* multiple of 6. Received"):
            ViTSpec(8, 32, 2, 2, 112, position_embedding="ramp")
    with pytest.raises(UsageError, match="must be one of learned, .*, both. Received"):
        ViTSpec(8, 48, 2, 3, 112, position_embedding="slope")
    with pytest.raises(UsageError, match="must be one of token, .*, memory. Received"):
        ViTSpec(8, 48, 2, 3, 112, pooling="max")


def test_the_kind_changes_what_the_model_computes(model, images):
    moved = np.asarray(model(np.roll(images, 8, axis=2)))  # by one patch
    difference = np.abs(np.asarray(model(images)) - moved).max()
    assert difference > 1e-3


@pytest.mark.flavours
def test_a_keras_file_brings_it_back(model, images, tmp_path):
    model.save(tmp_path / "model.keras")
    assert_same(model, keras.models.load_model(tmp_path / "model.keras"), images)


def test_a_file_of_weights_brings_it_back_and_is_resampled_to_another_size(model, images, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    assert_same(model, keras_vit.model_from_weights(tmp_path / "weights.npz"), images)
    larger = keras_vit.model_from_weights(tmp_path / "weights.npz", image_size=LARGER)
    assert larger.image_size == LARGER
    if model.spec.position_embedding == "ramp":
        slopes, actual = (np.asarray(m.get_layer("patch_encoder").slopes) for m in (model, larger))
        np.testing.assert_allclose(actual, slopes / 2, rtol=1e-6)


# A rotation has no weights.
@pytest.mark.parametrize("model", [k for k in KINDS if "rotation" not in KINDS[k]], indirect=True)
def test_a_file_without_a_description_shows_it_by_its_keys(model, images, tmp_path):
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    np.savez(tmp_path / "bare.npz", **np.load(tmp_path / "weights.npz"))  # as other programs write
    again = keras_vit.model_from_weights(tmp_path / "bare.npz", image_size=SIZE)
    shown = dataclasses.replace(again.spec, layer_scale=model.spec.layer_scale)
    assert bool(again.spec.layer_scale) == bool(model.spec.layer_scale)
    assert (shown, again.image_size) == (model.spec, model.image_size)
    np.testing.assert_array_equal(np.asarray(again(images)), np.asarray(model(images)))


def test_other_programs_layouts_refuse_it(model, tmp_path):
    # timm has LayerScale.
    for layout in ("transformers",) if model.spec.layer_scale else ("timm", "transformers"):
        with pytest.raises(UsageError, match="save a .npz|save this|cannot store"):
            keras_vit.save_weights(model, tmp_path / "model.safetensors", layout)


@pytest.mark.flavours
@pytest.mark.parametrize("kind", [{"position_embedding": "waves"}, {"pooling": "mean"}])
def test_a_kind_without_weights_is_refused_there_too(monkeypatch, tmp_path, kind):
    monkeypatch.setitem(POSITION_EMBEDDINGS, "waves", POSITION_EMBEDDINGS["sincos2d"])
    monkeypatch.setitem(POOLINGS, "mean", POOLINGS["gap"])
    monkeypatch.setitem(POOLING_LAYERS, "mean", POOLING_LAYERS["gap"])
    model = keras_vit.ViT(ViTSpec(8, 48, 1, 3, 112, **kind), 5, SIZE)
    with pytest.raises(UsageError, match="timm has (learned positions or none|pooling token, gap)"):
        keras_vit.save_weights(model, tmp_path / "model.safetensors")


def test_the_exported_file_gives_the_logits_of_keras(model, images):
    actual = deploy.Runner(deploy.to_tflite(model)).predict(images)
    assert_near(actual, np.asarray(model(images, training=False)))


SLOW_GRAPHS = [((), False), ((), True), (("fold_norms",), False), (("constants",), False)]


@pytest.mark.parametrize(
    ("left_out", "balanced"),
    [(REWRITES, False), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW_GRAPHS)],
)
def test_the_graph_gives_them_balanced_and_without_rewrites(model, images, left_out, balanced):
    options = GraphOptions(batch=None, rewrites=frozenset(REWRITES) - set(left_out))
    graph = InferenceGraph(model.spec, parameters_of(model), SIZE, model.preprocessing, options)
    module = inference_module(prepare(graph, images if balanced else None))
    actual = module.serve.python_function(images)["logits"].numpy()
    assert_near(actual, np.asarray(model(images, training=False)))


def assert_near(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=2e-5 * np.abs(expected).max(), rtol=0)


def test_a_recipe_may_choose_the_position_embedding(monkeypatch):
    ramp = dataclasses.replace(RAMP, width_multiple=1)
    monkeypatch.setitem(POSITION_EMBEDDINGS, "ramp", ramp)
    recipe = Recipe(position_embedding="ramp", image_size=32, batch_size=2)
    model = build("ViT_Pico4", ("a", "b"), recipe)
    assert model.spec.position_embedding == "ramp"
    assert model.get_layer("patch_encoder").slopes.shape == (2, model.spec.hidden_dim)
    with pytest.raises(UsageError, match="must be one of learned, .*, ramp. Received"):
        check_recipe(dataclasses.replace(recipe, position_embedding="rump"), "ViT_Pico4")
