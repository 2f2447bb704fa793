"""A SavedModel for servers: what it says in a process that has TensorFlow and not keras_vit."""

import dataclasses
import io
import json
import subprocess
import sys
import types

import numpy as np
import pytest
from PIL import Image
from scipy.special import expit, softmax

import keras_vit
from keras_vit import UsageError
from keras_vit._errors import RefusedError
from keras_vit._keras import keras
from keras_vit.data.decoding import decode_image
from keras_vit.data.picture_limits import MOST_PIXELS
from keras_vit.deploy import serving
from keras_vit.deploy.graph.graph_options import GraphOptions
from keras_vit.deploy.resolve import resolve
from keras_vit.labels import imagenet2012_labels
from keras_vit.models.pretrained import model_class

SIZE = (32, 64)
HOW = keras_vit.Preprocessing(
    *SIZE, 0.875, "bicubic", mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375)
)
LABELS = ("daisy", "rose", "tulip, Tulipa", "löwenzahn", "sunflower")
FILES = {
    "wide.jpg": ("RGB", (200, 90)),
    "grey.png": ("L", (90, 50)),
    "clear.png": ("RGBA", (64, 32)),
}

# Keras, Pillow and this library cannot be imported there.
SERVER = """
import sys
for name in ("keras_vit", "keras", "tf_keras", "PIL"):
    sys.modules[name] = None
import numpy as np
import tensorflow as tf

folder, asked, answered, *files = sys.argv[1:]
served = tf.saved_model.load(folder).signatures
images = np.load(asked)
contents = [open(file, "rb").read() for file in files]
found = {
    "one": served["serving_default"](images=tf.constant(images[:1])),
    "three": served["serving_default"](images=tf.constant(images)),
    "bytes": served["bytes"](image_bytes=tf.constant(contents)),
    "a_file": served["bytes"](image_bytes=tf.constant(contents[:1])),
    "no_file": served["bytes"](image_bytes=tf.constant([], tf.string)),
}
torn = [contents[0][:-900], b"", contents[0], b"no picture", contents[1][:200], contents[2]]
found["torn"] = served["bytes"](image_bytes=tf.constant(torn))
found["none_whole"] = served["bytes"](image_bytes=tf.constant([b"", b"text"]))
arrays = {f"{n}/{k}": np.asarray(v) for n, outputs in found.items() for k, v in outputs.items()}
np.savez(answered, **{k: v.astype("S") if v.dtype == object else v for k, v in arrays.items()})
"""


def module_of(model, top_k):
    options = GraphOptions("uint8", "logits" if model.num_classes else "features", batch=None)
    return serving.serving_module(resolve(model, options), top_k)


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (3, *SIZE, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def exported(tmp_path_factory, trained_like):
    """A model, the description of its SavedModel, pictures, and what a server answers."""
    folder = tmp_path_factory.mktemp("serving")
    spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
    model = trained_like(keras_vit.ViT(spec, 5, SIZE, preprocessing=HOW, labels=LABELS))
    generator = np.random.default_rng(0)
    for name, (mode, size) in FILES.items():
        pixels = generator.integers(0, 256, (*size[::-1], len(mode))).astype(np.uint8)
        Image.fromarray(pixels.squeeze(), mode).save(folder / name)
    images = generator.integers(0, 256, (3, *SIZE, 3)).astype(np.uint8)
    np.save(folder / "asked.npy", images)
    pictures = [decode_image(folder / name) for name in FILES]
    description = serving.export_serving(model, folder / "served", pictures, 3, "test pictures")
    paths = [folder / name for name in ("served", "asked.npy", "answered.npz", *FILES)]
    subprocess.run([sys.executable, "-I", "-c", SERVER, *paths], check=True, timeout=120)
    inputs = (images - np.float32(HOW.mean)) / np.float32(HOW.scale)
    of_images = np.asarray(model(inputs))
    of_files = np.asarray(model(keras_vit.preprocess(pictures, model)))
    answered = {}
    for name, array in np.load(folder / "answered.npz").items():
        asked, output = name.split("/")
        answered.setdefault(asked, {})[output] = array
    return types.SimpleNamespace(
        model=model,
        description=description,
        logits={
            "one": of_images[:1],
            "three": of_images,
            "bytes": of_files,
            "a_file": of_files[:1],
        },
        answered=answered,
        folder=folder / "served",
    )


def assert_answers(found, logits, model, names, top=5):
    """The logits, and the most probable classes as `decode_predictions` names them."""
    found = {name: np.asarray(values) for name, values in found.items()}
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    for i, answers in enumerate(keras_vit.decode_predictions(logits, model, top=top)):
        labels = [label.decode() for label in found["labels"][i]]
        assert labels == [names[c] for c in found["classes"][i]] == [label for label, _ in answers]
        np.testing.assert_allclose(found["scores"][i], [p for _, p in answers], atol=1e-6)


@pytest.mark.parametrize("asked", ["one", "three", "bytes", "a_file"])
def test_images_and_files_of_any_number_and_size_get_keras_scores_and_names(exported, asked):
    found, logits = exported.answered[asked], exported.logits[asked]
    assert_answers(found, logits, exported.model, LABELS, top=3)
    probabilities = softmax(logits.astype(float), axis=-1)
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-6)
    assert exported.answered["no_file"]["scores"].shape == (0, 3)


def test_images_of_another_size_and_more_files_than_fit_into_memory_are_refused(exported):
    import tensorflow as tf

    served, (height, width) = tf.saved_model.load(str(exported.folder)).signatures, SIZE
    # They are not taken for several images.
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\(n, {height}, {width}, 3\)"):
        served["serving_default"](images=tf.zeros((1, 2 * height, 2 * width, 3), tf.uint8))
    most = MOST_PIXELS // (height * width)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"at most {most} files"):
        served["bytes"](image_bytes=tf.fill((most + 1,), ""))


def test_broken_files_are_marked_and_the_others_of_the_batch_classified(exported):
    torn, whole = exported.answered["torn"], exported.answered["bytes"]
    assert whole["valid"].all()
    valid = torn["valid"]
    assert valid.tolist() == [False, False, True, False, False, True]
    for name, found in torn.items():
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found[valid], whole[name][[0, 2]], atol=1e-5)
            assert np.isnan(found[~valid]).all(), name
        else:
            np.testing.assert_array_equal(found[valid], whole[name][[0, 2]])
    assert (torn["classes"][~valid] == -1).all()
    assert (torn["labels"][~valid] == b"").all()
    assert exported.answered["none_whole"]["valid"].tolist() == [False, False]
    assert np.isnan(exported.answered["none_whole"]["logits"]).all()


def test_it_says_what_it_is(exported):
    description, extra = exported.description, exported.folder / "assets.extra"
    written = json.loads((extra / "model.json").read_text())
    assert written == json.loads(json.dumps(description))
    assert keras_vit.ViTSpec.from_dict(description["spec"]) == exported.model.spec
    assert keras_vit.Preprocessing.from_dict(description["preprocessing"]) == HOW
    signatures = description["signatures"]
    of_files, outputs = signatures["bytes"], signatures["serving_default"]["outputs"]
    assert of_files["inputs"] == {"image_bytes": {"dtype": "string", "shape": [None]}}
    assert outputs["probabilities"] == {"dtype": "float32", "shape": [None, 5]}
    assert outputs["labels"] == {"dtype": "string", "shape": [None, 3]}
    assert of_files["outputs"] == outputs | {"valid": {"dtype": "bool", "shape": [None]}}
    parity = description["parity"]
    assert (parity["images_from"], parity["images"], parity["pictures"]) == ("test pictures", 3, 3)
    assert parity["max_difference"] < 1e-5 * parity["scale"]
    assert (extra / "labels.txt").read_text("utf-8").splitlines() == list(LABELS)


KINDS = {
    "none": {"pooling": "none"},
    "stem": {"stem": keras_vit.ResNetStem((1, 1)), "patch_size": 1},
    "grey": {"in_channels": 1},
    **{pooling: {"pooling": pooling} for pooling in ("gap", "map", "distilled")},
    "bit": keras_vit.ResNetSpec((1, 1, 1, 1)),
    "features": {},
}
QUICK = {"none", "stem", "grey"}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in KINDS]
)
def test_every_kind_of_model_answers_as_keras(small_spec, randomised, images, kind):
    classes, output = (0, "features") if kind == "features" else (5, "logits")
    spec = KINDS[kind] if kind == "bit" else dataclasses.replace(small_spec, **KINDS[kind])
    model = model_class(spec)(spec, classes, SIZE)
    expected = np.asarray(randomised(model)(keras_vit.preprocess(images, model)))
    atol = 1e-5 * np.abs(expected).max()
    module = module_of(model, top_k=9)
    found = module.classify(images)
    ranked = {"probabilities", "scores", "classes", "labels"} if classes else set()
    assert found.keys() == {output, *ranked}
    np.testing.assert_allclose(found[output], expected, atol=atol)
    if classes:  # of pooling "none", for each token
        order = np.argsort(-expected, axis=-1)  # 5 classes are all there are of 9
        np.testing.assert_array_equal(found["classes"], order)
        np.testing.assert_array_equal(found["labels"], order.astype("S").astype(object))
    if kind in ("none", "features"):
        file = io.BytesIO()
        Image.fromarray(images[0]).save(file, "PNG")
        found = module.classify_pictures([b"", file.getvalue()])
        assert found["valid"].numpy().tolist() == [False, True]
        broken, scores = found[output].numpy()
        assert np.isnan(broken).all()
        np.testing.assert_allclose(scores, expected[0], atol=atol)


def test_one_logit_has_two_answers(small_spec, randomised, images):
    model = randomised(keras_vit.ViT(small_spec, 1, SIZE, labels=("daisy",)))
    logits = np.asarray(model(keras_vit.preprocess(images, model)))
    found = module_of(model, top_k=5).classify(images)
    assert_answers(found, logits, model, ("not daisy", "daisy"))
    np.testing.assert_allclose(found["probabilities"], expit(logits), atol=1e-6)


@pytest.mark.slow
def test_a_model_whose_layers_were_changed_is_served_as_it_is(
    small_spec, randomised, images, tmp_path
):
    import tensorflow as tf

    model = randomised(keras_vit.ViT(small_spec, 5, SIZE))
    model.get_layer("encoderblock_1").norm_mlp.epsilon = 0.5
    expected = np.asarray(model(keras_vit.preprocess(images, model)))
    described = serving.export_serving(model, tmp_path / "served", images, top_k=2)
    assert described["parity"]["images"] == 3
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    found = served(images=images)["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.fixture
def tiny(small_spec, randomised):
    return randomised(keras_vit.ViT(dataclasses.replace(small_spec, depth=1), 1000, (16, 24)))


def test_a_thousand_classes_without_names_are_imagenets(tiny, images):
    found = module_of(tiny, top_k=2).classify(images[:1, :16, :24])
    logits = np.asarray(tiny(keras_vit.preprocess(images[:1, :16, :24], tiny)))
    assert_answers(found, logits, None, imagenet2012_labels(), top=2)


def heavier(resolved):
    """The model with another bias of its head, which is its last weight."""
    [*_, (name, bias)] = resolved.graph.weights.items()
    weights = resolved.graph.weights | {name: lambda: bias() * np.float32(1.01)}
    graph = dataclasses.replace(resolved.graph, weights=weights)
    return dataclasses.replace(resolved, graph=graph)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "wrong", "message"),
    [
        (
            "graph_module",
            lambda right, resolved: right(heavier(resolved)),
            "the scores of the float32 file must vary between images as Keras' do",
        ),
        (
            "read_valid_pictures",
            lambda right, x, preprocessing: right(
                x, dataclasses.replace(preprocessing, interpolation="nearest")
            ),
            "must equal Pillow's. Received: a difference of",
        ),
    ],
)
def test_what_differs_is_not_written(tiny, tmp_path, monkeypatch, part, wrong, message):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("the old one")
    right = getattr(serving, part)
    monkeypatch.setattr(serving, part, lambda *arguments: wrong(right, *arguments))
    with pytest.raises(RefusedError, match=message):
        serving.export_serving(tiny, folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["served", "saved_model.pb"]
    assert (folder / "saved_model.pb").read_text() == "the old one"


def test_what_cannot_be_served_is_said_before_anything_is_written(tiny, tmp_path, rng):
    foreign = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()])
    floats = [rng.uniform(size=(4, 4, 3))]
    for model, options, message in (
        (foreign, {}, "Received: Sequential; deploy.export_saved_model writes"),
        (tiny, {"top_k": 0}, "top_k must be a positive integer. Received: top_k=0"),
        (tiny, {"images": []}, "there is no image to compare on"),
        (tiny, {"images": floats}, r"must be uint8 .*Received: float64 \(4, 4, 3\)"),
    ):
        with pytest.raises(UsageError, match=message):
            serving.export_serving(model, tmp_path / "served", **options)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and holds no SavedModel"):
        serving.export_serving(tiny, tmp_path)
    with pytest.raises(UsageError, match="thesis.txt is a file"):
        serving.export_serving(tiny, tmp_path / "thesis.txt")
