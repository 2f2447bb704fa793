"""Records of phones, which strangers contribute: only what is well formed is shown."""

import json
from pathlib import Path

import pytest

from keras_vit._errors import UsageError
from keras_vit.tflite.phone_records import measured_on_phones, read_phone_record

RECORD = json.loads((Path(__file__).parents[1] / "fixtures/phone/record.json").read_text())
[BACKEND] = RECORD["backends"]
GOLDEN = BACKEND["golden"]


@pytest.fixture
def export(tmp_path):
    """The folder of a bundle."""
    (tmp_path / "int8/phones").mkdir(parents=True)
    description = {"format": 1, "sha256": RECORD["sha256"]}
    (tmp_path / "int8/model.json").write_text(json.dumps(description))
    return tmp_path


def put(export, name="a", **changes):
    """Writes a record with these changes."""
    path = export / "int8/phones" / f"{name}.json"
    path.write_text(json.dumps(RECORD | changes))
    return path


def test_a_backend_that_agrees_is_a_row(export):
    put(export)
    samsung = {"manufacturer": "samsung", "model": "samsung S24", "soc": "a", "android": "14"}
    plain = BACKEND | {"backend": "CPU_PLAIN", "before": {}, "sustained": []}
    none = BACKEND | {"backend": "GPU", "golden": None, "reason": "REFUSED: no OpenCL"}
    put(export, "b", phone=RECORD["phone"] | samsung, backends=[plain, none])
    found = measured_on_phones(export)
    assert [len(row) for row in found.rows] == [len(found.header)] * 2
    times = ["23.0", "3.14", "4.00", "1,234", "60", "28 to 33"]
    about = ["Google Pixel 8, Android 16", "Tensor G3", "LiteRT 2.3.0", "int8", "CPU"]
    assert found.rows[0] == [*about, *times]
    assert found.rows[1][0] == "samsung S24, Android 14"
    assert found.rows[1][4:] == ["CPU_PLAIN", "23.0", "3.14", "4.00", "-", "-", "-"]
    assert found.refused == []


@pytest.mark.parametrize(
    "changes",
    [
        {"golden": GOLDEN | {"score_difference": 0.31}},
        {"golden": GOLDEN | {"tensor_difference": 1e-3}},
        {"golden": None, "not_finite": True},
        {"not_finite": True},  # when it was hot
    ],
)
def test_a_phone_that_disagrees_on_one_backend_has_no_row(export, changes):
    gpu = BACKEND | {"backend": "GPU"} | changes
    put(export, backends=[BACKEND, gpu])
    found = measured_on_phones(export)
    assert found.rows == []
    assert found.refused == ["Google Pixel 8, Android 16: int8 on GPU"]


def test_a_record_of_another_file_is_left_out(export):
    put(export, sha256="c" * 64)
    assert measured_on_phones(export).rows == []
    assert measured_on_phones(export / "absent").rows == []


def test_every_field_is_checked(export, variants):
    path = put(export)
    refused = shown = 0
    for what, content in variants(path.read_bytes()):
        path.write_bytes(content)
        try:
            found = measured_on_phones(export)
        except UsageError:
            refused += 1
            continue
        text = "".join(cell for row in [*found.rows, found.refused] for cell in row)
        assert text.isprintable(), what
        assert len(text) < 2_000, what
        shown += 1
    assert refused > 10 * shown > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "expected format 1. Received: 2; upgrade keras_vit to read it"),
        ({"backends": [BACKEND] * 6}, r"\$.backends must be .* length <= 5"),
        ({"backends": [BACKEND | {"backend": "TPU"}]}, "one of CPU, CPU_HALF, CPU_PLAIN, GPU, NPU"),
        ({"pad": "x" * (1 << 20)}, "expected at most 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_record_is_named(export, changes, message):
    path = put(export, **changes)
    with pytest.raises(UsageError, match=message) as error:
        read_phone_record(path)
    assert str(path) in str(error.value)
