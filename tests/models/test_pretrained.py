"""Models from files, URLs and the catalogue, with settings from the file and from the caller."""

from __future__ import annotations

import dataclasses
import functools
import http.server
import threading

import numpy as np
import pytest

import keras_vit
from keras_vit.models.pretrained import check_weights
from keras_vit.specs import VARIANTS
from keras_vit.weights import find_weights
from keras_vit.weights.cache import cached_path


@pytest.fixture
def tiny(tmp_path):
    """A file of ViT-Ti/16 for 32 pixels and 7 classes, without metadata, like published files."""
    spec = dataclasses.replace(VARIANTS["ViT-Ti_16"], representation_dim=24)
    model = keras_vit.ViT(spec, 7, 32)
    model.get_layer("head").bias.assign(np.arange(7.0))
    keras_vit.save_weights(model, tmp_path / "saved.npz")
    np.savez(tmp_path / "tiny.npz", **dict(np.load(tmp_path / "saved.npz")))
    return tmp_path / "tiny.npz"


def test_classes_resolution_and_representation_come_from_the_file(tiny):
    model = keras_vit.ViT_Ti16(weights=tiny)
    assert (model.num_classes, model.image_size) == (7, (32, 32))
    assert model.spec.representation_dim == 24
    np.testing.assert_array_equal(np.asarray(model.get_layer("head").bias), np.arange(7))


def test_other_classes_start_a_head_of_zeros_on_the_hidden_width(tiny):
    model = keras_vit.ViT_Ti16(num_classes=3, weights=str(tiny), image_size=48)
    assert (model.num_classes, model.image_size) == (3, (48, 48))
    assert model.spec.representation_dim is None
    assert tuple(model.get_layer("head").kernel.shape) == (192, 3)
    assert not np.asarray(model(np.ones((1, 48, 48, 3), np.float32))).any()


def test_the_representation_is_kept_on_request(tiny):
    model = keras_vit.ViT_Ti16(num_classes=3, weights=tiny, representation_dim=24)
    assert tuple(model.get_layer("head").kernel.shape) == (24, 3)
    arrays = np.load(tiny)
    kernel = np.asarray(model.get_layer("pre_logits").kernel)
    np.testing.assert_array_equal(kernel, arrays["pre_logits/kernel"])


def test_no_classes_makes_a_feature_extractor(tiny):
    model = keras_vit.ViT_Ti16(num_classes=0, weights=tiny)
    assert tuple(model.output.shape)[1:] == (192,)


def test_gelu_and_epsilon_come_from_the_file_unless_overridden(fixtures, monkeypatch):
    spec = keras_vit.ViTSpec(8, 48, 2, 3, 96)
    monkeypatch.setitem(VARIANTS, "ViT-Test_8", spec)
    file = fixtures / "hf_classifier.safetensors"
    model = keras_vit.create_model("ViT-Test_8", weights=file)
    assert (model.spec.gelu, model.spec.layer_norm_eps) == ("erf", 1e-12)
    expected = np.load(fixtures / "hf_classifier.io.npz")
    np.testing.assert_allclose(
        np.asarray(model(expected["images"])), expected["logits"], atol=2e-5, rtol=0
    )
    model = keras_vit.create_model("ViT-Test_8", weights=file, gelu="tanh", dropout=0.1)
    assert (model.spec.gelu, model.spec.dropout) == ("tanh", 0.1)
    moved = np.abs(np.asarray(model(expected["images"])) - expected["logits"]).max()
    assert moved > 2e-5  # the wrong GELU is seen


@pytest.fixture
def alone(fixtures, tmp_path):
    """A file of timm whose config.json, which states 3 heads, was not copied."""
    path = tmp_path / "alone.safetensors"
    path.write_bytes((fixtures / "timm_token.safetensors").read_bytes())
    return path


def test_what_a_file_alone_does_not_state_comes_from_the_caller(alone, fixtures, monkeypatch):
    monkeypatch.setitem(VARIANTS, "ViT-Test_8", keras_vit.ViTSpec(8, 48, 2, 4, 90))
    expected = np.load(fixtures / "timm_token.io.npz")
    for model in (
        keras_vit.model_from_weights(alone, num_heads=3, gelu="erf"),
        keras_vit.create_model("ViT-Test_8", weights=alone, num_heads=3, mlp_dim=96),
    ):
        logits = np.asarray(model(expected["images"]))
        np.testing.assert_allclose(logits, expected["logits"], atol=2e-5, rtol=0)
    own = {"num_heads": 4, "gelu": "tanh", "layer_norm_eps": 1e-5}
    spec = keras_vit.model_from_weights(alone, **own).spec
    assert own.items() <= dataclasses.asdict(spec).items()
    assert keras_vit.create_model("ViT-Test_8", weights=alone, mlp_dim=96).spec.num_heads == 4
    check_weights(spec, "ViT-Test_8", 32, alone, {"num_heads": 6})
    with pytest.raises(keras_vit.UsageError, match="num_heads=5 does not divide hidden_dim=48"):
        keras_vit.model_from_weights(alone, num_heads=5)


def test_heads_other_than_the_file_states_are_refused(fixtures, monkeypatch):
    file = fixtures / "timm_token.safetensors"
    monkeypatch.setitem(VARIANTS, "ViT-Test_8", keras_vit.ViTSpec(8, 48, 2, 4, 96))
    for build in (
        lambda: keras_vit.model_from_weights(file, num_heads=4),
        lambda: keras_vit.create_model("ViT-Test_8", weights=file),
        lambda: check_weights(VARIANTS["ViT-Test_8"], "ViT-Test_8", 32, file, {}),
    ):
        with pytest.raises(keras_vit.UsageError, match="needs num_heads=3, the model has 4"):
            build()


def test_labels_and_preprocessing_come_from_the_config(fixtures, monkeypatch):
    monkeypatch.setitem(VARIANTS, "ViT-Test_8", keras_vit.ViTSpec(8, 48, 2, 3, 96))
    file = fixtures / "timm_token.safetensors"
    model = keras_vit.create_model("ViT-Test_8", weights=file, image_size=64)
    assert model.labels == tuple(f"kind {i}" for i in range(7))
    assert (model.preprocessing.height, model.preprocessing.interpolation) == (64, "bicubic")
    own = keras_vit.Preprocessing(32, 32)
    model = keras_vit.create_model("ViT-Test_8", 3, weights=file, preprocessing=own)
    assert (model.labels, model.preprocessing) == (None, own)
    model = keras_vit.create_model("ViT-Test_8", 3, weights=file, labels=["a", "b", "c"])
    assert model.labels == ("a", "b", "c")


def test_a_head_for_the_same_number_of_other_classes_is_reset(fixtures, monkeypatch):
    monkeypatch.setitem(VARIANTS, "ViT-Test_8", keras_vit.ViTSpec(8, 48, 2, 3, 96))
    file = fixtures / "timm_token.safetensors"
    own = [f"own {i}" for i in range(7)]
    model = keras_vit.create_model("ViT-Test_8", 7, weights=file, labels=own)
    assert (model.labels, np.asarray(model.get_layer("head").kernel).any()) == (tuple(own), False)
    other_labels = [f"kind {i}" for i in range(7)]
    model = keras_vit.create_model("ViT-Test_8", 7, weights=file, labels=other_labels)
    assert np.asarray(model.get_layer("head").kernel).any()


def test_the_error_explains_that_the_file_has_another_model(tiny):
    with pytest.raises(keras_vit.UsageError, match="this file is ViT-Ti_16: hidden_dim 192, not 3"):
        keras_vit.ViT_S16(weights=tiny)
    with pytest.raises(keras_vit.UsageError, match="a ViT, not a BiT ResNet"):
        keras_vit.BiT_R50x1(weights=tiny, image_size=32)


@pytest.mark.slow
def test_names_of_the_catalogue_come_from_the_cache(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERAS_VIT_OFFLINE", "1")
    published = find_weights("ViT-Ti_16", "augreg")
    cached = cached_path(published.url)
    cached.parent.mkdir(parents=True)
    cached.write_bytes(tiny.read_bytes())
    for name in ("augreg", published.name, published.url):
        model = keras_vit.ViT_Ti16(weights=name)
        assert model.num_classes == 7
    assert keras_vit.ViT_Ti16(weights="augreg").preprocessing.crop == published.crop
    with pytest.raises(keras_vit.UsageError, match="KERAS_VIT_OFFLINE"):
        keras_vit.ViT_S16(weights="augreg")


def test_the_hash_of_published_weights_is_checked(monkeypatch):
    requests = []

    def fetch(url, sha256):
        requests.append((url.rpartition("/")[2], sha256))
        raise keras_vit.UsageError("no network here")

    monkeypatch.setattr("keras_vit.models.pretrained.fetch", fetch)
    for model, weights in (("ViT-B_16", "imagenet21k+imagenet2012"), ("ViT-B_16", "imagenet21k")):
        with pytest.raises(keras_vit.UsageError, match="no network here"):
            keras_vit.create_model(model, weights=weights)
    pinned = find_weights("ViT-B_16", "imagenet21k+imagenet2012").sha256
    assert requests == [("ViT-B_16.npz", pinned), ("ViT-B_16.npz", None)]


def test_published_imagenet_weights_have_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))
    small = dataclasses.replace(
        VARIANTS["ViT-S_32"], hidden_dim=24, depth=1, num_heads=2, mlp_dim=32
    )
    monkeypatch.setitem(VARIANTS, "ViT-S_32", small)
    published = find_weights("ViT-S_32", "augreg")
    path = cached_path(published.url)
    path.parent.mkdir(parents=True)
    keras_vit.save_weights(keras_vit.ViT(small, 1000, 64), path)
    model = keras_vit.ViT_S32(weights="augreg")
    assert model.labels[0] == "tench, Tinca_tinca"
    assert keras_vit.ViT_S32(5, weights="augreg").labels is None
    assert keras_vit.ViT_S32(weights=path).labels is None  # a file alone does not say whose


def test_a_url_is_downloaded_once(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            requests.append(self.path)

    handler = functools.partial(Handler, directory=tiny.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/tiny.npz"
        models = [keras_vit.ViT_Ti16(weights=url), keras_vit.model_from_weights(url)]
        server.shutdown()
    assert requests == ["/tiny.npz"]
    for one, other in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("nowhere.npz", "nowhere.npz: expected a .npz file of weights; there is no such file"),
        ("nowhere.safetensors", "there is no such file"),
        ("imagenet22k", r"'imagenet22k' is neither a file nor published weights"),
    ],
)
def test_weights_that_do_not_exist_are_named(weights, message):
    with pytest.raises(keras_vit.UsageError, match=message):
        keras_vit.ViT_B16(weights=weights)
