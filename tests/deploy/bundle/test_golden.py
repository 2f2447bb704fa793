"""The golden check of bundles on this computer's kernels."""

import numpy as np
import pytest
from PIL import Image

from keras_vit import UsageError, deploy


@pytest.mark.parametrize(
    "quantize", ["none", "int8", pytest.param("dynamic", marks=pytest.mark.slow)]
)
def test_a_bundle_passes_where_it_was_exported(sample, picture, tmp_path, quantize):
    folder = tmp_path / quantize
    deploy.write_bundle(folder, sample.exported(quantize), picture)
    check = deploy.check_golden(folder)
    _, golden = deploy.read_bundle(folder)
    assert check.passed
    assert (check.tensor, check.labels) == (0, tuple("abcdefghij"))
    assert check.expected == golden["scores"].argmax()
    first, own, *_ = check.kernels
    assert (first.kernels, first.difference) == ("XNNPACK", 0)
    assert own.kernels == "LiteRT's own"
    assert own.difference > 0  # other kernels ran indeed
    assert first.milliseconds > 0
    assert deploy.check_golden(folder / "model.tflite").passed


def test_scores_or_a_tensor_that_differ_too_much_fail(bundle, changed):
    _, golden = deploy.read_bundle(bundle)
    changed("golden.json", scores=golden["scores"] + np.float32(0.5))
    check = deploy.check_golden(bundle)
    assert not check.passed
    assert check.tensor == 0
    assert [each.passed for each in check.kernels] == [False] * len(check.kernels)
    assert check.kernels[0].difference == pytest.approx(0.5, abs=1e-5)
    image = golden["image"].copy()
    image[0, 0, 0] ^= 64
    changed("golden.json", scores=golden["scores"], image=image)
    check = deploy.check_golden(bundle)
    assert all(each.passed for each in check.kernels)
    assert check.tensor > check.tensor_tolerance
    assert not check.passed


def test_half_precision_is_checked_where_the_exporter_allows_it(bundle, changed):
    changed("golden.json", tolerance={"scores_half_precision": 0.05})
    *_, half = deploy.check_golden(bundle).kernels
    assert half.kernels == "half precision"
    assert half.passed
    assert half.difference > 0  # it is computed in half precision indeed
    changed("golden.json", tolerance={"scores_half_precision": 1e-7})
    assert not deploy.check_golden(bundle).passed


def test_an_incomplete_bundle_is_refused(bundle, tmp_path):
    (bundle / "golden.json").unlink()
    with pytest.raises(UsageError, match=r"golden\.json does not exist"):
        deploy.check_golden(bundle)
    (bundle / "model.tflite").unlink()
    with pytest.raises(UsageError, match=r"model.tflite is missing"):
        deploy.check_golden(bundle)
    with pytest.raises(UsageError, match="expected a bundle's folder"):
        deploy.check_golden(tmp_path)


def test_the_command_prints_a_line_for_each_kind_of_kernels(bundle, changed, invoke, tmp_path):
    code, out, error = invoke("export/run.py", "--bundle", bundle, "--verify", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert "tensor  differs by 0.0e+00, at most 1.0e-06" in out
    rows = [line.split("  ")[0] for line in out.splitlines()]
    assert {"XNNPACK", "LiteRT's own"} <= set(rows)
    assert "\npassed: this computer computes what the exporter's did\n" in out
    assert out.endswith(f"export/to_android.py --bundle {bundle}\n")
    _, golden = deploy.read_bundle(bundle)
    changed("golden.json", scores=golden["scores"] + np.float32(0.5))
    code, out, error = invoke("export/run.py", "--bundle", bundle, "--verify", cwd=tmp_path)
    assert code == 3
    assert "this computer does not compute what the exporter's did" in error
    assert "5.0e-01" in out


def test_the_command_prints_what_predict_prints(bundle, invoke, tmp_path, rng):
    for i in range(2):
        pixels = rng.integers(0, 255, (40, 50, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    arguments = ("--bundle", bundle, "0.png", "1.png", "--top-k", "3")
    code, out, error = invoke("export/run.py", *arguments, cwd=tmp_path)
    assert (code, out.count("%")) == (0, 6)
    assert invoke("train/predict.py", *arguments, cwd=tmp_path) == (code, out, error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "run.py --bundle FOLDER 1.jpg"),
        (("--bundle", "run", "a.png"), "export/to_tflite.py --run run --quantize int8), then give"),
        (("--bundle", "bundle", "gone.png"), "gone.png: there is no such picture."),
        (("--bundle", "none", "a.png"), "none: expected a bundle's folder; there is no such fold"),
        (("--bundle", "."), "expected pictures or --verify. Received: neither."),
        (("--bundle", ".", "--verify", "a.png"), "expected pictures or --verify. Received: both."),
        (("--bundle", ".", "--verify", "--json"), "Received: --verify --json."),
        (("--bundle", ".", "--verify"), "expected a bundle's folder. Received:"),
    ],
)
def test_mistakes_of_the_command_are_one_line(invoke, tmp_path, arguments, message):
    for file in ("run/spec.json", "bundle/model.json"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    code, _, error = invoke("export/run.py", *arguments, cwd=tmp_path)
    assert code == 2
    [line] = error.strip().splitlines()
    assert message in line
