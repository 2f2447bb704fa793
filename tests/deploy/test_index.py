"""Galleries: made from folders, written into a bundle, read back, and what they say of pictures."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import UsageError, deploy
from keras_vit._errors import RefusedError
from keras_vit.data import digits
from keras_vit.neighbours import unit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits in folders of their classes, one beside them, and files that are no pictures."""
    folder, source = tmp_path_factory.mktemp("pictures"), digits()
    for i in range(30):
        path = folder / f"train/{source.labels[int(source.targets[i])]}/{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(source.image(i)).resize((200, 100)).save(path)
    Image.fromarray(source.image(30)).save(folder / "\u200fodd\n name.png")
    (folder / "train/0/torn.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "train/notes.txt").write_text("not a picture")
    return folder


@pytest.fixture(scope="module")
def exported(sample, tmp_path_factory):
    """A bundle of features."""
    path = tmp_path_factory.mktemp("exported")
    model = sample.model
    deploy.export_bundles(model, path, "none", sample.images, output="features", threads=())
    return path / "float32"


@pytest.fixture
def bundle(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "bundle")


@pytest.fixture(scope="module")
def indexed(exported, folder, tmp_path_factory):
    """A bundle with a gallery."""
    path = shutil.copytree(exported, tmp_path_factory.mktemp("indexed") / "bundle")
    pictures = deploy.pictures_to_index([folder])
    deploy.index_pictures(deploy.open_bundle(path), pictures, on_skipped=lambda line: None)
    return path


def test_a_gallery_is_the_features_names_and_classes_of_pictures(sample, indexed, folder):
    bundle = deploy.open_bundle(indexed)
    gallery = bundle.gallery
    files = sorted(folder.rglob("*.png"))
    assert len(gallery.names) == 31
    assert gallery.names[-1] == "\\u200fodd\\n name.png"
    assert gallery.names[:-1] == tuple(p.relative_to(folder).as_posix() for p in files[:-1])
    assert gallery.classes == tuple("0123456789")
    assert gallery.targets.tolist() == [*(int(path.parent.name) for path in files[:-1]), -1]
    inputs = keras_vit.preprocess(files, sample.model)
    expected = unit(
        np.asarray(sample.model.intermediates("pre_logits")(inputs)["pre_logits"], np.float64)
    )
    np.testing.assert_allclose(gallery.vectors, expected, atol=1e-5)
    shown = np.asarray(Image.open(indexed / "gallery/0.jpg").convert("L"), int)
    small = np.asarray(Image.open(files[0]).convert("L").resize((160, 80)), int)
    assert shown.shape == (80, 160)
    assert np.abs(shown - small).mean() < 20


def test_a_picture_is_like_itself_and_its_class_is_a_vote(indexed, folder):
    bundle = deploy.open_bundle(indexed)
    gallery, file = bundle.gallery, folder / "train/4/04.png"
    query = bundle.predict(keras_vit.preprocess(file, bundle)) * 3  # lengths do not matter
    [similar] = gallery.similar(query, 3)
    assert similar[0] == ("train/4/04.png", pytest.approx(1, abs=1e-6))
    assert similar[1][1] >= similar[2][1]
    cosines = (gallery.vectors @ unit(query)[0]).astype(np.float64)
    known = gallery.targets >= 0

    def votes(of, count, targets, cosines):
        best = np.argsort(-cosines)[: count if of == "pictures" else None]
        found = np.bincount(targets[best], np.exp(cosines[best] / 0.1), minlength=10)
        found /= np.bincount(targets)  # of a large class each vote counts less
        made = deploy.Gallery(**vars(gallery) | {"vote": deploy.Vote(of, count, 0.1)})
        np.testing.assert_allclose(made.shares(query), [found / found.sum()], atol=1e-5)
        return made.named(query, 10)[0]

    named = votes("pictures", 7, gallery.targets[known], cosines[known])
    assert 0 < len(named) <= 7  # and no class without a vote
    means = unit(np.stack([gallery.vectors[gallery.targets == i].mean(0) for i in range(10)]))
    named = votes("means", 2, np.arange(10), means @ unit(query)[0])  # all classes vote
    assert [share for _, share in named] == sorted((share for _, share in named), reverse=True)
    assert sum(share for _, share in named) == pytest.approx(1)


@pytest.mark.parametrize(("modes", "noise", "better"), [(1, 0.5, "means"), (2, 0.1, "pictures")])
def test_classes_are_named_by_what_was_right_more_often(modes, noise, better, bundle, monkeypatch):
    """Means name classes of one direction, nearest pictures those of two that are opposite."""
    targets = np.repeat([0, 1, 2], [12, 4, 1])  # the last picture is alone in its class
    signs = np.where(np.arange(17) % modes, -1, 1)
    centres = np.eye(9)[targets] * signs[:, None]
    vectors = centres + noise * np.random.default_rng(0).normal(size=(17, 9))
    vectors = vectors.astype(np.float32)
    pictures = [
        deploy.ToIndex(f"{i}.png", f"{i}.png", "abc"[target]) for i, target in enumerate(targets)
    ]
    left = iter(vectors)
    opened = deploy.open_bundle(bundle)
    monkeypatch.setattr(type(opened), "predict", lambda self, x: next(left)[None])
    monkeypatch.setattr(
        "keras_vit.deploy.index.read_picture", lambda path: np.zeros((9, 9, 3), np.uint8)
    )
    gallery, found = deploy.index_pictures(opened, pictures)
    right = {"pictures": [], "means": []}
    for i in range(16):
        others = np.arange(17) != i
        parts = {"targets": targets[others], "vectors": gallery.vectors[others]}
        for of in right:
            made = deploy.Gallery(gallery.names, gallery.classes, **parts, vote=deploy.Vote(of))
            right[of].append(made.shares(vectors[i : i + 1]).argmax() == targets[i])
    expected = {of: (np.mean(each[:12]) + np.mean(each[12:])) / 2 for of, each in right.items()}
    assert found == deploy.accuracies(gallery) == pytest.approx(expected)
    assert max(expected, key=expected.get) == gallery.vote.of == better


def test_classes_are_the_names_of_folders(folder, tmp_path):
    def labels(*paths, **options):
        found = deploy.pictures_to_index(paths, **options)
        return {each.name: each.label for each in found if not each.name.endswith("name.png")}

    assert labels(folder)["train/3/03.png"] == "3"
    assert set(labels(folder, classes=False).values()) == {None}
    assert set(labels(folder / "train/3").values()) == {None}
    two = labels(folder / "train/3", folder / "train/4")
    assert (two["3/03.png"], two["4/04.png"]) == ("3", "4")
    assert labels(folder / "train/3/03.png") == {"03.png": None}
    files = labels(*sorted(folder.glob("train/[34]/*.png")))
    assert (files["3/03.png"], files["4/04.png"]) == ("3", "4")
    assert len(deploy.pictures_to_index([folder, folder / "train/3", folder])) == 32  # once each
    (tmp_path / "bundle/gallery").mkdir(parents=True)
    (tmp_path / "bundle/gallery/gallery.json").touch()
    shutil.copy(folder / "train/3/03.png", tmp_path / "bundle/gallery/0.jpg")
    assert labels(tmp_path) == {}
    (tmp_path / "a\nb").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "a\nb/1.png")
    with pytest.raises(UsageError, match="labels must be lines of text"):
        deploy.pictures_to_index([tmp_path])


def test_pictures_that_cannot_be_read_are_named_and_without_any_nothing_is_written(bundle, folder):
    lines, reports, opened = [], [], deploy.open_bundle(bundle)
    torn = deploy.pictures_to_index([folder / "train/0/torn.jpg"])
    with pytest.raises(UsageError, match="no picture could be read"):
        deploy.index_pictures(opened, torn, lambda *each: reports.append(each), lines.append)
    [line] = lines
    assert "torn.jpg" in line
    assert reports == [(1, 1)]
    assert not (bundle / "gallery").exists()
    (bundle / "gallery").mkdir()
    (bundle / "gallery/mine.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and holds no gallery"):
        deploy.index_pictures(opened, deploy.pictures_to_index([folder / "train/3"]))


def test_what_cannot_be_indexed_is_refused(bundle, folder, sample, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_vit.deploy.index.MOST_PICTURES", 30)
    with pytest.raises(UsageError, match="at most 30 pictures. Received: 32"):
        deploy.pictures_to_index([folder])
    deploy.export_bundles(sample.model, tmp_path / "out", "none", sample.images, threads=())
    with pytest.raises(UsageError, match="gives logits; export it with output=.features"):
        deploy.index_pictures(deploy.open_bundle(tmp_path / "out/float32"), [])
    opened = deploy.open_bundle(bundle)
    opened.description["output"]["shape"] = [1, 7, 96]
    with pytest.raises(UsageError, match="of parts of a picture"):
        deploy.index_pictures(opened, [])
    described = bundle / "model.json"
    content = json.loads(described.read_text())
    content["output"]["shape"] = [1, 95]
    described.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"\$.output.shape must be \(1, 96\)"):
        deploy.open_bundle(bundle)


def test_features_that_compare_with_nothing_are_refused(bundle, folder, monkeypatch):
    opened, one = deploy.open_bundle(bundle), deploy.pictures_to_index([folder / "train/3"])
    for value in (0.0, np.nan):
        monkeypatch.setattr(
            type(opened), "predict", lambda self, x, v=value: np.full((1, 96), v, np.float32)
        )
        with pytest.raises(RefusedError, match="features of 03.png are zeros or not finite"):
            deploy.index_pictures(opened, one)


def test_a_gallery_stays_while_the_same_vectors_are_made(sample, indexed, tmp_path):
    shutil.copytree(indexed, tmp_path / "float32")
    lines = []

    def has_gallery(**options):
        made = {"images": sample.images, "threads": ()} | options
        deploy.export_bundles(
            sample.model, tmp_path, "none", made.pop("images"), say=lines.append, **made
        )
        return (tmp_path / "float32/gallery").exists()

    features = {"output": "features"}
    assert has_gallery(**features)
    whole = sample.model.preprocessing
    assert not has_gallery(**features, preprocessing=dataclasses.replace(whole, crop=0.5))
    assert "none: its gallery, of other vectors, is removed; index again" in lines
    shutil.copytree(indexed / "gallery", tmp_path / "float32/gallery")
    assert not has_gallery(output="logits")


def edited(change):
    def edit(bundle):
        file = bundle / "gallery/gallery.json"
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edited(lambda c: c.update(sha256="0" * 64)), "gallery.json is of another model.tflite"),
        (edited(lambda c: c.update(features=95)), "gallery.json is of another model.tflite"),
        (edited(lambda c: c["pictures"].pop()), "expected 11,520 bytes, 30 vectors of 96"),
        (edited(lambda c: c["pictures"][1].update(target=10)), "expected targets below 10"),
        (edited(lambda c: c["classes"].append("ten")), "a class has no pictures"),
        (edited(lambda c: c["classes"].__setitem__(1, "0")), "a class is there twice"),
        (edited(lambda c: c.update(pictures=[])), r"\$.pictures must"),
        (edited(lambda c: c["vote"].update(of="all")), r"\$.vote.of must"),
        (edited(lambda c: c["vote"].update(temperature=0)), r"\$.vote.temperature must"),
        (lambda b: (b / "gallery/vectors.bin").unlink(), "expected 11,904 bytes"),
        (lambda b: (b / "gallery/vectors.bin").write_bytes(bytes(11904)), "vectors of length 1"),
    ],
)
def test_a_damaged_gallery_is_named(indexed, tmp_path, damage, message):
    bundle = shutil.copytree(indexed, tmp_path / "bundle")
    damage(bundle)
    with pytest.raises(UsageError, match=message):
        deploy.open_bundle(bundle).gallery  # noqa: B018
