"""Asks the compilers for NPUs that come with LiteRT which operators of a bundle they would take.

LiteRT brings a plugin for each maker of NPUs, and most plugins need an SDK of that maker to say
which operators its NPUs have. They are installed from PyPI in an environment of their own; where an
SDK is not there, the row says what is missing. Nothing runs on an NPU.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ai_edge_litert.schema_py_generated import BuiltinOperator
from environments import FOLDER, Environment, check_python, installed

from keras_vit import deploy
from keras_vit._errors import RefusedError, one_line
from keras_vit.cli._printing import table
from keras_vit.cli._program import run

COMPILERS = Environment(
    "LiteRT for NPUs",
    (
        "ai-edge-litert==2.3.0",
        "ai-edge-litert-sdk-qualcomm==2.3.0",
        "ai-edge-litert-sdk-mediatek==2.3.0",
        "ai-edge-litert-sdk-intel==2.3.0",
        "openvino==2026.3.1",
    ),
)
_STATS = re.compile(r"Partitioned subgraph<0>, selected (\d+) ops, from a total of (\d+) ops")
_PARTITIONS = re.compile(r"resulted in (\d+) partitions")
_NOT_TAKEN = re.compile(r"op type (\d+) is not supported")
_MISSING = re.compile(
    r"[^/ ]+\.so[^ :]*: (?:cannot open shared object file|undefined symbol)[^.\n]*|"
    r"Failed to load [^:]*? library"
)


class Maker(NamedTuple):
    """A maker of NPUs: its name and one of its chips for LiteRT, and the folder of its plugin."""

    name: str
    chip: str
    plugin: str


MAKERS = (
    Maker("Qualcomm", "SM8750", "qualcomm"),
    Maker("MediaTek", "MT6989", "mediatek"),
    Maker("Google", "Tensor_G5", "google_tensor"),
    Maker("Samsung", "E9965", "samsung"),
    Maker("IntelOpenVINO", "PTL", "intel_openvino"),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    bundle: Path
    """The bundle."""
    environments: Path = FOLDER
    """The folder where the compilers are installed; what is there is used again."""
    python: str = sys.executable
    """The Python to install them for, 3.10 or 3.11."""


def main(arguments: Arguments) -> None:
    check_python(arguments.python)
    deploy.read_bundle(arguments.bundle)
    python = installed(COMPILERS, arguments.environments, arguments.python)
    if python is None:
        raise RefusedError("the compilers could not be installed.")
    where, _ = _output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    packages = Path(where)
    rows = [
        [maker.name, maker.chip, *_answer(packages, maker, arguments.bundle)] for maker in MAKERS
    ]
    print(table(["maker", "chip", "takes", "partitions", "does not take", "compiled"], rows))


def _answer(packages: Path, maker: Maker, bundle: Path) -> list[str]:
    """What a maker's plugin says of a file: cells of a row."""
    litert = packages / "ai_edge_litert"
    sdks = [packages / f"ai_edge_litert_sdk_{maker.plugin}" / "data" / "lib" / "x86_64-linux-clang"]
    libraries = [*sdks, packages / "openvino" / "libs", litert]
    with tempfile.TemporaryDirectory() as folder:
        log, failed = _output(
            [
                litert / "tools" / "apply_plugin_main",
                "--cmd=apply",
                "--err=--",
                f"--model={bundle / 'model.tflite'}",
                f"--o={folder}/compiled.tflite",
                f"--soc_manufacturer={maker.name}",
                f"--soc_model={maker.chip}",
                f"--libs={litert / 'vendors' / maker.plugin / 'compiler'}",
            ],
            os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))},
        )
    missing = _MISSING.findall(log)
    reason = one_line(missing[-1]) if missing else "no reason given"
    stats = _STATS.search(log)
    if stats is None:
        return ["unknown", "", "", f"no: {reason}"]
    names = {code: name for name, code in vars(BuiltinOperator).items()}
    others = sorted({names[int(code)] for code in _NOT_TAKEN.findall(log)})
    return [
        f"{stats[1]} of {stats[2]}",
        _PARTITIONS.search(log)[1],
        ", ".join(others),
        f"no: {reason}" if failed else "yes",
    ]


def _output(command: list, environment: dict[str, str] | None = None) -> tuple[str, bool]:
    """What a program writes, and whether it failed."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=environment,
    )
    return done.stdout.strip(), done.returncode != 0


if __name__ == "__main__":
    run(main, Arguments)
