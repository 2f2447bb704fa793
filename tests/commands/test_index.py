"""From weights without a head to similar pictures, by the commands."""

import json

import numpy as np
import pytest

import keras_vit
from keras_vit import deploy

EXPORT, INDEX, RUN = "export/to_tflite.py", "export/index.py", "export/run.py"


@pytest.fixture
def bundle(done, randomised, tiny_model, image_folder, tmp_path):
    """A bundle of features."""
    body = randomised(keras_vit.create_model(tiny_model, 0, 16))
    keras_vit.save_weights(body, tmp_path / "body.npz")
    words = ("--weights", "body.npz", "--model", tiny_model, "--data", image_folder)
    words += ("--normalize", "--quantize", "none", "int8", "--out", "out", "--threads", "1")
    out, _ = done(EXPORT, *words)
    assert "16 x 16, without a head" in out
    assert f"export/index.py --bundle out/int8 {image_folder}" in out
    return tmp_path / "out/int8"


def test_weights_without_a_head_give_a_gallery(done, refused, bundle, image_folder):
    description, golden = deploy.read_bundle(bundle)
    output = {name: description["output"][name] for name in ("kind", "normalized", "shape")}
    assert output == {"kind": "features", "normalized": True, "shape": [1, 32]}
    assert description["parity"]["rewritten"]
    assert np.linalg.norm(golden["scores"]) == pytest.approx(1, abs=1e-5)
    assert not (bundle / "labels.txt").exists()
    [name, *_] = sorted(path.name for path in image_folder.iterdir())
    [picture, *_] = sorted((image_folder / name).iterdir())
    line = refused(RUN, "--bundle", bundle, picture)
    assert f"/export/index.py --bundle {bundle} PICTURES" in line
    (image_folder / name / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    out, error = done(INDEX, "--bundle", bundle, image_folder)
    assert "torn.jpg" in error
    assert f"\n  {name} " in out
    assert "classes by the other pictures: 10 nearest " in out
    assert f"gallery: {bundle}/gallery, " in out
    assert f"export/to_web.py --bundle {bundle}" in out
    out, _ = done(RUN, "--bundle", bundle, picture, "--top-k", "1")
    first, block = out.strip().split("\n\n")
    assert first.endswith(" pictures in its gallery, int8")
    printed, best, like = block.splitlines()
    assert (printed, like) == (str(picture), f"   1.000  like {name}/{picture.name}")
    assert "%  " in best
    out, _ = done(RUN, "--bundle", bundle, picture, "--json")
    found = json.loads(out)
    assert found["similar"][0] == {
        "picture": f"{name}/{picture.name}",
        "similarity": pytest.approx(1, abs=1e-5),
    }
    assert sum(entry["probability"] for entry in found["predictions"]) == pytest.approx(1)
    out, error = done("export/to_android.py", "--bundle", bundle, "--zip", "zips")
    assert (error, "int8.zip" in out) == ("", True)
    out, _ = done(RUN, "--bundle", bundle, "--verify")
    assert out.startswith("tensor  differs by 0.0e+00")
    out, _ = done(INDEX, "--bundle", bundle, image_folder, "--no-classes")
    assert "classes by" not in out
    out, _ = done(RUN, "--bundle", bundle, picture, "--json")
    assert json.loads(out)["predictions"] == []
