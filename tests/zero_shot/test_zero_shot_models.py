"""Zero-shot models: transformers' logits, templates, the cache, and what is refused."""

import json
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_vit
from keras_vit import UsageError
from keras_vit._keras import keras
from keras_vit.zero_shot import embedding_cache, label_vectors

pytestmark = pytest.mark.flavours
FAMILIES = ("clip", "siglip", "siglip2")
ACTIVATIONS = {"clip": "softmax", "siglip": "sigmoid", "siglip2": "sigmoid"}


@pytest.fixture
def folder(fixtures, tmp_path, monkeypatch):
    """A copy of a folder, and a cache of its own."""
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "cache"))

    def copy(name):
        return shutil.copytree(fixtures / "zero_shot" / name, tmp_path / name)

    return copy


def change(file, **values):
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def head(model):
    layer = model.get_layer("head")
    return np.asarray(layer.kernel), np.asarray(layer.bias)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_logits_are_those_of_transformers(folder, name):
    place = folder(name)
    reference = np.load(place / "reference.npz")
    texts = [str(text) for text in reference["texts"]]
    with pytest.warns(UserWarning, match="1 of 6 texts are longer than the .* tokens that"):
        model = keras_vit.zero_shot_model(place, texts, ["{}"])
    logits = model.predict(reference["images"], verbose=0)
    np.testing.assert_allclose(logits, reference["logits"], atol=2e-5, rtol=0)
    assert model.labels == tuple(texts)
    assert model.head_activation == ACTIVATIONS[name]
    assert model.preprocessing.size == (32, 32)


def test_it_is_saved_and_loaded_like_any_model(folder, tmp_path):
    place = folder("siglip")
    images = np.load(place / "reference.npz")["images"]
    model = keras_vit.zero_shot_model(place, ["cat", "dog"])
    logits = model.predict(images, verbose=0)
    model.save(tmp_path / "model.keras")
    keras_vit.save_weights(model, tmp_path / "model.npz")
    for again in (
        keras.models.load_model(tmp_path / "model.keras"),
        keras_vit.model_from_weights(tmp_path / "model.npz"),
    ):
        np.testing.assert_array_equal(again.predict(images, verbose=0), logits)
        assert (again.labels, again.head_activation) == (("cat", "dog"), "sigmoid")
    [best] = keras_vit.decode_predictions(logits[:1], model)
    assert dict(best)["dog"] == pytest.approx(1 / (1 + np.exp(-logits[0, 1])), rel=1e-5)


def test_templates_are_averaged_after_each_text_has_length_1(folder):
    place, labels = folder("clip"), ["cat", "hot_dog"]
    one, other = (
        head(keras_vit.zero_shot_model(place, labels, each))[0] for each in ("a {}", "{}!")
    )
    both, bias = head(keras_vit.zero_shot_model(place, labels, ["a {}", "{}!"]))
    scale = np.linalg.norm(one, axis=0)
    np.testing.assert_allclose(scale, scale[0], rtol=1e-6)
    mean = one + other
    np.testing.assert_allclose(both, scale * mean / np.linalg.norm(mean, axis=0), rtol=1e-5)
    np.testing.assert_array_equal(bias, 0)
    # Names of folders have underscores where texts have spaces.
    spaced, _ = head(keras_vit.zero_shot_model(place, ["cat", "hot dog"], "a {}"))
    np.testing.assert_array_equal(one, spaced)


@pytest.fixture
def towers(monkeypatch):
    """The numbers of ids of the text towers that are built."""
    built, build = [], label_vectors.text_tower

    def tower(spec, ids, length):
        built.append(ids)
        return build(spec, ids, length)

    monkeypatch.setattr(label_vectors, "text_tower", tower)
    return built


def test_texts_are_computed_once(folder, towers):
    place = folder("siglip")
    first = keras_vit.zero_shot_model(place, ["cat", "dog"], "a {}")
    again = keras_vit.zero_shot_model(place, ["dog", "cat"], "a {}")
    np.testing.assert_array_equal(head(first)[0], head(again)[0][:, ::-1])
    assert len(towers) == 1
    counts = []
    report = {"on_progress": lambda *of: counts.append(of)}
    keras_vit.zero_shot_model(place, ["dog", "emu"], "a {}", **report)
    assert counts == [(1, 2), (2, 2)]
    assert len(towers) == 2


def test_vectors_of_another_computation_are_not_taken_from_the_cache(folder, towers):
    siglip, siglip2 = folder("siglip"), folder("siglip2")
    before = [head(keras_vit.zero_shot_model(each, ["cat"]))[0] for each in (siglip, siglip2)]
    text = json.loads((siglip / "config.json").read_text())["text_config"]
    change(siglip / "config.json", text_config={**text, "num_attention_heads": 4 * 4})
    change(siglip2 / "tokenizer_config.json", padding_side="left")
    for each, kernel in zip((siglip, siglip2), before, strict=True):
        assert np.abs(head(keras_vit.zero_shot_model(each, ["cat"]))[0] - kernel).max() > 0.1
    change(siglip / "config.json", text_config=text)
    assert len(towers) == 4
    np.testing.assert_array_equal(head(keras_vit.zero_shot_model(siglip, ["cat"]))[0], before[0])
    assert len(towers) == 4
    content = bytearray((siglip / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (siglip / "model.safetensors").write_bytes(content)
    keras_vit.zero_shot_model(siglip, ["cat"])
    assert len(towers) == 5


def test_texts_in_groups_and_of_other_lengths_are_the_same(folder, monkeypatch):
    names = [f"picture {i}" for i in range(40)]
    for name in ("clip", "siglip"):
        place = folder(name)
        whole, _ = head(keras_vit.zero_shot_model(place, names, "{}"))
        monkeypatch.setenv("KERAS_VIT_CACHE", str(place / "cache"))
        few = [names[35], names[3], "a longer name that has more tokens than the others"]
        found, _ = head(keras_vit.zero_shot_model(place, few, "{}"))
        np.testing.assert_allclose(found[:, :2], whole[:, [35, 3]], atol=2e-5)


def test_the_text_tower_computes_in_float32(folder, monkeypatch):
    place = folder("clip")
    expected, _ = head(keras_vit.zero_shot_model(place, ["cat", "dog"]))
    monkeypatch.setenv("KERAS_VIT_CACHE", str(place / "cache"))
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        found, _ = head(keras_vit.zero_shot_model(place, ["cat", "dog"]))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    np.testing.assert_allclose(found, expected, atol=2e-5)


def kept(texts, until=None, computed=None, warned=None):
    """The first numbers of cached vectors; the computation is interrupted before text `until`."""

    def encode(missing):
        for i in range(0, len(missing), 2):
            if i == until:
                raise KeyboardInterrupt
            computed.extend(missing[i : i + 2])
            yield np.array([[float(text[-1]), 1] for text in missing[i : i + 2]], np.float32)

    computed, warned = [] if computed is None else computed, [] if warned is None else warned
    reports = (lambda *_: None, warned.append)
    return embedding_cache.cached_vectors("tower", texts, 2, encode, *reports)[:, 0]


def test_what_was_computed_before_an_interruption_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))
    texts, computed = [f"text {i}" for i in range(6)], []
    with pytest.raises(KeyboardInterrupt):
        kept(texts, until=4, computed=computed)
    assert computed == texts[:4]
    np.testing.assert_array_equal(kept(texts, computed=computed), range(6))
    assert computed == texts
    [file] = (tmp_path / "texts").iterdir()
    whole = dict(np.load(file))
    for damaged in (
        {"vectors": whole["vectors"] * np.nan},
        {"vectors": whole["vectors"] * 0},
        {"vectors": whole["vectors"][:, :1]},
        {"vectors": whole["vectors"].astype(int)},
        {"digests": whole["digests"][:, 1:]},
        {"digests": whole["digests"][1:]},
    ):
        np.savez(file, **(whole | damaged))
        computed.clear()
        np.testing.assert_array_equal(kept(texts, computed=computed), range(6))
        assert computed == texts
    file.write_bytes(b"damaged")
    np.testing.assert_array_equal(kept(texts), range(6))


def test_the_cache_keeps_what_others_add_and_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path))

    def kept_by_two():
        encode = embedding_cache._read

        def read(*where):  # another process finishes after this one has read the cache
            monkeypatch.setattr(embedding_cache, "_read", encode)
            found = encode(*where)
            kept(["text 1"])
            return found

        monkeypatch.setattr(embedding_cache, "_read", read)
        return kept(["text 2"])

    np.testing.assert_array_equal(kept_by_two(), [2])
    computed = []
    kept(["text 1", "text 2"], computed=computed)
    assert computed == []
    monkeypatch.setattr(embedding_cache, "_MOST_TEXTS", 2)
    kept(["text 3"])
    kept(["text 1", "text 2", "text 3"], computed=computed)
    assert computed == ["text 1"]


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERAS_VIT_CACHE", str(tmp_path / "file"))
    warned = []
    np.testing.assert_array_equal(kept(["text 4"], warned=warned), [4])
    [warning] = warned
    assert re.search("vectors of texts are not kept, .* cannot be written: .*", warning)


@pytest.mark.parametrize(
    ("labels", "templates", "message"),
    [
        ([], "{}", "expected one to 50,000 labels.*Received: 0"),
        (
            [str(i) for i in range(200_000)],
            "{}",
            "expected one to 50,000 labels.*Received: 200,000",
        ),
        (["cat", " "], "{}", "label 2 is empty; name the class"),
        (["cat", "dog", "cat "], "{}", "the label 'cat' is there twice"),
        (["cat\ndog"], "{}", "labels must be lines of text"),
        ("cat", "{}", "labels must be a sequence of strings"),
        (["cat", "dog"], ["a {}", "a cat"], r"template 2 must be a line of text with \{\} where"),
        (["cat", "dog"], [], "expected a template or several"),
        ([str(i) for i in range(50_000)], ["{}"] * 11, "at most 500,000 texts"),
        (["cat", "dog"], None, "template 1 must be a line of text .* Received: None"),
        (["cat", "dog"], {"a {}", "{}"}, "template 1 must be a line of text"),
        (["cat", "dog"], ["a {}\n"], "template 1 must be a line of text"),
        (["cat", "dog"], ["\ud800 {}"], "template 1 must be a line of text"),
    ],
)
def test_bad_words_are_refused_before_anything_is_opened(labels, templates, message):
    with pytest.raises(UsageError, match=message) as error:
        keras_vit.zero_shot_model("nowhere", labels, templates)
    assert "\n" not in str(error.value)


def refused(message, place, labels=("cat", "dog"), **options):
    with pytest.raises(UsageError, match=message) as error:
        keras_vit.zero_shot_model(place, labels, **options)
    assert "\n" not in str(error.value)


def test_a_folder_without_a_text_tower_is_refused(fixtures):
    for file in ("timm_clip.safetensors", "hf_dinov2.safetensors", "vit_token.weights.npz"):
        refused("has no text tower; expected a folder with both towers", fixtures / file)


@pytest.mark.parametrize(
    ("name", "labels"),
    [("siglip", ("Dog", "dog")), ("siglip", ("...", "!!!")), ("clip", ("hot_dog", "hot dog"))],
)
def test_labels_that_are_the_same_text_for_the_tower_are_refused(folder, name, labels):
    message = f"the labels {labels[0]!r} and {labels[1]!r} are the same text for the text tower"
    refused(re.escape(message), folder(name), labels)


def test_labels_after_a_template_that_is_too_long_are_refused(folder):
    place, long = folder("clip"), "a very long text of many words " * 20
    warned = []
    with pytest.raises(UsageError, match="same text .*, without the ends that are too long"):
        keras_vit.zero_shot_model(place, ["a", "b"], long + "{}", on_warning=warned.append)


def test_what_does_not_fit_is_said_before_texts_are_encoded(folder, towers):
    refused("image_size must be a multiple", folder("clip"), image_size=33)
    siglip = folder("siglip")
    arrays = load_file(siglip / "model.safetensors")
    narrow = {
        f"text_model.head.{k}": arrays[f"text_model.head.{k}"][:24] for k in ("weight", "bias")
    }
    save_file(arrays | narrow, siglip / "model.safetensors")
    refused("its images have 32 features and its texts 24", siglip)
    assert towers == []


def test_clip_compares_two_labels_or_more(folder):
    refused("CLIP compares labels with each other", folder("clip"), ["cat"])
    model = keras_vit.zero_shot_model(folder("siglip"), ["cat"])
    assert model.output_shape == (None, 1)


def test_a_tokenizer_or_a_config_of_another_model_is_refused(folder, fixtures):
    siglip, clip = folder("siglip"), folder("clip")
    (siglip / "spiece.model").unlink()
    shutil.copy(fixtures / "zero_shot/siglip2/tokenizer.json", siglip)
    refused("the tokenizer has 900 tokens and the text tower knows 600", siglip)
    text = json.loads((clip / "config.json").read_text())["text_config"]
    for end, message in (
        (7, "texts end with token 7, and the tokenizer ends them with 913"),
        (2, ""),
    ):
        change(clip / "config.json", text_config={**text, "eos_token_id": end})
        if message:
            refused(message, clip)
    assert keras_vit.zero_shot_model(clip, ["cat", "dog"])  # 2 is the old spelling
    change(clip / "config.json", text_config={**text, "num_attention_heads": 7})
    refused("of the text tower, its config.json states num_attention_heads=7", clip)
    change(clip / "config.json", text_config={**text, "layer_norm_eps": "small"})
    refused("of the text tower, its epsilon is 'small'; expected a number", clip)
    for config in (None, {}, {**text, "num_attention_heads": None}):
        change(clip / "config.json", text_config=config)
        refused("does not state num_attention_heads in its text_config", clip)


def test_what_a_config_does_not_state_is_transformers_default(folder, towers):
    for name in ("clip", "siglip"):
        place = folder(name)
        expected, _ = head(keras_vit.zero_shot_model(place, ["cat", "dog"]))
        text = json.loads((place / "config.json").read_text())["text_config"]
        for heads, is_same in ((text["num_attention_heads"], True), (1, False)):
            change(place / "config.json", text_config={"num_attention_heads": heads})
            found, _ = head(keras_vit.zero_shot_model(place, ["cat", "dog"]))
            assert np.array_equal(found, expected) == is_same
    assert len(towers) == 4


def test_a_token_that_is_not_in_the_table_is_refused(folder):
    place = folder("clip")
    tokenizer = json.loads((place / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["cat</w>" if "cat</w>" in vocabulary else next(iter(vocabulary))] = 10**6
    (place / "tokenizer.json").write_text(json.dumps(tokenizer))
    refused("the tokenizer has 1,000,001 tokens and the text tower knows 914", place)


def test_a_text_tower_with_other_arrays_is_refused(folder):
    file = folder("siglip") / "model.safetensors"
    arrays = load_file(file)
    key = "text_model.encoder.layers.1.mlp.fc2.bias"
    tokens, positions = (
        f"text_model.embeddings.{kind}_embedding.weight" for kind in ("token", "position")
    )
    for changed, message in (
        ({key: arrays[key][:-1]}, rf"{key} must be \(32,\)\. Received: \(31,\)"),
        ({key: arrays[key] * np.nan}, f"{key} has NaN or infinite values"),
        ({f"{key}.more": arrays[key]}, rf"another text tower .* unknown \['{key}.more'\]"),
        ({"logit_scale": arrays["logit_scale"] * np.nan}, "logit_scale has NaN"),
        ({"logit_scale": arrays["logit_scale"] + 1000}, "logit_scale must be at most 10"),
        ({tokens: arrays[tokens] * 1e38 * 1e5}, "has NaN or infinite values"),
        ({tokens: arrays[tokens] + np.float32(3e38)}, "gives vectors of zeros or with values"),
        ({positions: arrays[positions][:, :8]}, "must have 3 rows or more of 32 numbers"),
        ({positions: arrays[positions][:2]}, r"Received: \(2, 32\)"),
    ):
        save_file(arrays | changed, file)
        refused(message, file.parent)
    del arrays[key]
    save_file(arrays, file)
    refused(rf"missing \['{key}'\]", file.parent)
    del arrays["logit_scale"]
    save_file(arrays, file)
    refused("has no logit_scale", file.parent)


def test_by_a_models_name_a_kept_head_compares_and_a_new_one_does_not(folder, tmp_path):
    images = np.load(folder("siglip") / "reference.npz")["images"]
    model = keras_vit.zero_shot_model(tmp_path / "siglip", ["cat", "dog"])
    logits = model.predict(images, verbose=0)
    keras_vit.save_weights(model, tmp_path / "model.npz")
    sizes = ("patch_size", "hidden_dim", "depth", "num_heads", "mlp_dim")
    options = {name: getattr(model.spec, name) for name in sizes}
    options |= {"image_size": 32, "weights": tmp_path / "model.npz"}
    again = keras_vit.create_model("SigLIP-B_16", **options)
    np.testing.assert_allclose(again.predict(images, verbose=0), logits, atol=1e-6)
    assert again.head_activation == "sigmoid"
    for other in (
        keras_vit.create_model("SigLIP-B_16", 3, **options),
        keras_vit.model_from_weights(tmp_path / "model.npz", 3),
    ):
        assert not other.spec.normalized_features
        assert other.head_activation == "softmax"
    refusal = "timm has normalized_features=False|no normalized_features"
    with pytest.raises(UsageError, match=refusal):
        keras_vit.save_weights(model, tmp_path / "model.safetensors")


def test_a_head_that_was_trained_since_is_not_described_as_of_texts(folder):
    model = keras_vit.zero_shot_model(folder("siglip"), ["cat", "dog"])
    assert model.zero_shot["templates"] == ["This is a photo of {}."]
    kernel = model.get_layer("head").kernel
    kernel.assign(kernel * 1.5)
    assert model.zero_shot is None
