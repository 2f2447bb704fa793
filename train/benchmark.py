"""Times the training step of several libraries; its code is benchmarks/training_step.py."""

import runpy
from pathlib import Path

if __name__ == "__main__":
    path = Path(__file__).parents[1] / "benchmarks" / "training_step.py"
    runpy.run_path(str(path), run_name="__main__")
