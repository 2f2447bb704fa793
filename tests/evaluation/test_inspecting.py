"""Every kind of model can be inspected, at any size, a batch and a block at a time."""

from types import SimpleNamespace

import numpy as np
import pytest

import keras_vit
from keras_vit import ResNetStem, UsageError, evaluation
from keras_vit.evaluation import attention_scores
from keras_vit.evaluation.learned_weights import position_table

SMALL = {"patch_size": 8, "hidden_dim": 24, "depth": 2, "num_heads": 3, "mlp_dim": 32}
# {name: (fields of the spec, image size)}
KINDS = {
    "token": ({}, (16, 32)),
    "gap": ({"pooling": "gap", "position_embedding": "learned2d"}, (24, 16)),
    "map": ({"pooling": "map", "position_embedding": "sincos2d"}, (16, 16)),
    "none": ({"pooling": "none"}, (16, 16)),
    "distilled": ({"pooling": "distilled"}, (16, 24)),
    "dinov2": (
        {"registers": 4, "layer_scale": 0.1, "mlp_kind": "gated", "pooling": "token_mean"},
        (16, 24),
    ),
    "timm": (
        {"registers": 4, "pooling": "gap", "qk_norm": True, "norm_after_pooling": True},
        (16, 24),
    ),
    "eva02": (
        {"rotation": "eva02", "pooling": "token_gap", "mlp_kind": "gated_norm", "registers": 1},
        (16, 24),
    ),
    "deit": ({"pooling": "distilled_token"}, (16, 24)),
    "relative": ({"position_embedding": "relative"}, (16, 24)),
    "without positions": ({"position_embedding": "none"}, (8, 8)),
    "hybrid": ({"patch_size": 2, "stem": ResNetStem()}, (20, 33)),
}

# How many tokens before the patches, the last ones, the head does not read.
UNREAD = {"dinov2": 4, "timm": 4, "eva02": 2, "deit": 1}


def built(name, **more):
    fields, size = KINDS[name]
    return keras_vit.ViT(keras_vit.ViTSpec(**{**SMALL, **fields, **more}), 4, size)


@pytest.fixture
def photos(rng):
    return [rng.integers(0, 255, (20 + i, 30, 3), np.uint8) for i in range(3)]


@pytest.mark.flavours
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_vit_is_inspected(name, randomised, photos):
    model = randomised(built(name, dropout=0.5, attention_dropout=0.5, drop_path=0.5))
    found = evaluation.inspect_model(model, photos)
    rows, columns = model.grid
    assert (found.filters is None) == (found.root_filters is not None) == (name == "hybrid")
    has_table = name not in ("relative", "without positions")
    assert (found.similarity is not None) == has_table
    assert (found.bias is not None) == (name == "relative")
    assert (found.logits is None) == (name == "none")
    stride = model.spec.stride
    assert found.pictures.shape == (3, rows * stride, columns * stride, 3)
    assert found.rollout.shape == (3, rows, columns)
    assert found.heads.shape == (3, 3, rows, columns)
    assert (found.distance.shape, found.distance_images, found.block) == ((2, 3), 3, 2)
    inputs = keras_vit.preprocess(photos, model)
    names = ("attention_0", "attention_1", "encoded")
    parts = model.intermediates(*names)(inputs, training=False)
    *scores, encoded = (np.asarray(parts[each]) for each in names)
    scores = np.stack(scores)
    expected = evaluation.attention_distance(scores, model.grid, stride).mean(axis=1)
    np.testing.assert_allclose(found.distance, expected, atol=1e-4)
    tokens = model.spec.prefix_tokens, UNREAD.get(name, 0)
    maps = evaluation.rollout(scores, *tokens).reshape(-1, *model.grid)
    for actual in (found.rollout, evaluation.attention_maps(model, inputs)):
        np.testing.assert_allclose(actual, maps, rtol=0, atol=1e-5)
    heads = evaluation.head_maps(scores[1], model.grid, UNREAD.get(name, 0))
    np.testing.assert_allclose(found.heads, heads, atol=1e-5)
    patches = encoded[:, model.spec.prefix_tokens :].reshape(3, rows, columns, -1)
    colours = evaluation.patch_pca(patches).colours
    np.testing.assert_allclose(found.features.colours, colours, atol=1e-3)


@pytest.mark.flavours
@pytest.mark.parametrize("name", ["token", "gap", "map", "distilled"])
def test_the_table_of_positions_is_what_the_model_adds(name, randomised, pictures):
    model = randomised(built(name))
    names = ("embedded", "patch_embeddings")
    found = model.intermediates(*names)(pictures(1, model.image_size), training=False)
    embedded, patches = (np.asarray(found[each])[0] for each in names)
    table = position_table(model)
    np.testing.assert_allclose(table, embedded[model.spec.prefix_tokens :] - patches, atol=1e-6)


@pytest.mark.flavours
@pytest.mark.parametrize("name", ["distilled", "relative"])
def test_blocks_compute_what_the_model_computes(name, randomised, pictures):
    model = randomised(built(name, dropout=0.5, attention_dropout=0.5, drop_path=0.5))
    inputs = pictures(2, model.image_size)
    names = [f"{kind}_{i}" for i in range(2) for kind in ("attention", "encoderblock")]
    expected = model.intermediates(*names)(inputs, training=False)
    for i, (scores, tokens) in enumerate(attention_scores.each_block(model, inputs)):
        np.testing.assert_allclose(scores, np.asarray(expected[f"attention_{i}"]), atol=1e-6)
        np.testing.assert_allclose(tokens, np.asarray(expected[f"encoderblock_{i}"]), atol=1e-5)


def test_attention_is_mapped_for_preprocessed_images_of_any_channels():
    model, zeros = built("token", in_channels=13), np.zeros((1, 16, 32, 13), np.float32)
    assert evaluation.attention_maps(model, zeros).shape == (1, 2, 4)
    with pytest.raises(UsageError, match="inputs must be preprocessed"):
        evaluation.attention_maps(built("token"), zeros[..., :3] + 255)


def test_images_are_read_a_batch_at_a_time(randomised, photos, monkeypatch):
    model, read, told = randomised(built("token")), [], []

    def each():
        for i, photo in enumerate(photos):
            read.append(i)
            yield photo

    expected = evaluation.inspect_model(model, images=photos).distance
    monkeypatch.setattr(attention_scores, "images_at_once", lambda model: 2)
    found = evaluation.inspect_model(
        model, photos[:1], each(), report=lambda done: told.append((done, len(read)))
    )
    assert told == [(2, 2), (3, 3)]
    assert found.distance_images == 3
    np.testing.assert_allclose(found.distance, expected, atol=1e-5)
    three = evaluation.inspect_model(model, photos)
    np.testing.assert_allclose(three.rollout[:1], found.rollout, atol=1e-5)
    np.testing.assert_allclose(three.logits[:1], found.logits, atol=1e-5)


def test_the_largest_models_are_walked_one_image_at_a_time():
    model = SimpleNamespace(spec=keras_vit.ViTSpec(8, 768, 12, 12, 3072), grid=(48, 48))
    assert attention_scores.images_at_once(model) == 1


def test_a_resnet_has_filters_and_features(randomised, photos):
    model = randomised(keras_vit.BiT(keras_vit.ResNetSpec((1,)), 4, (16, 24)))
    found = evaluation.inspect_model(model, photos)
    assert found.root_filters.shape == (64, 7, 7, 3)
    assert found.features.colours.shape == (3, 4, 6, 3)
    assert found.distance is found.rollout is found.similarity is None
    assert found.logits.shape == (3, 4)


def test_a_block_that_the_model_does_not_have_is_refused(photos):
    model = built("token")
    with pytest.raises(UsageError, match=r"block must be from 1 to 2, as the model has. Received"):
        evaluation.inspect_model(model, photos, block=3)
    with pytest.raises(UsageError, match="block is only for a ViT. Received: 1"):
        evaluation.inspect_model(keras_vit.BiT(keras_vit.ResNetSpec((1,)), 4, 32), photos, block=1)
    with pytest.raises(UsageError, match=r"expected a keras_vit.ViT or keras_vit.BiT"):
        evaluation.inspect_model("model", photos)
    with pytest.raises(UsageError, match=r"expected an image or more for the attention distance"):
        evaluation.inspect_model(model, images=[])
    assert evaluation.inspect_model(model, photos, block=1).block == 1
