"""The fixtures of deployment, and the quantizer."""

import runpy
from pathlib import Path

import pytest

_shared = runpy.run_path(str(Path(__file__).parents[1] / "deploy" / "conftest.py"))
converted, graph_file = _shared["converted"], _shared["graph_file"]
on_gpu, sample = _shared["on_gpu"], _shared["sample"]


@pytest.fixture(scope="session")
def quantised():
    """Quantises the operators of one name in a file with AI Edge Quantizer; `x` gives ranges."""
    from ai_edge_quantizer import quantizer
    from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

    def quantise(content, method, *bits, granularity="CHANNELWISE", of="FULLY_CONNECTED", x=None):
        tool = quantizer.Quantizer(bytearray(content))
        add = getattr(tool, f"add_{method}_config")
        add(".*", TFLOperationName[of], *bits, QuantGranularity[granularity])
        calibrated = tool.need_calibration
        ranges = tool.calibrate({"serving_default": [{"x0": x}]}) if calibrated else None
        return bytearray(tool.quantize(ranges).quantized_model)

    return quantise
