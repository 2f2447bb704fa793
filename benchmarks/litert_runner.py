"""Runs tensors through the installed TFLite runtime and prints the scores as JSON.

`clients.py` starts it in environments of other runtimes: python litert_runner.py FILE FOLDER. It
needs only NumPy and a runtime.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from golden_runner import interpreter_class, loaded, scores


def main(file, folder):
    folder = Path(folder)
    package = interpreter_class().__module__.split(".")[0].replace("_", "-")
    answer = {"version": f"{package} {version(package)}"}
    try:
        interpreter, found = loaded(file, threads=1), []
        for case in json.loads((folder / "cases.json").read_text()):
            tensor = np.fromfile(folder / case["file"], case["dtype"]).reshape(case["shape"])
            found.append(scores(interpreter, tensor).tolist())
    except (RuntimeError, ValueError) as error:
        return answer | {"refused": str(error).splitlines()[0]}
    return answer | {"scores": found}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
