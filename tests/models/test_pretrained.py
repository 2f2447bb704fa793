"""Models from files, URLs and the catalogue, with settings from the file and from the caller."""

import dataclasses
import functools

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_vit
from keras_vit import UsageError, create_model, model_from_weights
from keras_vit.models.pretrained import check_weights
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import find_weights
from keras_vit.weights.cache import cached_path

TEST = "ViT-Test_8"
KINDS = tuple(f"kind {i}" for i in range(7))  # the labels in timm's file


@pytest.fixture
def tiny(tmp_path):
    """A file of ViT-Ti/16 for 32 pixels and 7 classes, without metadata, like published files."""
    spec = dataclasses.replace(VARIANTS["ViT-Ti_16"], representation_dim=24)
    model = keras_vit.ViT(spec, 7, 32)
    model.get_layer("head").bias.assign(np.arange(7.0))
    keras_vit.save_weights(model, tmp_path / "saved.npz")
    np.savez(tmp_path / "tiny.npz", **dict(np.load(tmp_path / "saved.npz")))
    return tmp_path / "tiny.npz"


@pytest.fixture
def variant(monkeypatch):
    """Adds the variant `TEST` with the heads and the width of the MLP that a test needs."""
    return lambda heads, mlp_dim: monkeypatch.setitem(
        VARIANTS, TEST, keras_vit.ViTSpec(8, 48, 2, heads, mlp_dim)
    )


def array(model, layer, weight):
    return np.asarray(getattr(model.get_layer(layer), weight))


def assert_near(model, expected):
    logits = np.asarray(model(expected["images"]))
    np.testing.assert_allclose(logits, expected["logits"], atol=2e-5, rtol=0)


def test_classes_resolution_and_representation_come_from_the_file(tiny):
    model = keras_vit.ViT_Ti16(weights=tiny)
    assert (model.num_classes, model.image_size) == (7, (32, 32))
    assert model.spec.representation_dim == 24
    np.testing.assert_array_equal(array(model, "head", "bias"), np.arange(7))


def test_other_classes_start_a_head_of_zeros_on_the_hidden_width(tiny):
    model = keras_vit.ViT_Ti16(num_classes=3, weights=str(tiny), image_size=48)
    assert (model.num_classes, model.image_size) == (3, (48, 48))
    assert model.spec.representation_dim is None
    assert array(model, "head", "kernel").shape == (192, 3)
    assert not np.asarray(model(np.ones((1, 48, 48, 3), np.float32))).any()
    stored = np.load(tiny)["Transformer/encoderblock_11/MlpBlock_3/Dense_1/kernel"]
    last = model.get_layer("encoderblock_11").mlp.dense_1
    np.testing.assert_array_equal(np.asarray(last.kernel), stored)


def test_the_representation_is_kept_on_request_and_left_out_without_classes(tiny):
    model = keras_vit.ViT_Ti16(num_classes=3, weights=tiny, representation_dim=24)
    assert array(model, "head", "kernel").shape == (24, 3)
    stored = np.load(tiny)["pre_logits/kernel"]
    np.testing.assert_array_equal(array(model, "pre_logits", "kernel"), stored)
    features = keras_vit.ViT_Ti16(num_classes=0, weights=tiny)
    assert tuple(features.output.shape)[1:] == (192,)


def test_gelu_and_epsilon_come_from_the_file_unless_overridden(fixtures, variant):
    variant(3, 96)
    file = fixtures / "hf_classifier.safetensors"
    model = create_model(TEST, weights=file)
    assert (model.spec.activation, model.spec.layer_norm_eps) == ("erf", 1e-12)
    expected = np.load(fixtures / "hf_classifier.io.npz")
    assert_near(model, expected)
    model = create_model(TEST, weights=file, activation="tanh", dropout=0.1)
    assert (model.spec.activation, model.spec.dropout) == ("tanh", 0.1)
    moved = np.abs(np.asarray(model(expected["images"])) - expected["logits"]).max()
    assert moved > 2e-5  # the wrong GELU is seen


def test_the_place_of_the_last_norm_and_the_resampling_come_from_the_file(
    fixtures, variant, tmp_path
):
    variant(3, 96)
    file = fixtures / "timm_sbb_reg4_gap.safetensors"
    fields = {"pooling": "gap", "registers": 4, "layer_scale": 0.1}
    model = create_model(TEST, weights=file, **fields)
    assert (model.spec.norm_after_pooling, model.spec.resampling) == (True, "bicubic")
    assert_near(model, np.load(fixtures / "timm_sbb_reg4_gap.io.npz"))
    before = create_model(TEST, 7, 32, activation="erf", **fields)
    keras_vit.save_weights(model, tmp_path / "ours.npz")
    for source in (file, tmp_path / "ours.npz"):
        with pytest.raises(UsageError, match="needs norm_after_pooling=True, the model has False"):
            keras_vit.load_weights(before, source)
    saved = file.parent / "timm_qk_norm.safetensors"
    with pytest.raises(UsageError, match="qk_norm True, not False"):
        keras_vit.load_weights(create_model(TEST, 7, 32, activation="erf"), saved)


def test_a_file_of_another_architecture_is_named_whatever_its_last_norm(fixtures, variant):
    variant(3, 96)
    with pytest.raises(UsageError, match="rotation eva02, not none; mlp_kind gated_norm, not pl"):
        create_model(TEST, weights=fixtures / "timm_eva02.safetensors")


def test_biases_come_from_the_file(fixtures, variant):
    variant(3, 96)
    fields = {"rotation": "dinov3", "position_embedding": "none", "pooling": "token_gap"}
    fields |= {"registers": 4, "layer_scale": 0.1, "mlp_kind": "gated"}
    model = create_model(TEST, weights=fixtures / "timm_dinov3.safetensors", **fields)
    assert (model.spec.query_bias, model.spec.key_bias, model.spec.value_bias) == (False,) * 3
    expected = np.load(fixtures / "timm_dinov3.io.npz")
    np.testing.assert_allclose(model(expected["images"]), expected["pooled"], atol=2e-5, rtol=0)


def test_a_projection_is_kept_without_a_new_head_or_on_request(fixtures, variant):
    variant(3, 96)
    file, fields = fixtures / "hf_clip.safetensors", {"embedding_norm": True}
    stored = load_file(file)["visual_projection.weight"].T
    expected = np.load(fixtures / "hf_clip.io.npz")
    embeds = create_model(TEST, weights=file, **fields)
    np.testing.assert_allclose(embeds(expected["images"]), expected["pooled"], atol=2e-5, rtol=0)
    assert (embeds.spec.activation, embeds.spec.patch_bias) == ("quick", False)
    kept = create_model(TEST, 5, weights=file, projection_dim=40, **fields)
    np.testing.assert_array_equal(array(kept, "projection", "kernel"), stored)
    assert array(kept, "head", "kernel").shape == (40, 5)
    new = create_model(TEST, 5, weights=file, **fields)
    assert array(new, "head", "kernel").shape == (48, 5)
    bare = {"activation": "quick", "layer_norm_eps": 1e-5, **fields}
    for given, message in (
        ({}, "patch_bias False, not True"),
        ({"patch_bias": False}, 'projection_dim=40, or drop it with head="reset"'),
    ):
        with pytest.raises(UsageError, match=message):
            keras_vit.load_weights(create_model(TEST, 0, 32, **bare, **given), file)


def test_what_a_file_alone_does_not_state_comes_from_the_caller(fixtures, tmp_path, variant):
    alone = tmp_path / "alone.safetensors"  # timm's config.json, which states 3 heads, is absent
    alone.write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    variant(4, 90)
    expected = np.load(fixtures / "timm_token.io.npz")
    assert_near(model_from_weights(alone, num_heads=3, activation="erf"), expected)
    assert_near(create_model(TEST, weights=alone, num_heads=3, mlp_dim=96), expected)
    own = {"num_heads": 4, "activation": "tanh", "layer_norm_eps": 1e-5}
    spec = model_from_weights(alone, **own).spec
    assert own.items() <= dataclasses.asdict(spec).items()
    assert create_model(TEST, weights=alone, mlp_dim=96).spec.num_heads == 4
    check_weights(spec, TEST, 32, alone, {"num_heads": 6})
    with pytest.raises(UsageError, match="num_heads=5 does not divide hidden_dim=48"):
        model_from_weights(alone, num_heads=5)


def test_heads_other_than_the_file_states_are_refused(fixtures, variant):
    file = fixtures / "timm_token.safetensors"
    variant(4, 96)
    for build in (
        lambda: model_from_weights(file, num_heads=4),
        lambda: create_model(TEST, weights=file),
        lambda: check_weights(VARIANTS[TEST], TEST, 32, file, {}),
    ):
        with pytest.raises(UsageError, match="needs num_heads=3, the model has 4"):
            build()


def test_labels_and_preprocessing_come_from_the_config_with_its_head(fixtures, variant):
    variant(3, 96)
    create = functools.partial(create_model, TEST, weights=fixtures / "timm_token.safetensors")
    model = create(image_size=64)
    assert model.labels == KINDS
    assert (model.preprocessing.height, model.preprocessing.interpolation) == (64, "bicubic")
    own = keras_vit.Preprocessing(32, 32)
    model = create(3, preprocessing=own)
    assert (model.labels, model.preprocessing) == (None, own)
    assert create(3, labels=["a", "b", "c"]).labels == ("a", "b", "c")
    # A head for the same number of other classes is reset.
    model = create(7, labels=list("abcdefg"))
    assert (model.labels, array(model, "head", "kernel").any()) == (tuple("abcdefg"), False)
    assert array(create(7, labels=list(KINDS)), "head", "kernel").any()


def test_the_hash_of_published_weights_is_checked(monkeypatch):
    requests = []

    def fetch(url, sha256):
        requests.append((url.rpartition("/")[2], sha256))
        raise UsageError("no network here")

    monkeypatch.setattr("keras_vit.models.pretrained.fetch", fetch)
    for weights in ("imagenet21k+imagenet2012", "imagenet21k"):
        with pytest.raises(UsageError, match="no network here"):
            create_model("ViT-B_16", weights=weights)
    pinned = find_weights("ViT-B_16", "imagenet21k+imagenet2012").sha256
    assert requests == [("ViT-B_16.npz", pinned), ("ViT-B_16.npz", None)]


def test_published_weights_come_from_the_cache_with_labels_and_a_crop(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    small = keras_vit.ViTSpec(32, 24, 1, 2, 32)
    monkeypatch.setitem(VARIANTS, "ViT-S_32", small)
    keras_vit.save_weights(keras_vit.ViT(small, 1000, 64), tmp_path / "saved.npz")
    arrays = dict(np.load(tmp_path / "saved.npz"))  # without metadata, like published files
    pretrained = "augreg/S_32-i1k-300ep-lr_0.001-aug_none-wd_0.1-do_0.0-sd_0.0"
    for name, crop in ((pretrained, 0.875), ("augreg", None)):
        published = find_weights("ViT-S_32", name)
        path = cached_path(published.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)
        model = keras_vit.ViT_S32(weights=name)
        assert (model.labels[0], model.preprocessing.crop) == ("tench, Tinca_tinca", crop)
    assert keras_vit.ViT_S32(5, weights="augreg").labels is None
    for file in (path, published.url):  # a file alone does not say whose
        for model in (keras_vit.ViT_S32(weights=file), model_from_weights(file, num_heads=2)):
            assert model.labels is None
            np.testing.assert_array_equal(array(model, "head", "kernel"), arrays["head/kernel"])
    with pytest.raises(UsageError, match="KERAS_VIT_OFFLINE"):
        keras_vit.ViT_S16(weights="augreg")


def test_a_published_folder_is_found_by_its_name_alone(tmp_path, monkeypatch):
    small = dataclasses.replace(VARIANTS["ViT-S_16"], hidden_dim=24, depth=1, num_heads=2)
    monkeypatch.setitem(VARIANTS, "ViT-S_16", small)
    saved = keras_vit.ViT(dataclasses.replace(small, layer_scale=0.1, activation="erf"), 1000, 32)
    keras_vit.save_weights(saved, tmp_path / "model.safetensors")
    fetched = []

    def fetch_folder(url, sha256, further):
        fetched.append((url, sha256))
        return tmp_path

    monkeypatch.setattr("keras_vit.models.pretrained.fetch_folder", fetch_folder)
    name = "timm/deit3_small_patch16_224.fb_in22k_ft_in1k"
    for model in (
        keras_vit.ViT_S16(weights="timm", image_size=32),
        keras_vit.ViT_S16(weights=name, layer_scale=0.5),
        model_from_weights(name, num_heads=2),
    ):
        assert model.spec.layer_scale
        assert model.spec.activation == "erf"
        np.testing.assert_array_equal(
            array(model, "head", "kernel"), array(saved, "head", "kernel")
        )
    assert model.labels[0] == "tench, Tinca_tinca"
    assert model_from_weights(f"hf://{name}@v1", num_heads=2).labels is None
    pinned = find_weights("DINOv2-S_14", "facebook").sha256
    with pytest.raises(UsageError, match="patch_size 16, not 14"):
        keras_vit.DINOv2_S14(weights="facebook", image_size=28)
    deit = "hf://timm/deit_small_patch16_224.fb_in1k"
    of = f"hf://{name}"
    assert fetched == [
        (deit, None), (of, None), (of, None), (f"{of}@v1", None),
        ("hf://facebook/dinov2-small", pinned),
    ]  # fmt: skip
    assert len(pinned) == 64


def test_of_a_file_without_a_head_its_own_library_says_what_is_read(tmp_path, monkeypatch):
    small = {"hidden_dim": 24, "depth": 1, "num_heads": 2, "mlp_dim": 48}
    for name in ("DINOv2-S_14", "ViT-B_16-gap"):
        monkeypatch.setitem(VARIANTS, name, dataclasses.replace(VARIANTS[name], **small))
    spec = dataclasses.replace(VARIANTS["DINOv2-S_14"], pooling="token")
    saved = keras_vit.ViT(spec, 0, 28)
    keras_vit.save_weights(saved, tmp_path / "model.safetensors", "transformers")
    for load in (keras_vit.DINOv2_S14, functools.partial(model_from_weights, num_heads=2)):
        pooled = {n: load(num_classes=n, weights=tmp_path).spec.pooling for n in (None, 0, 3)}
        assert pooled == {None: "token", 0: "token", 3: "token_mean"}
        assert load(weights=tmp_path, pooling="token_gap").spec.pooling == "token_gap"
    # A class token that the variant does not have is not left out.
    keras_vit.save_weights(
        keras_vit.ViT(keras_vit.ViTSpec(16, **small), 0, 32), tmp_path / "gap.npz"
    )
    with pytest.raises(UsageError, match="pooling token, not gap"):
        create_model("ViT-B_16-gap", weights=tmp_path / "gap.npz")


def test_weights_of_another_model_and_those_that_do_not_exist_are_named(tiny):
    b16, neither = keras_vit.ViT_B16, "'imagenet22k' is neither a file nor published weights"
    for create, weights, message in (
        (keras_vit.ViT_S16, tiny, "this file is ViT-Ti_16: hidden_dim 192, not 3"),
        (keras_vit.BiT_R50x1, tiny, "a ViT, not a BiT ResNet"),
        (b16, "a.npz", "a.npz: expected a .npz file of weights; there is no such file"),
        (b16, "nowhere.safetensors", "there is no such file"),
        (b16, "imagenet22k", neither),
        (b16, "facebook/dino", "On the Hugging Face Hub it would be 'hf://facebook/dino'"),
    ):
        with pytest.raises(UsageError, match=message):
            create(weights=weights, image_size=32)
