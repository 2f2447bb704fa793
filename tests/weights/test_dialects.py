"""Models from every layout of published weights equal the reference."""

import dataclasses
import json
import re
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import open_checkpoint, weight_names
from keras_vit.weights.dialects import find_layout
from keras_vit.weights.families import FAMILIES
from keras_vit.weights.places import place_of
from keras_vit.weights.tensors import METADATA

TOLERANCE = {"logits": 2e-5, "encoded": 2e-5, "pre_logits": 2e-5}


def assert_near(model, expected):
    actual = np.asarray(model(expected["images"], training=False))
    np.testing.assert_allclose(actual, expected["logits"], atol=2e-5, rtol=0)


CLIP = "safetensors, transformers CLIP (prefix vision_model.)"
SIGLIP = "safetensors, transformers SigLIP (prefix vision_model.)"
REGISTERS, PREFIX = "transformers DINOv2 with registers", "prefix dinov2_with_registers."


# The file, the expected outputs, arguments of model_from_weights, the layout.
@pytest.mark.parametrize(
    ("file", "outputs", "arguments", "dialect"),
    [
        ("vit_token", "vit_token", {}, "npz, official"),
        ("vit_token_linen", "vit_token", {}, "npz, official (Linen names)"),
        ("vit_token_prelogits", "vit_token_prelogits", {}, "npz, official"),
        ("vit_token", "vit_resolution_token_3to5", {"image_size": 80}, "npz, official"),
        ("vit_token", "vit_token_unpooled", {"pooling": "none"}, "npz, official"),
        ("hybrid_stem", "hybrid_stem", {}, "npz, official"),
        ("hybrid_stem_linen", "hybrid_stem", {}, "npz, official (Linen names)"),
        ("hf_classifier", "hf_classifier", {}, "safetensors, transformers ViT (prefix vit.)"),
        ("hf_base", "hf_base", {}, "safetensors, transformers ViT"),
        ("hf_dinov2", "hf_dinov2", {}, "safetensors, transformers DINOv2"),
        ("hf_dinov2_registers", "hf_dinov2_registers", {}, f"safetensors, {REGISTERS}"),
        ("hf_dinov2_gated", "hf_dinov2_gated", {}, f"safetensors, {REGISTERS} ({PREFIX})"),
        (
            "hf_dinov2_gated",
            "hf_dinov2_gated_4to5x6",
            {"image_size": (40, 48)},
            f"safetensors, {REGISTERS} ({PREFIX})",
        ),
        ("hf_dinov3", "hf_dinov3", {}, "safetensors, transformers DINOv3"),
        ("hf_dinov3_gated", "hf_dinov3_gated", {}, "safetensors, transformers DINOv3"),
        ("hf_clip", "hf_clip", {}, CLIP),
        ("hf_clip", "hf_clip_4to6", {"image_size": 48}, CLIP),
        ("hf_siglip", "hf_siglip", {}, SIGLIP),
        ("hf_siglip_classifier", "hf_siglip_classifier", {}, SIGLIP),
        ("hf_deit", "hf_deit", {}, "safetensors, transformers DeiT (prefix deit.)"),
        ("timm_clip", "timm_clip", {}, "safetensors, timm"),
        ("timm_token", "timm_token", {}, "safetensors, timm"),
        ("timm_map", "timm_map", {}, "safetensors, timm"),
        ("timm_deit3", "timm_deit3", {}, "safetensors, timm"),
        ("timm_registers", "timm_registers", {}, "safetensors, timm"),
        ("timm_sbb_reg4_gap", "timm_sbb_reg4_gap", {}, "safetensors, timm"),
        ("timm_qk_norm", "timm_qk_norm", {}, "safetensors, timm"),
        ("timm_distilled", "timm_distilled", {}, "safetensors, timm"),
        ("timm_dinov3", "timm_dinov3", {}, "safetensors, timm Eva"),
        ("timm_rope_gap", "timm_rope_gap", {}, "safetensors, timm Eva"),
        ("timm_eva02", "timm_eva02", {}, "safetensors, timm Eva"),
        ("timm_eva02", "timm_eva02_40x32", {"image_size": (40, 32)}, "safetensors, timm Eva"),
    ],
)
def test_a_model_from_a_file_equals_the_reference(file, outputs, arguments, dialect, fixtures):
    path = fixtures / (file + (".weights.npz" if "npz" in dialect else ".safetensors"))
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.dialect == dialect
        assert checkpoint.layout.unknown == ()
        # The text tower, and a pooling that a classifier does not read.
        others = r"text_|logit_(scale|bias)$|vision_model\.head\.|.*mask_token$"
        assert all(re.match(others, key) for key in checkpoint.layout.ignored)
    model = keras_vit.model_from_weights(path, **arguments)
    expected = dict(np.load(fixtures / f"{outputs}.io.npz"))
    if "pooled" in expected:
        expected["pre_logits"] = expected["pooled"]
    compared = sorted(expected.keys() & TOLERANCE.keys())
    actual = model.intermediates(*compared)(expected["images"])
    assert compared
    for output in compared:
        # float32 rounds by a part of the largest value, which is 29 in timm_rope_gap.
        largest = np.abs(expected[output]).max() if output == "encoded" else 0
        bound = max(TOLERANCE[output], 2e-6 * largest)
        np.testing.assert_allclose(np.asarray(actual[output]), expected[output], atol=bound, rtol=0)
    if "pos_embedding" in expected:
        positions = np.asarray(model.get_layer("patch_encoder").positions)
        np.testing.assert_allclose(positions, expected["pos_embedding"], atol=1e-6)


def test_each_classifier_of_a_distilled_file_equals_timms(fixtures):
    model = keras_vit.model_from_weights(fixtures / "timm_distilled.safetensors")
    assert model.spec.pooling == "distilled"
    expected = np.load(fixtures / "timm_distilled.io.npz")
    features = model.intermediates("pre_logits")(expected["images"])["pre_logits"]
    both = np.asarray(model.get_layer("head")(features, both=True))
    np.testing.assert_allclose(both, expected["classifiers"], atol=2e-5, rtol=0)
    assert np.abs(both[:, 0] - both[:, 1]).max() > 0.1


def prefixed(prefix, head=None):
    """Gives all names a prefix, and those of the head perhaps another."""
    heads = prefix if head is None else head

    def change(arrays):
        return {(heads if k.startswith("head.") else prefix) + k: a for k, a in arrays.items()}

    return change


def scanned(arrays):
    # big_vision with scan=True: arrays of layers have a leading axis of blocks.
    stacks = {}
    for key in sorted(arrays):
        stacks.setdefault(re.sub(r"encoderblock_\d", "encoderblock", key), []).append(arrays[key])
    return {key: np.stack(s) if "encoderblock/" in key else s[0] for key, s in stacks.items()}


def big_vision_positions(arrays):
    # The keys that big_vision's fix_old_checkpoints converts older files to.
    table = arrays.pop("Transformer/posembed_input/pos_embedding")
    return arrays | {"cls": arrays["cls"] + table[:, :1], "pos_embedding": table[:, 1:]}


def positions_at(key):
    # Common before 2022, with a position for the class token.
    return lambda arrays: arrays | {key: arrays.pop("Transformer/posembed_input/pos_embedding")}


# Prefixes, with keys of the same file that are no weights.
NPZ = {
    "model/": [],
    "target/": ["opt/state/step"],
    "opt/target/": ["opt/state/step"],
    "params/": ["opt/0/mu", "extra/step"],
    "params/img/": ["params/txt/head/bias", "params/t", "params/b"],
}
# Prefixes, with those of the head if they are others.
TIMM = {"module.": None, "state_dict.model.": None, "backbone.": "", "module.backbone.": "module."}
SLOTS, FLOAT64 = "big_vision's positions", lambda a: {k: v.astype(float) for k, v in a.items()}
# The file, its change, what its dialect is called, and keys that are no weights.
VARIATIONS = {
    **{p: ("vit_token", prefixed(p), f"official (prefix {p})", *keys) for p, keys in NPZ.items()},
    **{p: ("timm_token", prefixed(p, head), f"timm (prefix {p})") for p, head in TIMM.items()},
    "model.": ("hf_classifier", prefixed("model."), "transformers ViT (prefix model.vit.)"),
    "scanned": ("vit_token_linen", scanned, "scanned layers"),
    "scanned params/": (
        "vit_token_linen",
        lambda arrays: prefixed("params/")(scanned(arrays)),
        "scanned layers, prefix params/",
    ),
    "big_vision": ("vit_token", big_vision_positions, "positions without a class slot"),
    "in the encoder": ("vit_token", positions_at("Transformer/pos_embedding"), SLOTS),
    "on top with slot": ("vit_token", positions_at("pos_embedding"), SLOTS),
    "float64": ("vit_token", FLOAT64, "official"),
}


@pytest.mark.parametrize("name", VARIATIONS)
def test_variations_of_a_layout_give_the_same_model(name, fixtures, hub_folder, tmp_path):
    file, change, dialect, *ignored = VARIATIONS[name]
    if file.startswith("vit"):
        path, arrays = tmp_path / "file.npz", dict(np.load(fixtures / f"{file}.weights.npz"))
        np.savez(path, **change(arrays), **dict.fromkeys(ignored, np.array(["a", "bc"])))
    else:
        path = hub_folder(file) / "model.safetensors"
        save_file(change(load_file(path)), path)
    model = keras_vit.model_from_weights(path)
    assert_near(model, np.load(fixtures / f"{file.removesuffix('_linen')}.io.npz"))
    report = keras_vit.load_weights(model, path)
    assert dialect in report.dialect
    assert report.weights == 40
    assert sorted(report.ignored) == sorted(ignored)


def assert_same_weights(path, other):
    """Checks that two files give the same model."""
    one, two = (keras_vit.model_from_weights(file) for file in (path, other))
    assert one.spec == two.spec
    np.testing.assert_equal(one.get_weights(), two.get_weights())


def test_bfloat16_is_read_exactly(fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    short = {key: array.astype(ml_dtypes.bfloat16) for key, array in arrays.items()}
    np.savez(tmp_path / "bfloat16.npz", **short)
    assert np.load(tmp_path / "bfloat16.npz")["cls"].dtype == np.dtype("V2")
    np.savez(tmp_path / "float32.npz", **{k: a.astype(np.float32) for k, a in short.items()})
    assert_same_weights(tmp_path / "bfloat16.npz", tmp_path / "float32.npz")


def test_a_map_head_at_the_top_level_is_read_like_a_nested_one(tmp_path, small_spec, randomised):
    spec = dataclasses.replace(small_spec, pooling="map")
    keras_vit.save_weights(randomised(keras_vit.ViT(spec, 3, 16)), tmp_path / "map.npz")
    arrays = dict(np.load(tmp_path / "map.npz"))
    old = {key.removeprefix("MAPHead_0/"): array for key, array in arrays.items()}
    assert "probe" in old
    np.savez(tmp_path / "old.npz", **old)
    assert_same_weights(tmp_path / "old.npz", tmp_path / "map.npz")


def test_a_file_without_positions_has_sincos2d_if_official_and_none_if_timm(tmp_path, small_spec):
    for kind, layout in (("sincos2d", "npz"), ("none", "safetensors")):
        spec = dataclasses.replace(small_spec, position_embedding=kind)
        keras_vit.save_weights(keras_vit.ViT(spec, 3, 16), tmp_path / f"described.{layout}")
    np.savez(tmp_path / "bare.npz", **dict(np.load(tmp_path / "described.npz")))
    save_file(load_file(tmp_path / "described.safetensors"), tmp_path / "bare.safetensors")
    (tmp_path / "described.config.json").rename(tmp_path / "bare.config.json")
    for name, kind in (("bare.npz", "sincos2d"), ("bare.safetensors", "none")):
        assert keras_vit.model_from_weights(tmp_path / name).spec.position_embedding == kind


def test_keys_that_only_look_official_are_unknown(fixtures, tmp_path):
    arrays = dict(np.load(fixtures / "vit_token.weights.npz"))
    strange = {"junk", "head/scale", "Transformer/encoderblock_0/LayerNorm_9/bias", "block1/a"}
    strange.add("Transformer/encoderblock/a/b")  # as in scanned layers
    np.savez(tmp_path / "file.npz", **arrays, **dict.fromkeys(strange, np.zeros(1000, "f")))
    with open_checkpoint(tmp_path / "file.npz") as checkpoint:
        assert set(checkpoint.layout.unknown) == strange
        assert checkpoint.parameters == sum(array.size for array in arrays.values())
    with pytest.raises(keras_vit.UsageError, match="in 5 weights"):
        keras_vit.model_from_weights(tmp_path / "file.npz")


def test_bit_names_may_be_numbered(tmp_path, randomised):
    spec = keras_vit.ResNetSpec((1, 1, 1, 1), 1)
    model = randomised(keras_vit.BiT(spec, 3, 32))
    keras_vit.save_weights(model, tmp_path / "bit.npz")
    arrays = dict(np.load(tmp_path / "bit.npz"))
    numbered = {
        re.sub("(standardized_conv2d|group_norm(?=/))", rf"\1_{i}", key): array
        for i, (key, array) in enumerate(arrays.items())
    }
    assert len(numbered.keys() - arrays.keys()) > 20
    np.savez(tmp_path / "numbered.npz", **numbered)
    again = keras_vit.BiT(spec, 3, 32)
    report = keras_vit.load_weights(again, tmp_path / "numbered.npz")
    assert report.dialect == "npz, BiT (numbered names)"
    np.testing.assert_equal(again.get_weights(), model.get_weights())


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_the_line_that_keeps_one_prefix_works(suffix, fixtures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = load_file(fixtures / "timm_token.safetensors")
    encoder = {f"backbone.{k}": array for k, array in arrays.items() if "head" not in k}
    arrays = encoder | {"fc.weight": arrays["head.weight"], "fc.bias": arrays["head.bias"]}
    np.savez("in.npz", **arrays) if suffix == ".npz" else save_file(arrays, "in.safetensors")
    with pytest.raises(keras_vit.UsageError, match="under 'backbone.*such as 'fc.") as caught:
        keras_vit.model_from_weights(f"in{suffix}", num_heads=3)
    line = str(caught.value).splitlines()[0].partition("keep the model alone: ")[2]
    exec(line, {"np": np, "load_file": load_file, "save_file": save_file})
    assert keras_vit.model_from_weights(f"out{suffix}", num_heads=3).num_classes == 0


def test_a_prefix_is_taken_off_only_where_nothing_else_fits(tmp_path):
    shapes = {n.key: n.shape for n in weight_names(VARIANTS["ViT-Ti_16"], 10, 32)}
    average = {f"average.{key}": shape for key, shape in shapes.items()}
    layout = find_layout(shapes | average, tmp_path)
    assert (layout.prefix, layout.places.keys()) == ("", shapes.keys())
    assert set(layout.unknown) == average.keys()


KERNEL, NORM = "embedding/kernel", "Transformer/encoderblock_0/LayerNorm_{}/bias"
MODEL = f"average.{KERNEL} average.{NORM.format(0)}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (f"{MODEL} student.{KERNEL}", "several models, under 'average.' and 'student.'; keep"),
        (f"params/{KERNEL} params/img/{KERNEL}", "several models, under 'params/' and 'params/i"),
        (f"{MODEL} average.head/bias head/bias", "average.head/bias and head/bias are the same"),
        (f"{KERNEL} {NORM.format(2)} {NORM.format(1)}", "LayerNorm_2/bias and .*_1/bias are the"),
        # Another model may have a layer of this name too.
        (f"params/{KERNEL}/{KERNEL} params/attention", "has an unknown layout"),
        ("layer.weight\x1b[31m", r"has an unknown layout.*layer.weight\\x1b"),
    ],
)
def test_names_that_are_not_those_of_one_model_are_refused(keys, message, tmp_path):
    np.savez(tmp_path / "file.npz", **dict.fromkeys(keys.split(), np.zeros(2)))
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.model_from_weights(tmp_path / "file.npz")


SMALL = VARIANTS["ViT-Pico_4"]
GATED = dataclasses.replace(SMALL, mlp_kind="gated", layer_scale=1.0, activation="silu")
DINO = dataclasses.replace(SMALL, layer_scale=1.0, pooling="token_mean")
DINO3 = dataclasses.replace(
    SMALL, layer_scale=1.0, rotation="dinov3", key_bias=False, position_embedding="none"
)
EVA02 = dataclasses.replace(
    GATED, layer_scale=None, rotation="eva02", key_bias=False, pooling="token_gap"
)
# A family and a model that it can store. The second spelling of a family's files, if any.
STORED = {
    "timm": ("timm", SMALL),
    "timm's stem": ("timm", VARIANTS["R+ViT-Ti_16"]),
    "timm's ResNet": ("timm", VARIANTS["R50+ViT-B_16"]),
    "timm's gates": ("timm", GATED),
    "timm's registers": ("timm", dataclasses.replace(SMALL, registers=4)),
    "timm BiT": ("timm BiT", VARIANTS["BiT-R50x1"]),
    "transformers": ("transformers ViT", SMALL),
    "DINOv2": ("transformers DINOv2", DINO),
    "DINOv2's gates": ("transformers DINOv2", dataclasses.replace(GATED, pooling="token_mean")),
    "DINOv2's registers": (
        "transformers DINOv2 with registers",
        dataclasses.replace(DINO, registers=4),
    ),
    "DINOv3": ("transformers DINOv3", dataclasses.replace(DINO3, registers=4)),
    "DINOv3's gates": (
        "transformers DINOv3",
        dataclasses.replace(DINO3, registers=4, mlp_kind="gated", key_bias=True),
    ),
    "timm's DINOv3": ("timm Eva", dataclasses.replace(DINO3, mlp_kind="gated", query_bias=False)),
    "timm's EVA-02": ("timm Eva", dataclasses.replace(EVA02, norm_after_pooling=True)),
    "timm's EVA-02 with norms": ("timm Eva", dataclasses.replace(EVA02, mlp_kind="gated_norm")),
    "timm's EVA": ("timm Eva", dataclasses.replace(SMALL, key_bias=False, registers=2)),
}


@pytest.mark.parametrize("case", STORED)
def test_tables_map_each_official_key_to_one_place_and_back(case, tmp_path):
    name, spec = STORED[case]
    [family] = [family for family in FAMILIES if family.name == name]
    names = weight_names(spec, 0 if name == "transformers DINOv3" else 1000, 224)
    templates = {**family.places, **family.places_of_spec(spec)}
    places = {n.key: place_of(templates, n.key) for n in names}
    shapes = {places[n.key].key: places[n.key].stored_shape(n.shape) for n in names}
    layout = find_layout(shapes, tmp_path, {METADATA: {"spec": spec.to_dict()}})
    assert layout.places == places
    assert layout.unknown == ()
    for n in names:
        assert places[n.key].fits(shapes[places[n.key].key], n.shape)


def test_registers_of_timm_have_no_positions_unless_they_are_stated_or_zero(tmp_path):
    shapes = {"patch_embed.proj.weight": (48, 3, 8, 8), "cls_token": (1, 1, 48)}
    shapes |= {"reg_token": (1, 4, 48), "pos_embed": (1, 24, 48)}
    key = "Transformer/posembed_input/pos_embedding"
    assert find_layout(shapes, tmp_path).places[key].form == "grid"
    for config in ({"model_args": {"no_embed_class": False}}, {METADATA: {}}):
        place = find_layout(shapes, tmp_path, config).places[key]
        assert place.zeros == (1, 4)
    table = np.zeros((1, 29, 48), np.float32)
    table[:, 2] = 1
    with pytest.raises(keras_vit.UsageError, match="pos_embed has positions for registers"):
        place.official(table, (1, 25, 48))


def test_gelu_epsilon_heads_and_preprocessing_come_from_the_config(hub_folder):
    numerics = {"hidden_act": "gelu_new", "num_attention_heads": 3, "layer_norm_eps": 1e-5}
    folder = hub_folder("hf_base", **numerics)
    preprocessor = {"image_processor_type": "ViTImageProcessor", "size": 24, "resample": 3}
    preprocessor |= {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    model = keras_vit.model_from_weights(folder)
    spec = model.spec
    assert (spec.activation, spec.layer_norm_eps, spec.num_heads) == ("tanh", 1e-5, 3)
    assert model.preprocessing.interpolation == "bicubic"
    assert model.preprocessing.mean == pytest.approx((123.675, 116.28, 103.53))


def test_a_config_that_contradicts_the_weights_is_refused(fixtures, hub_folder):
    model = keras_vit.model_from_weights(fixtures / "timm_token.safetensors")
    folder = hub_folder("timm_token", global_pool="max")
    with pytest.raises(keras_vit.UsageError, match="has a class token and the pooling 'max'"):
        keras_vit.model_from_weights(folder, preprocessing=keras_vit.Preprocessing(32, 32))
    with pytest.raises(keras_vit.UsageError, match="has a class token and the pooling 'max'"):
        keras_vit.load_weights(model, folder)


# What the names show without a config.json: the rotation and the pooling.
@pytest.mark.parametrize(
    ("file", "rotation", "pooling"),
    [
        ("timm_dinov3", "dinov3", "token"),
        ("timm_rope_gap", "eva02", "gap"),
        ("timm_eva02", "eva02", "token_gap"),
    ],
)
def test_the_rotation_of_a_published_timm_model_is_known_from_its_names(
    file, rotation, pooling, fixtures, tmp_path
):
    shutil.copy(fixtures / f"{file}.safetensors", tmp_path / "alone.safetensors")
    with open_checkpoint(tmp_path / "alone.safetensors", num_heads=3) as checkpoint:
        spec = checkpoint.spec
    expected = keras_vit.model_from_weights(fixtures / f"{file}.safetensors").spec
    assert (spec.rotation, spec.pooling) == (rotation, pooling)
    assert dataclasses.replace(spec, pooling=expected.pooling) == expected


def test_heads_of_a_file_alone_are_those_of_the_variant_with_the_same_mlp(tmp_path):
    keras_vit.save_weights(
        keras_vit.create_model("DINOv3-H_16-plus", 0, 32, depth=1), tmp_path / "model.safetensors"
    )
    (tmp_path / "config.json").unlink()
    save_file(load_file(tmp_path / "model.safetensors"), tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        assert checkpoint.spec.num_heads == 20  # ViT-H, of the same width, has 16


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("timm_dinov3", {"architecture": "vit_base_patch16_rope_224"}, "'vit_base_patch16_rope_2"),
        ("timm_dinov3", {"model_args": {"rope_type": "mixed"}}, "rope_type='mixed'; supported is"),
        ("timm_eva02", {"model_args": {"ref_feat_shape": [14, 14]}}, r"=\[14, 14\]; .* \[16, 16\]"),
        ("timm_eva02", {"model_args": {"use_rot_pos_emb": False}}, "use_rot_pos_emb=False"),
        ("hf_dinov3", {"rope_theta": 10_000}, "its rope_theta is 10000; supported is 100.0"),
        ("hf_dinov3", {"key_bias": True}, "key_bias=True, which contradicts the weights"),
    ],
)
def test_rotations_that_are_not_supported_are_refused(file, changes, message, hub_folder):
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.model_from_weights(hub_folder(file, **changes))


def test_a_file_without_a_description_shows_its_embedding_and_its_projection(tmp_path):
    fields = {"embedding_norm": True, "patch_bias": False, "pooling": "token_mean"}
    spec = dataclasses.replace(SMALL, **fields, projection_dim=24)
    keras_vit.save_weights(keras_vit.ViT(spec, 5, 32), tmp_path / "described.npz")
    np.savez(tmp_path / "bare.npz", **np.load(tmp_path / "described.npz"))
    with open_checkpoint(tmp_path / "bare.npz") as checkpoint:
        assert (checkpoint.spec, checkpoint.variant) == (spec, None)


def test_an_eva_whose_names_do_not_show_a_rotation_needs_its_config(tmp_path):
    spec = dataclasses.replace(SMALL, key_bias=False, activation="erf")
    model = keras_vit.ViT(spec, 5, 32)
    keras_vit.save_weights(model, tmp_path / "model.safetensors", "timm")
    assert keras_vit.model_from_weights(tmp_path).spec == spec
    alone = tmp_path / "alone"
    alone.mkdir()
    save_file(load_file(tmp_path / "model.safetensors"), alone / "model.safetensors")
    with pytest.raises(keras_vit.UsageError, match="rotation is unknown; put its config.json in"):
        keras_vit.model_from_weights(alone)


def test_a_head_that_reads_other_tokens_is_refused(fixtures, hub_folder):
    model = keras_vit.model_from_weights(fixtures / "timm_token.safetensors")
    folder = hub_folder("timm_token", global_pool="avg")
    assert keras_vit.model_from_weights(folder).spec.pooling == "token_gap"
    with pytest.raises(keras_vit.UsageError, match="needs pooling='token_gap', the model has 'tok"):
        keras_vit.load_weights(model, folder)
    assert keras_vit.load_weights(model, folder, head="reset").head == "reset"


TOWERS = ("vision", "text")
SIGLIP_PATCHES = "vision_model.embeddings.patch_embedding.weight"
CLIP_HEAD = "its head reads the mean of the patches before the last norm, .* train a new head"


@pytest.mark.parametrize(
    ("file", "arrays", "config", "message"),
    [
        ("hf_clip", {"classifier.weight": (5, 48)}, {}, CLIP_HEAD),
        (
            "hf_siglip",
            {SIGLIP_PATCHES: (48, 192)},
            {},
            r"variable sizes \(NaFlex\), which keras_vit",
        ),
        (
            "hf_clip",
            {},
            {"hidden_act": "gelu_fast"},
            "activation is 'gelu_fast'; supported are gelu",
        ),
        ("hf_clip", {}, {"projection_dim": 64}, "projection_dim=64, which contradicts the weights"),
        ("hf_clip", {}, {"vision_config": {"patch_size": 16}}, "patch_size=16, which contradicts"),
    ],
)
def test_files_of_images_and_texts_that_are_not_supported_are_refused(
    file, arrays, config, message, hub_folder
):
    folder = hub_folder(file, **config)
    stored = load_file(folder / "model.safetensors")
    stored |= {name: np.zeros(shape, np.float32) for name, shape in arrays.items()}
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.model_from_weights(folder)


@pytest.mark.parametrize("file", ["hf_siglip", "hf_clip"])
def test_a_file_of_images_and_texts_as_on_the_hub(file, hub_folder, fixtures):
    # The hub's files state almost nothing of the image tower, CLIP's have numbers of positions, and
    # transformers 5 puts the processor's settings into another file.
    folder = hub_folder(file, vision_config={"num_attention_heads": 3})
    stored = load_file(folder / "model.safetensors")
    stored |= {f"{tower}_model.embeddings.position_ids": np.arange(16)[None] for tower in TOWERS}
    save_file(stored, folder / "model.safetensors")
    fields = {"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": fields}))
    model = keras_vit.model_from_weights(folder)
    assert model.preprocessing == keras_vit.Preprocessing(32, 32, interpolation="bicubic")
    assert model.spec == keras_vit.model_from_weights(fixtures / f"{file}.safetensors").spec
    expected = np.load(fixtures / f"{file}.io.npz")
    np.testing.assert_allclose(model(expected["images"]), expected["pooled"], atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("architecture", "activation"),
    [
        ("vit_base_patch16_clip_quickgelu_224", "quick"),
        ("vit_base_patch16_clip_224", "erf"),
        ("vit_so400m_patch16_siglip_gap_384", "tanh"),
        ("vit_so400m_patch14_siglip_384", "erf"),
        ("vit_large_patch16_siglip_512", "tanh"),
        ("vit_large_patch16_siglip_384", "erf"),
    ],
)
def test_timms_architectures_have_the_activations_of_timm(architecture, activation, hub_folder):
    folder = hub_folder("timm_clip", architecture=architecture)
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.spec.activation == activation
        assert checkpoint.spec.layer_norm_eps == 1e-5
