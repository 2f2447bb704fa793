"""predict and run with segmenters: shares, masks in a folder, and a page of them."""

import json
import os
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_vit
from keras_vit import deploy
from keras_vit.cli._predictions import MaskPredictor
from keras_vit.data.images import read_picture
from keras_vit.data.mask_folders import mask_folder
from keras_vit.evaluation.mask_folder import names_of

BUNDLE = Path(__file__).parents[2] / "android_demo/app/src/main/assets/bundles/scenes-int8"


@pytest.fixture
def pictures(tmp_path):
    """Scenes of the bundle in folders, two of one name, one large with a name that URLs escape."""
    folder = tmp_path / "pictures"
    scenes = sorted((BUNDLE / "samples").iterdir())
    for scene, name in zip(scenes, ("a.png", "b/a.png", "b/A.bmp", "b/c #1%.png"), strict=False):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(scene).resize((640, 480) if "#" in name else (32, 32))
        image.save(folder / name)
    (folder / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    return folder


def test_masks_are_written_with_a_page(done, pictures, tmp_path):
    out, error = done("export/run.py", "--bundle", BUNDLE, pictures, "--out", "masks", "--json")
    assert f"skipped {pictures}/torn.jpg" in error
    bundle = deploy.open_bundle(BUNDLE)
    names = ["a.png", "b/A.bmp.png", "b/a.png.png", "b/c #1%.png"]
    for line, name in zip(out.splitlines(), names, strict=True):
        answer = json.loads(line)
        assert answer["mask"] == f"masks/masks/{name}"
        image = read_picture(Path(answer["picture"]))
        scores = bundle.predict(keras_vit.preprocess(image, bundle))
        [mask] = keras_vit.decode_masks(scores, bundle, [image.shape[:2]])
        written = Image.open(tmp_path / answer["mask"])
        np.testing.assert_array_equal(np.asarray(written), mask)
        assert written.mode == "P"
        assert written.getpalette()[3:6] == [128, 0, 0]  # as VOC's
        [inside] = keras_vit.decode_masks(scores, bundle)
        for each in answer["classes"]:
            pixels = (inside == bundle.labels.index(each["label"])).mean()
            assert each["share"] == pytest.approx(pixels)
        overlay = Image.open(tmp_path / f"masks/overlays/{name.removesuffix('.png')}.jpg")
        assert max(overlay.size) == (640 if "#" in name else 256)
    page = (tmp_path / "masks/masks.html").read_text()
    assert 'href="masks/b/c%20%231%25.png"' in page
    assert page.count("<figure>") == len(names)
    inside = pictures / "masks"  # whose own pictures are not predicted again
    for _ in range(2):
        out, _ = done("export/run.py", "--bundle", BUNDLE, pictures, "--out", inside, "--json")
        assert len(out.splitlines()) == len(names)


def test_padding_has_no_share():
    """Of a picture twice as wide as high the model sees the upper half of its input."""
    model = types.SimpleNamespace(
        preprocessing=keras_vit.Preprocessing(8, 8, pad=True), labels=("cat", "padding")
    )
    scores = np.zeros((1, 8, 8, 2), np.float32)
    scores[:, :4, :, 0] = scores[:, 4:, :, 1] = 1
    predictor = MaskPredictor("", model, lambda inputs: {"scores": scores})
    [answer] = predictor.answers([predictor.prepared(np.zeros((4, 8, 3), np.uint8))], 1)
    assert answer["classes"] == [("cat", 1.0)]


def test_each_picture_has_a_name_of_its_own():
    assert names_of(["p/a.jpg", "p/b/c.png"]) == ["a", "b/c"]
    assert names_of(["p/a.jpg", "p/A.png", "p/c.png"]) == ["a.jpg", "A.png", "c"]
    assert names_of(["a.jpg", "a.png", "a.jpg.bmp"]) == ["a.jpg", "a.png", "a.jpg.bmp"]
    assert names_of([os.fsdecode(b"caf\xe9.png"), "b.png"]) == ["caf?", "b"]


def test_a_name_that_is_no_text_is_written(done, pictures, tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    (pictures / "a.png").rename(pictures / name)
    done("export/run.py", "--bundle", BUNDLE, pictures / name, "--out", "masks")
    assert (tmp_path / "masks/masks/caf?.png").is_file()


def test_masks_can_be_trained_on(done, pictures, tmp_path):
    done("export/run.py", "--bundle", BUNDLE, pictures / "a.png", "--out", "masks")
    (tmp_path / "masks/images").mkdir()
    (pictures / "a.png").rename(tmp_path / "masks/images/a.png")
    source = mask_folder(tmp_path / "masks")
    assert source.labels == deploy.open_bundle(BUNDLE).labels
    mask = np.asarray(Image.open(tmp_path / "masks/masks/a.png"))
    np.testing.assert_array_equal(source.annotations.mask(0), mask)


def test_what_a_user_reads(done, pictures):
    out, _ = done("export/run.py", "--bundle", BUNDLE, pictures / "a.png")
    first, picture, *lines = out.splitlines()
    assert first.endswith("32 x 32 pixels, 11 classes, int8")
    assert not picture
    assert lines[0] == str(pictures / "a.png")
    assert lines[1].split()[1] == "background"
    out, _ = done("train/predict.py", "--bundle", BUNDLE, pictures / "a.png", "--out", "new")
    assert out.splitlines()[-1] == "page:    new/masks.html"
    done("train/predict.py", "--bundle", BUNDLE, pictures / "a.png", "--out", "new")  # again


def test_no_other_files_are_lost(refused, done, pictures, tmp_path):
    line = refused("export/run.py", "--bundle", BUNDLE, pictures, "--out", pictures)
    assert "is not empty and holds no masks; choose another folder" in line
    done("export/run.py", "--bundle", BUNDLE, pictures / "a.png", "--out", "mine")
    (tmp_path / "mine/images").mkdir()
    line = refused("export/run.py", "--bundle", BUNDLE, pictures, "--out", "mine")
    assert "mine has other files than masks, such as 'images', which would be lost" in line
    digits = BUNDLE.with_name("cifar10-int8")
    line = refused("export/run.py", "--bundle", digits, pictures / "a.png", "--out", "masks")
    assert "--out is for the masks of a segmenter. Received: another model." in line
    line = refused("export/run.py", "--bundle", BUNDLE, "--verify", "--out", "masks")
    assert "--out is for the masks of pictures. Received: --verify --out." in line


def test_the_check_of_a_segmenter_leads_to_the_app(done):
    out, _ = done("export/run.py", "--bundle", BUNDLE, "--verify")
    assert "other class" in out
    assert "to_app.py" in out.splitlines()[-1] or "android" in out.splitlines()[-1]
