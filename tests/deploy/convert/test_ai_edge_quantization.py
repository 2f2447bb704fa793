"""AI Edge Quantizer gives the files that it gives with everything in memory."""

from importlib.metadata import version

import pytest
from ai_edge_quantizer import calibrator, model_modifier, params_generator
from ai_edge_quantizer import quantizer as library

from keras_vit._errors import MissingPackageError
from keras_vit.deploy.convert import ai_edge_quantization, quantize
from keras_vit.deploy.precisions import PRECISIONS
from keras_vit.deploy.stored_arrays import StoredArrays
from keras_vit.tflite.file_layout import laid_out, unpacked
from keras_vit.tflite.flatbuffer import read_graph
from keras_vit.tflite.runtimes import state_versions


def test_the_private_members_were_read_in_the_installed_release():
    assert version("ai-edge-quantizer") == ai_edge_quantization.RELEASE


@pytest.mark.parametrize(
    ("owner", "name", "member", "message"),
    [
        (params_generator.ParamsGenerator, "_update_model_quant_results", None, "NoneType"),
        # It writes the file itself, by functions of other names.
        (model_modifier.ModelModifier, "modify_model", lambda *_, **__: bytearray(), "'buffers'"),
        (calibrator.Calibrator, "get_model_qsvs", None, "NoneType"),
    ],
)
def test_a_release_without_a_member_is_named(sample, monkeypatch, owner, name, member, message):
    monkeypatch.setattr(owner, name, member)
    converter, precision = sample.converter, PRECISIONS["int8"]

    def quantise():
        file = converter.float_file("int8")
        ranges = quantize.measured_ranges(file, precision, converter.calibration[:1])
        quantize.quantized(file, precision, ranges)

    with pytest.raises((AttributeError, TypeError), match=message):
        quantise()
    installed = ai_edge_quantization.RELEASE
    monkeypatch.setattr(ai_edge_quantization, "RELEASE", "0.9.9")
    with pytest.raises(
        MissingPackageError,
        match=f"AI Edge Quantizer 0.9.9. Received: {installed}, .*{message}.*; pip install ai-edge",
    ):
        quantise()


@pytest.mark.parametrize("name", [name for name, row in PRECISIONS.items() if row.rules])
def test_kernels_on_disk_give_the_same_bytes(sample, monkeypatch, name):
    monkeypatch.setattr(ai_edge_quantization, "_LARGE", 64)
    stored = []
    # It would remove the kernels at the end.
    monkeypatch.setattr(StoredArrays, "clear", lambda self: stored.extend(self.values()))
    converter, precision = sample.converter, PRECISIONS[name]
    file, ranges = converter.float_file(name), None
    if precision.calibrated:
        ranges = quantize.measured_ranges(file, precision, converter.calibration[:4])
    found = quantize.quantized(file, precision, ranges).read_bytes()
    assert len(stored) > 10
    recipe = quantize._recipe(read_graph(file), precision, frozenset())
    in_memory = library.Quantizer(file.read_bytes(), recipe.get_quantization_recipe())
    content = in_memory.quantize(ranges, enable_progress_report=False).quantized_model
    layout = laid_out(*unpacked(content))
    state_versions(layout.image)
    assert found == b"".join(layout.parts())
