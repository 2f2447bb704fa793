"""The fixtures of deployment: functions, graphs and a model as real `.tflite` files."""

import runpy
from pathlib import Path

_shared = runpy.run_path(str(Path(__file__).parents[1] / "deploy" / "conftest.py"))
converted, graph_file = _shared["converted"], _shared["graph_file"]
on_gpu, sample = _shared["on_gpu"], _shared["sample"]
