"""EoMT against transformers and its own code: outputs, files in both directions, new heads."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit import UsageError, evaluation
from keras_vit._keras import keras
from keras_vit.encoder.dense_heads import DENSE_FIELDS
from keras_vit.models.profile import profile
from keras_vit.weights.names import parameter_count

KINDS = ("transformers", "transformers_dinov3", "own", "own_dinov3")
# What the own files do not state.
ARGUMENTS = {
    "own": {"num_heads": 2},
    "own_dinov3": {"num_heads": 2, "image_size": 32},
}


@pytest.fixture
def folder(fixtures):
    return fixtures / "eomt"


def built(folder, kind, **others):
    return keras_vit.model_from_weights(folder / kind, **{**ARGUMENTS.get(kind, {}), **others})


def expected(folder, kind):
    """The inputs, and masks and classes without masked attention."""
    arrays = np.load(folder / kind / "io.npz")
    inputs = arrays["pixel_values"].transpose(0, 2, 3, 1)
    masks = arrays["none/mask_logits"].transpose(0, 2, 3, 1)
    return inputs, {"masks": masks, "classes": arrays["none/class_logits"]}


def assert_near(actual, expected, atol=2e-5):
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        # float32 rounds by a part of the largest value, which is 26 in "own_dinov3".
        bound = max(atol, 2e-6 * np.abs(array).max()) if atol else 0
        np.testing.assert_allclose(np.asarray(actual[name]), array, atol=bound, rtol=0)


@pytest.mark.flavours
@pytest.mark.parametrize("kind", KINDS)
def test_masks_and_classes_equal_the_references(folder, kind):
    model, (inputs, outputs) = built(folder, kind), expected(folder, kind)
    assert model.task == "panoptic"
    assert_near(model(inputs), outputs)
    assert all(each.dtype == "float32" for each in model.predict(inputs, verbose=0).values())


def test_what_the_blocks_see_equals_transformers(folder):
    """The embedding, the blocks before the queries, and all tokens after the last norm."""
    model, arrays = built(folder, "transformers"), np.load(folder / "transformers" / "io.npz")
    names = {"embedded": "embeddings", "encoderblock_0": "layer0", "encoded": "last_hidden_state"}
    found = model.intermediates(*names, "feature_map")(arrays["pixel_values"].transpose(0, 2, 3, 1))
    for name, other in names.items():
        np.testing.assert_allclose(found[name], arrays[f"none/{other}"], atol=2e-5, rtol=0)
    # (2, 16, 48) to (2, 4, 4, 48)
    patches = arrays["none/last_hidden_state"][:, -16:].reshape(2, 4, 4, 48)
    np.testing.assert_allclose(found["feature_map"], patches, atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_other_programs_are_written_unchanged(folder, kind, tmp_path):
    """The same names, shapes and bits, and in transformers a config.json of the same meaning."""
    model, file = built(folder, kind), tmp_path / "model.safetensors"
    keras_vit.save_weights(model, file, "eomt" if "own" in kind else "transformers")
    read, written = (load_file(path) for path in (folder / kind / file.name, file))
    read.pop("criterion.empty_weight") if "own" in kind else None
    read = {name.removeprefix("network."): array for name, array in read.items()}
    assert written.keys() == read.keys()
    for name, array in read.items():
        if name == "attn_mask_probs":  # what training ends with
            array = np.zeros_like(array)
        np.testing.assert_array_equal(written[name], array, strict=True)
    if "own" in kind:
        return
    configs = (json.loads((at / "config.json").read_text()) for at in (folder / kind, tmp_path))
    reference, config = configs
    unsaid = {"layerscale_value", "id2label", "label2id", "transformers_version"}
    same = {name for name in reference.keys() & config.keys() if name not in unsaid}
    assert {name: config[name] for name in same} == {name: reference[name] for name in same}
    assert {"num_blocks", "num_queries", "num_upscale_blocks", "num_register_tokens"} <= same
    again = keras_vit.model_from_weights(tmp_path)
    assert again.spec == model.spec


@pytest.mark.flavours
@pytest.mark.parametrize("suffix", ["npz", "keras"])
def test_saved_models_are_loaded(folder, tmp_path, suffix):
    model, (inputs, _) = built(folder, "transformers"), expected(folder, "transformers")
    file = tmp_path / f"model.{suffix}"
    if suffix == "keras":
        model.save(file)
        again = keras.models.load_model(file)
    else:
        keras_vit.save_weights(model, file)
        again = keras_vit.model_from_weights(file)
    assert again.spec == model.spec
    assert_near(again(inputs), {name: np.asarray(each) for name, each in model(inputs).items()}, 0)


def test_the_position_of_the_class_token_is_kept_by_files_without_one(folder, tmp_path):
    """A DINOv2 that becomes an EoMT has one; EoMT's tables have rows for patches only."""
    model, (inputs, _) = built(folder, "transformers"), expected(folder, "transformers")
    positions = model.get_layer("patch_encoder").positions
    table = np.array(positions)
    assert not table[:, 0].any()
    table[:, 0] = np.linspace(-1, 1, 48)
    positions.assign(table)
    for layout in ("transformers", "eomt"):
        file = tmp_path / layout / "model.safetensors"
        keras_vit.save_weights(model, file, layout)
        again = keras_vit.model_from_weights(file)
        assert not np.asarray(again.get_layer("patch_encoder").positions)[:, 0].any()
        assert_near(again(inputs), model(inputs), 1e-6)


def test_a_new_classifier_keeps_the_queries(folder):
    model, other = built(folder, "transformers"), built(folder, "transformers", num_classes=9)
    for name in ("query_tokens", "mask_dense_0", "upscaling_0_depthwise"):
        for one, two in zip(
            *(each.get_layer(name).weights for each in (model, other)), strict=True
        ):
            np.testing.assert_array_equal(one, two)
    head = other.get_layer("head")
    assert head.kernel.shape == (48, 10)
    assert not np.asarray(head.kernel).any()
    keras_vit.load_weights(model, folder / "transformers", head="reset")
    assert not np.asarray(model.get_layer("head").kernel).any()


def test_other_queries_begin_anew(folder):
    """The encoder is that of the file."""
    model = built(folder, "transformers", num_queries=4, query_blocks=1, head_cells=4)
    inputs, _ = expected(folder, "transformers")
    outputs = model(inputs)
    assert outputs["masks"].shape == (2, 16, 16, 4)
    assert outputs["classes"].shape == (2, 4, 6)
    same = ("encoderblock_0",)
    one, two = (
        each.intermediates(*same)(inputs)["encoderblock_0"]
        for each in (model, built(folder, "transformers"))
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["transformers", "transformers_dinov3"])
def test_an_encoder_gets_queries_and_loses_them(folder, tmp_path, kind):
    """An EoMT's encoder is a classifier's, without a weight of the queries, and the other way."""
    inputs, _ = expected(folder, kind)
    classifier = built(folder, kind, num_classes=3, dense_head="none")
    assert classifier.output_shape == (None, 3)
    keras_vit.save_weights(classifier, tmp_path / "weights.npz")
    fields = {"num_queries": 7, "query_blocks": 1, "head_cells": 2}
    eomt = keras_vit.model_from_weights(
        tmp_path / "weights.npz", num_classes=3, dense_head="eomt", **fields
    )
    np.testing.assert_array_equal(
        *(
            each.intermediates("encoderblock_1")(inputs)["encoderblock_1"]
            for each in (classifier, eomt)
        )
    )
    headless = built(folder, kind, num_classes=0)
    patches = headless(inputs)  # of the encoder alone
    names = ("feature_map",)
    # (2, 4, 4, 48) to (2, 16, 48)
    seen = classifier.intermediates(*names)(inputs)["feature_map"].numpy().reshape(2, 16, 48)
    np.testing.assert_allclose(patches, seen, atol=1e-6)


def test_windows_are_written_as_they_were_read(folder, tmp_path):
    model = built(folder, "transformers")
    model.preprocessing = keras_vit.Preprocessing(32, 32, crop=1.0, mean=120.0)
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")
    config = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert (config["image_processor_type"], config["do_split_image"]) == (
        "EomtImageProcessor",
        True,
    )
    assert config["size"] == {"shortest_edge": 32, "longest_edge": None}
    assert built(tmp_path, ".").preprocessing == model.preprocessing


def test_pictures_are_padded_for_queries_alone(folder, tmp_path):
    """A classifier from their encoder can be exported, as if it was another one's."""
    model = built(folder, "transformers")
    model.preprocessing = keras_vit.Preprocessing(32, 32, mean=120.0, pad=True)
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")
    assert built(tmp_path, ".").preprocessing == model.preprocessing
    for others in ({"num_classes": 0}, {"dense_head": "none"}, {"dense_head": "linear"}):
        again = built(tmp_path, ".", **others)
        assert again.preprocessing == dataclasses.replace(model.preprocessing, pad=False)


def test_every_weight_is_trained_and_half_precision_is_near(folder):
    model, (inputs, outputs) = built(folder, "transformers"), expected(folder, "transformers")
    model.compile(keras.optimizers.SGD(0.1), {"masks": "mse", "classes": "mse"})
    before = [np.array(weight) for weight in model.trainable_weights]
    targets = {name: array + 1 for name, array in outputs.items()}
    model.fit(inputs, targets, verbose=0)
    still = [
        weight.path
        for weight, old in zip(model.trainable_weights, before, strict=True)
        if np.array_equal(weight, old)
    ]
    assert [path for path in still if "key/bias" not in path] == []  # softmax ignores it
    half = built(folder, "transformers", dtype="mixed_bfloat16")(inputs)
    assert half["masks"].dtype == half["classes"].dtype == "float32"
    assert_near(half, outputs, 0.1 * np.abs(outputs["masks"]).max())


def test_differences_are_added_to_their_encoder(folder, tmp_path):
    """As EoMT publishes its weights for DINOv3, whose licence is another."""
    (inputs, outputs), rng = expected(folder, "own_dinov3"), np.random.default_rng(0)
    model = built(folder, "own_dinov3")
    encoder = keras_vit.ViT(dataclasses.replace(model.spec, **DENSE_FIELDS), 0, 32)
    keras_vit.load_weights(encoder, folder / "own_dinov3", head="reset")
    arrays = load_file(folder / "own_dinov3" / "model.safetensors")
    names = {}
    for weight in encoder.weights:
        weight.assign(weight + rng.normal(0, 0.01, weight.shape).astype(np.float32))
    keras_vit.save_weights(encoder, tmp_path / "model.safetensors", "transformers")
    base = load_file(tmp_path / "model.safetensors")
    for name in arrays:
        if "backbone" in name:
            own = name.removeprefix("network.encoder.backbone.")
            names[name] = own.replace("patch_embed.", "embeddings.").replace("blocks.", "layer.")
            arrays[name] = arrays[name] - base[names[name]]
    assert len(names) == 40
    save_file(arrays, tmp_path / "differences.safetensors")
    with pytest.raises(UsageError, match="holds differences from an encoder's weights"):
        built(tmp_path, "differences.safetensors", **ARGUMENTS["own_dinov3"])
    added = built(tmp_path, "differences.safetensors", **ARGUMENTS["own_dinov3"], added_to=tmp_path)
    assert_near(added(inputs), outputs, 5e-5)


@pytest.mark.parametrize("kind", ["transformers", "own", "own_dinov3"])
def test_nothing_is_added_to_whole_weights(folder, kind):
    with pytest.raises(UsageError, match="own files with DINOv3|holds whole weights"):
        built(folder, kind, added_to=folder / "transformers")


def test_weights_with_which_transformers_masks_attention_are_refused(folder, tmp_path):
    """Its own default; their encoder is as good as another one."""
    shutil.copytree(folder / "transformers", tmp_path, dirs_exist_ok=True)
    arrays = load_file(tmp_path / "model.safetensors")
    arrays["attn_mask_probs"] = np.float32([0, 1])
    save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(
        UsageError, match=r"attn_mask_probs \[0.0, 1.0\], by which transformers mask"
    ):
        keras_vit.model_from_weights(tmp_path)
    keras_vit.model_from_weights(tmp_path, num_classes=3, dense_head="none")


def test_own_files_say_how_pictures_are_prepared(folder, tmp_path):
    pads = keras_vit.Preprocessing(
        32, 32, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375), pad=True
    )
    model = built(folder, "own")
    assert model.preprocessing == pads
    model.preprocessing = dataclasses.replace(pads, mean=127.5, scale=(51, 51, 102))
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "eomt")
    arrays = load_file(tmp_path / "model.safetensors")
    assert arrays["encoder.pixel_mean"].ravel().tolist() == [0.5] * 3
    np.testing.assert_allclose(arrays["encoder.pixel_std"].ravel(), [0.2, 0.2, 0.4], rtol=1e-6)


def test_parameters_and_operations_are_counted(folder):
    model = built(folder, "transformers")
    assert parameter_count(model.spec, 5, 32) == model.count_params()
    flops = {layer.name: layer.flops for layer in profile(model.spec, 5, 32)}
    assert flops["upscaling_0_conv_transpose"] == 2 * 16 * 48 * 4 * 48
    assert flops["upscaling_0_depthwise"] == 2 * 64 * 9 * 48
    assert flops["mask_dense_1"] == 2 * 6 * 48 * 48
    assert flops["head"] == 2 * 6 * 48 * 6 + 2 * 64 * 6 * 48
    tokens, width = 21, 48  # in block 0; six queries more afterwards
    for block, count in ((0, tokens), (1, tokens + 6), (2, tokens + 6)):
        matrices = 4 * width**2 + 2 * width * 96
        assert flops[f"encoderblock_{block}"] == 2 * count * matrices + 4 * count**2 * width


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_queries": 0}, "needs num_queries, such as 100 or 200"),
        ({"query_blocks": 4}, "query_blocks, 1 to 3"),
        ({"head_cells": 8, "patch_size": 14}, None),  # masks are resized
        ({"head_cells": 3, "patch_size": 24}, "must be a power of two"),
        ({"head_norm": True}, "head_norm is for dense_head='linear'"),
        ({"pooling": "gap", "norm_after_pooling": True}, "has no pooling"),
        ({"position_embedding": "relative", "registers": 0}, "no further learned tokens"),
        ({**DENSE_FIELDS, "num_queries": 3}, "num_queries is for dense_head='eomt'"),
    ],
)
def test_contradictions_are_refused(folder, fields, message):
    spec = built(folder, "transformers").spec
    if message is None:
        assert dataclasses.replace(spec, **fields).upscalings == 3
        return
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(spec, **fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_blocks": 3}, "num_blocks, the number of blocks with queries"),
        ({"num_queries": 7}, "num_queries=7, which contradicts the weights"),
        ({"num_upscale_blocks": 2}, "num_upscale_blocks=2, which contradicts the weights"),
        ({"hidden_act": "gelu_pytorch_tanh"}, "EoMT's head has the exact GELU"),
    ],
)
def test_a_config_that_contradicts_the_weights_is_refused(folder, tmp_path, change, message):
    shutil.copy(folder / "transformers" / "model.safetensors", tmp_path)
    config = json.loads((folder / "transformers" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UsageError, match=message):
        keras_vit.model_from_weights(tmp_path)


@pytest.mark.parametrize(
    ("fields", "layout", "message"),
    [
        ({"activation": "tanh"}, "transformers", "EoMT's MLPs have 'erf' here"),
        ({"mlp_dim": 100}, "transformers", "MLPs of a multiple of hidden_dim"),
        ({"layer_norm_eps": 1e-5}, "eomt", "layer_norm_eps=1e-06"),
        ({"head_cells": 4}, "eomt", "head_cells=2 for patch_size=8"),
        ({"registers": 0}, "eomt", "registers"),
        ({}, "timm", "no dense heads"),
        ({"image_size": (32, 40)}, "eomt", "square images"),
        ({"image_size": (32, 40)}, "transformers", "square images"),
        ({"num_classes": 0}, "transformers", "EoMT has a head"),
    ],
)
def test_what_a_layout_cannot_store_is_refused(folder, tmp_path, fields, layout, message):
    fields = {"num_classes": 5, "image_size": 32} | fields
    sizes = fields.pop("num_classes"), fields.pop("image_size")
    model = keras_vit.ViT(dataclasses.replace(built(folder, "transformers").spec, **fields), *sizes)
    with pytest.raises(UsageError, match=message):
        keras_vit.save_weights(model, tmp_path / "model.safetensors", layout)
    assert not list(tmp_path.iterdir())


def test_attention_with_queries_is_not_shown_as_an_encoders(folder):
    model, (inputs, _) = built(folder, "transformers"), expected(folder, "transformers")
    inputs = np.clip(inputs, -1, 1)
    with pytest.raises(UsageError, match="build it with num_classes=0"):
        evaluation.attention_maps(model, inputs)
    headless = built(folder, "transformers", num_classes=0)
    assert evaluation.attention_maps(headless, inputs).shape == (2, 4, 4)


def test_no_file_is_made_of_queries_yet(folder, tmp_path):
    for options in ({}, {"output": "features"}):
        with pytest.raises(UsageError, match="or segmentation. Received: .* a model for panoptic"):
            keras_vit.export_tflite(built(folder, "own"), tmp_path / "model.tflite", **options)
