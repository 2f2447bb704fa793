"""The benchmarks import each other as scripts do, from their own folder; fixtures of deployment."""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
_shared = runpy.run_path(str(ROOT / "tests/deploy/conftest.py"))
graph_file, sample = _shared["graph_file"], _shared["sample"]
