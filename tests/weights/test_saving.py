"""Saving of weights in all layouts: exact round trips, and files that are complete or absent."""

import dataclasses
import json
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit import _files
from keras_vit.weights import open_checkpoint

VIT = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
STEM = keras_vit.ResNetStem()
CHANGES = {
    "token": {},
    "unpooled": {"pooling": "none"},
    "gap": {"pooling": "gap", "activation": "erf"},
    "map": {"pooling": "map"},
    "distilled": {"pooling": "distilled", "activation": "erf"},
    "distilled_bare": {"pooling": "distilled", "position_embedding": "none"},
    "distilled_stem": {"patch_size": 2, "pooling": "distilled", "stem": STEM},
    "representation": {"representation_dim": 20},
    "map_representation": {"pooling": "map", "representation_dim": 20},
    "learned2d": {"position_embedding": "learned2d"},
    "relative": {"position_embedding": "relative"},
    "sincos2d": {"position_embedding": "sincos2d"},
    "none": {"position_embedding": "none", "layer_norm_eps": 1e-7},
    "coarse": {"layer_norm_eps": 1e-5},
    "stem": {"patch_size": 2, "stem": STEM},
    "stages": {"patch_size": 1, "stem": keras_vit.ResNetStem((1, 2))},
    "bands": {"in_channels": 4},
}
SPECS = {name: dataclasses.replace(VIT, **changes) for name, changes in CHANGES.items()}
SPECS["bit"] = keras_vit.ResNetSpec((1, 2, 1, 1), 1)
SPECS["bit_two_blocks"] = keras_vit.ResNetSpec((1, 2))
# What the weights do not show, or config.json does not say of them.
UNUSED = {"id2label", "label2id", "layerscale_value", "hidden_act"}
NO_TIMM = {"representation", "map_representation", "learned2d", "relative", "sincos2d", "coarse"}
NO_TIMM |= {"distilled_bare", "distilled_stem"}
TRANSFORMERS = {"token", "distilled", "coarse", "bands"}


def build(spec, classes=5):
    model_class = keras_vit.BiT if isinstance(spec, keras_vit.ResNetSpec) else keras_vit.ViT
    statistics = {"mean": (120.0, 115.0, 100.0), "scale": (60.0, 58.0, 57.0)}
    preprocessing = keras_vit.Preprocessing(32, 48, 0.9, "bicubic", **statistics)
    preprocessing = preprocessing if spec.in_channels == 3 else None
    labels = [f"class {i}" for i in range(classes)]
    return model_class(spec, classes, (32, 48), preprocessing=preprocessing, labels=labels)


def assert_same(one, other):
    assert (one.spec, one.labels, one.image_size) == (other.spec, other.labels, other.image_size)
    assert one.preprocessing == other.preprocessing
    for a, b in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), strict=True)


# Round trips that say little beyond the others.
_SIMILAR = ("coarse", "distilled_bare", "distilled_stem", "sincos2d")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in _SIMILAR else n for n in SPECS]
)
def test_round_trips_are_bit_equal_and_keep_all_settings(name, randomised, tmp_path):
    model = randomised(build(SPECS[name]))
    for file in ["weights.npz"] if name in NO_TIMM else ["weights.npz", "model.safetensors"]:
        keras_vit.save_weights(model, tmp_path / "new" / file)
        assert_same(keras_vit.model_from_weights(tmp_path / "new" / file), model)


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        *(("timm", name) for name in sorted(NO_TIMM)),
        *(("transformers", name) for name in sorted(SPECS.keys() - TRANSFORMERS)),
    ],
)
def test_a_layout_that_cannot_store_a_weight_is_refused(layout, name, tmp_path):
    with pytest.raises(keras_vit.UsageError, match=r"cannot store|save this|save a "):
        keras_vit.save_weights(build(SPECS[name]), tmp_path / "model.safetensors", layout)
    assert not list(tmp_path.iterdir())


def test_a_resize_that_the_hubs_do_not_have_is_kept_only_in_the_official_layout(tmp_path):
    preprocessing = keras_vit.Preprocessing(32, 32, interpolation="mediapipe")
    model = keras_vit.ViT(VIT, 5, 32, preprocessing=preprocessing)
    for layout in ("timm", "transformers"):
        path = tmp_path / layout / "model.safetensors"
        with pytest.raises(keras_vit.UsageError, match="interpolation='mediapipe'; save a .npz"):
            keras_vit.save_weights(model, path, layout)
        assert not path.exists()
    keras_vit.save_weights(model, tmp_path / "model.npz")
    assert keras_vit.model_from_weights(tmp_path / "model.npz").preprocessing == preprocessing


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param("vit_token.weights.npz", "official", marks=pytest.mark.flavours),
        ("vit_token_prelogits.weights.npz", "official"),
        ("hybrid_stem.weights.npz", "official"),
        ("timm_token.safetensors", "timm"),
        ("timm_map.safetensors", "timm"),
        ("timm_distilled.safetensors", "timm"),
        ("hf_classifier.safetensors", "transformers"),
        ("hf_base.safetensors", "transformers"),
        ("hf_dinov2_gated.safetensors", "transformers"),
        ("hf_dinov3_gated.safetensors", "transformers"),
        ("hf_deit.safetensors", "transformers"),
        ("timm_eva02.safetensors", "timm"),
    ],
)
def test_files_of_other_programs_are_written_unchanged(name, layout, fixtures, tmp_path):
    # Read what they wrote, write it again: the same names, shapes and bits.
    file, again = fixtures / name, tmp_path / name
    keras_vit.save_weights(keras_vit.model_from_weights(file), again, layout)
    read = np.load if layout == "official" else load_file
    expected, actual = dict(read(file)), dict(read(again))
    assert actual.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(actual[key], array, strict=True)
    if layout == "official":
        return
    reference, config = (
        json.loads(path.with_suffix(".config.json").read_text()) for path in (file, again)
    )
    if layout == "transformers":
        for field in reference.keys() & config.keys() - UNUSED:
            assert config[field] == reference[field], field
    else:
        assert config["architecture"] == reference["architecture"]
        activations = (args["model_args"].get("act_layer", "gelu") for args in (config, reference))
        assert len(set(activations)) == 1
        assert config["model_args"]["num_heads"] == 3
        assert int(48 * config["model_args"]["mlp_ratio"]) == 96


# Names that a library expects in the file of a model, and those that it does not.
NAMES = {
    "CLIP": ("vision_model.embeddings.class_embedding", "visual_projection.weight"),
    "CLIP's projection": ("visual_projection.weight", "vision_model.visual_projection.weight"),
    "SigLIP": ("vision_model.head.attention.in_proj_weight", "classifier.weight"),
    "SigLIP's classifier": ("classifier.weight", "vision_model.head.probe"),
    "DeiT": ("distillation_classifier.weight", "classifier.weight"),
    "DeiT's class token": ("classifier.weight", "cls_classifier.weight"),
}
# What the libraries build the model from, for models that they have besides the paper's.
DINOV2 = {"activation": "erf", "layer_scale": 0.5, "pooling": "token_mean"}
GATED = {"mlp_kind": "gated", "activation": "silu", "mlp_dim": 128, "layer_scale": 0.5}
TIMM_GAP = {"pooling": "gap", "norm_after_pooling": True, "qk_norm": True, "registers": 2}
DINOV3 = {"activation": "erf", "layer_scale": 0.5, "rotation": "dinov3", "layer_norm_eps": 1e-5}
DINOV3 |= {"position_embedding": "none", "registers": 4, "key_bias": False}
EVA02 = {"mlp_kind": "gated_norm", "activation": "silu", "rotation": "eva02", "key_bias": False}
EVA02 |= {"pooling": "token_gap", "norm_after_pooling": True}
CLIP = {"embedding_norm": True, "patch_bias": False, "activation": "quick"}
CLIP |= {"layer_norm_eps": 1e-5}
HEADLESS = ("DINOv3", "CLIP", "CLIP's projection", "SigLIP")
TOLD = {
    "DINOv2": ("transformers", DINOV2 | {"mlp_dim": 96}, {"model_type": "dinov2", "mlp_ratio": 2}),
    "registers": (
        "transformers",
        DINOV2 | GATED | {"registers": 3},
        {"model_type": "dinov2_with_registers", "num_register_tokens": 3, "mlp_ratio": 4},
    ),
    "timm's gates": (
        "timm",
        GATED | {"registers": 3},
        {"act_layer": "silu", "init_values": 0.5, "reg_tokens": 3, "no_embed_class": False},
    ),
    "DINOv3": (
        "transformers",
        DINOV3 | {"query_bias": False},
        {
            **{"model_type": "dinov3_vit", "rope_theta": 100.0, "num_register_tokens": 4},
            **{"query_bias": False, "key_bias": False, "value_bias": True},
            **{"use_gated_mlp": False, "architectures": ["DINOv3ViTModel"]},
        },
    ),
    "timm's DINOv3": (
        "timm",
        DINOV3 | GATED | {"pooling": "token_gap"},
        {
            **{"rope_type": "dinov3", "use_abs_pos_emb": False, "num_reg_tokens": 4},
            **{"swiglu_mlp": True, "swiglu_align_to": 1, "global_pool": "avg"},
            **{"use_fc_norm": False, "use_post_transformer_norm": True, "init_values": 0.5},
        },
    ),
    "timm's EVA-02": (
        "timm",
        EVA02,
        {
            **{"rope_type": "cat", "scale_mlp": True, "qkv_fused": False, "qkv_bias": True},
            **{"class_token": True, "use_fc_norm": True, "use_abs_pos_emb": True},
        },
    ),
    "timm's EVA-02 without norms": (
        "timm",
        EVA02 | {"mlp_kind": "gated"},
        {"scale_mlp": False, "qkv_fused": True, "swiglu_align_to": 0},
    ),
    "CLIP": (
        "transformers",
        CLIP,
        {"architectures": ["CLIPVisionModel"], "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5},
    ),
    "CLIP's projection": (
        "transformers",
        CLIP | {"projection_dim": 40},
        {"architectures": ["CLIPVisionModelWithProjection"], "projection_dim": 40},
    ),
    "timm's CLIP": (
        "timm",
        CLIP | {"activation": "erf"},
        {"architecture": "vit_base_patch16_clip_224", "act_layer": "gelu", "global_pool": "token"},
    ),
    "SigLIP": (
        "transformers",
        {"pooling": "map"},
        {"model_type": "siglip_vision_model", "vision_use_head": True},
    ),
    "SigLIP's classifier": (
        "transformers",
        {"pooling": "gap"},
        {"architectures": ["SiglipVisionModel"], "vision_use_head": False},
    ),
    "DeiT": (
        "transformers",
        {"pooling": "distilled", "activation": "erf", "layer_norm_eps": 1e-12},
        {"architectures": ["DeiTForImageClassificationWithTeacher"], "model_type": "deit"},
    ),
    "DeiT's class token": (
        "transformers",
        {"pooling": "distilled_token"},
        {"architectures": ["DeiTForImageClassification"]},
    ),
    "timm's pooling": (
        "timm",
        TIMM_GAP,
        {"fc_norm": True, "qk_norm": True, "global_pool": "avg", "class_token": False},
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_libraries_are_told_what_the_model_has(name, randomised, tmp_path):
    layout, fields, told = TOLD[name]
    classes = 0 if name in HEADLESS else 5
    model = randomised(keras_vit.ViT(dataclasses.replace(VIT, **fields), classes, 32))
    keras_vit.save_weights(model, tmp_path / "model.safetensors", layout)
    config = json.loads((tmp_path / "config.json").read_text())
    arguments = {**config, **config.get("model_args", config.get("vision_config", {}))}
    assert {key: arguments[key] for key in told} == told
    if layout == "timm":
        layers = 2 if "gates" in name else 1  # in one Dense layer of timm's
        assert int(48 * arguments["mlp_ratio"]) == layers * model.spec.mlp_dim
    written = load_file(tmp_path / "model.safetensors")
    present, absent = NAMES.get(name, (next(iter(written)), ""))
    assert present in written
    assert absent not in written
    # Without keras_vit's metadata, the names and config.json give the same model.
    save_file(written, tmp_path / "model.safetensors")
    again = keras_vit.model_from_weights(tmp_path)
    images = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(again(images)), np.asarray(model(images)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pooling": "token"}, "a head that reads the class token and the mean.*'token'"),
        ({"mlp_dim": 100}, "MLPs of a multiple of hidden_dim. Received: mlp_dim=100"),
        (GATED | {"mlp_dim": 100}, "of two thirds of a multiple of hidden_dim, .*mlp_dim=100"),
        (GATED | {"activation": "erf"}, "gated MLPs with silu. Received: erf"),
        ({"image_size": (32, 40)}, r"positions of square images. Received: \(32, 40\)"),
    ],
)
def test_what_transformers_dinov2_cannot_be_is_refused(change, message, tmp_path):
    fields = DINOV2 | {"mlp_dim": 96, "image_size": (32, 32)} | change
    size = fields.pop("image_size")
    model = keras_vit.ViT(dataclasses.replace(VIT, **fields), 5, size)
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")


@pytest.mark.parametrize(
    ("fields", "gate", "query"),
    [
        (EVA02, "fc1_g", "q_proj"),
        (EVA02 | {"mlp_kind": "gated"}, "fc1", "qkv"),
        (DINOV3 | GATED, "fc1_g", "qkv"),
    ],
)
def test_layers_that_timm_joins_are_one_layer_in_its_files(fields, gate, query, tmp_path):
    model = keras_vit.ViT(dataclasses.replace(VIT, **fields), 5, 32)
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "timm")
    written = load_file(tmp_path / "model.safetensors")
    assert {f"blocks.0.mlp.{gate}.weight", f"blocks.0.attn.{query}.weight"} <= written.keys()


@pytest.mark.parametrize(
    ("layout", "fields", "message"),
    [
        ("transformers", DINOV3, "transformers' DINOv3 has no head"),
        ("timm", DINOV3 | {"activation": "tanh"}, r"has GELU \(erf\), .* Received: tanh"),
        ("timm", EVA02 | {"activation": "erf"}, "SiLU in gated MLPs. Received: erf"),
        ("timm", DINOV3 | {"layer_norm_eps": 1e-6}, "has layer_norm_eps=1e-05. Received: 1e-06"),
        ("timm", EVA02 | {"query_bias": False}, "biases of queries and values, or neither"),
        ("timm", EVA02 | {"key_bias": True}, "timm Eva has no biases of keys"),
        ("transformers", CLIP, "transformers' CLIP has no head that reads the class token"),
        ("transformers", CLIP | {"patch_bias": True}, "CLIP has no bias of patches. Received: pat"),
        ("transformers", {"pooling": "map"}, "a head that reads the mean of the patches.*'map'"),
        ("timm", CLIP | {"projection_dim": 40}, "timm has no projection_dim. Received: proj.*=40"),
        ("timm", {"embedding_norm": True}, "a bias of patches or,.* a norm before the blocks"),
        ("timm", {"patch_bias": False}, "patch_bias=False, embedding_norm=False; save a .npz"),
        (
            "timm",
            CLIP | {"layer_norm_eps": 1e-6},
            "or of 1e-05 with a norm before.* Received: .*1e-06",
        ),
        ("timm", {"layer_norm_eps": 1e-5}, "of 1e-06, or of 1e-05 with a norm.* Received: .*1e-05"),
        ("timm", CLIP | GATED | {"layer_scale": None}, "has plain MLPs and no distillation token"),
    ],
)
def test_what_other_families_cannot_be_is_refused(layout, fields, message, tmp_path):
    model = keras_vit.ViT(dataclasses.replace(VIT, **fields), 5, 32)
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.save_weights(model, tmp_path / "model.safetensors", layout)


@pytest.mark.parametrize("fields", [CLIP, {"pooling": "map"}])
def test_the_image_towers_of_transformers_have_square_images(fields, tmp_path):
    model = keras_vit.ViT(dataclasses.replace(VIT, **fields), 0, (32, 40))
    with pytest.raises(keras_vit.UsageError, match=r"have square images. Received: \(32, 40\)"):
        keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")


def test_a_crop_is_written_if_transformers_has_it_and_gives_the_size_of_the_model(tmp_path):
    fields = {"interpolation": "bicubic", "mean": (123.675, 116.28, 103.53)}
    preprocessing = keras_vit.Preprocessing(40, 40, 0.8, **fields)
    model = keras_vit.ViT(dataclasses.replace(VIT, **DINOV2, mlp_dim=96), 0, 40)
    model = keras_vit.ViT(model.spec, 0, 40, preprocessing=preprocessing)
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "transformers")
    written = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert (written["size"], written["crop_size"]["height"]) == ({"shortest_edge": 50}, 40)
    assert keras_vit.model_from_weights(tmp_path).preprocessing == preprocessing
    # DINOv2's positions are of 518 pixels, and its processor makes images of 224.
    written |= {"size": {"shortest_edge": 25}, "crop_size": {"height": 16, "width": 16}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(written))
    save_file(load_file(tmp_path / "model.safetensors"), tmp_path / "model.safetensors")
    smaller = keras_vit.model_from_weights(tmp_path, num_classes=3)
    assert (smaller.image_size, smaller.spec.pooling) == ((16, 16), "token_mean")
    assert smaller.output_shape == (None, 3)
    written["crop_size"] = {"height": 20, "width": 20}  # no multiple of the patches
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(written))
    assert keras_vit.model_from_weights(tmp_path).image_size == (40, 40)


def test_a_file_whose_description_is_older_is_read(tmp_path):
    model = build(dataclasses.replace(VIT, activation="erf"))
    keras_vit.save_weights(model, tmp_path / "new.npz")
    with zipfile.ZipFile(tmp_path / "new.npz", "a") as archive:
        assert b'"activation": "erf"' in archive.comment
        archive.comment = archive.comment.replace(b'"activation"', b'"gelu"')
    assert_same(keras_vit.model_from_weights(tmp_path / "new.npz"), model)
    keras_vit.load_weights(model, tmp_path / "new.npz")


def test_labels_too_long_for_the_archive_comment_are_not_saved(tmp_path):
    labels = [f"{i} {'x' * 100}" for i in range(1000)]
    model = keras_vit.ViT(SPECS["none"], 1000, 32, labels=labels)
    for name, kept in (("weights.npz", None), ("weights.safetensors", tuple(labels))):
        keras_vit.save_weights(model, tmp_path / name)
        again = keras_vit.model_from_weights(tmp_path / name)
        assert (again.labels, again.spec) == (kept, model.spec)


@pytest.mark.parametrize(
    ("name", "layout", "message"),
    [
        ("weights.h5", None, "expected a name that ends in .npz or .safetensors"),
        ("weights.npz", "timm", "expected official for .npz. Received: 'timm'"),
        ("weights.safetensors", "official", "expected timm or transformers or eomt for .saf"),
        ("weights.safetensors", "hub", "layout must be one of official, timm, transformers, eomt"),
    ],
)
def test_suffixes_that_do_not_fit_the_layout_are_refused(tmp_path, name, layout, message):
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.save_weights(build(VIT), tmp_path / name, layout)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before, full = saved.read_bytes(), OSError(28, "No space left on device")
    monkeypatch.setattr(_files.os, "fsync", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space left"):
        keras_vit.save_weights(build(VIT), saved)
    assert saved.read_bytes() == before
    assert not list(saved.parent.glob(".*"))


def test_json_files_of_a_previous_model_are_deleted(tmp_path):
    def names_after(spec=VIT, layout="timm", size=32, **options):
        model = keras_vit.ViT(spec, 5, size, **options)
        keras_vit.save_weights(model, tmp_path / "model.safetensors", layout)
        return sorted(path.name for path in tmp_path.iterdir())

    names = ["config.json", "model.safetensors", "preprocessor_config.json"]
    assert names_after(layout="transformers") == names
    cropped = {"size": (32, 48), "preprocessing": keras_vit.Preprocessing(32, 48, crop=0.875)}
    assert names_after(layout="transformers", **cropped) == names[:2]  # a crop there is a square
    # timm has names for its hybrids' patches, and none for this one's.
    assert names_after(dataclasses.replace(VIT, patch_size=4, stem=STEM)) == names[1:2]
    assert names_after(dataclasses.replace(VIT, patch_size=8, stem=STEM)) == names[:2]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architecture"] == "vit_tiny_r_s16_p8_224"


@pytest.mark.parametrize("content", ['{"my": "settings"}', "[]", "not JSON", ""])
def test_a_config_of_another_program_is_not_replaced(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(keras_vit.UsageError, match="config.json was not written for a hub"):
        keras_vit.save_weights(build(VIT), tmp_path / "model.safetensors")
    assert (tmp_path / "config.json").read_text() == content
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "channels", "head"),
    [
        ("R+ViT-Ti_16", 3, "zero"),
        ("ViT-Pico_4", 4, "none"),
        ("BiT-R8x1", 4, "trained"),
        pytest.param("DINOv3-S_16", 3, "none", marks=pytest.mark.slow),
        pytest.param("ViT-S_32-gap", 3, "zero", marks=pytest.mark.slow),
        pytest.param("BiT-R50x1", 3, "zero", marks=pytest.mark.slow),
    ],
)
def test_variants_are_recognised(name, channels, head, tmp_path):
    model = keras_vit.create_model(name, 3 * (head != "none"), 64, in_channels=channels)
    if head == "trained":
        model.get_layer("head").kernel.assign(np.eye(*model.get_layer("head").kernel.shape))
    for path in ("w.npz", "w.safetensors"):
        keras_vit.save_weights(model, tmp_path / path)
        with open_checkpoint(tmp_path / path) as checkpoint:
            assert (checkpoint.variant, checkpoint.head_state) == (name, head)
            assert checkpoint.parameters == model.count_params()


@pytest.mark.parametrize("change", [{"rotation": "dinov3"}, {"key_bias": False}])
def test_a_model_that_differs_from_a_variant_is_none(change, tmp_path):
    model = keras_vit.create_model("ViT-Pico_4", **change)
    keras_vit.save_weights(model, tmp_path / "w.npz")
    with open_checkpoint(tmp_path / "w.npz") as checkpoint:
        assert checkpoint.variant is None
