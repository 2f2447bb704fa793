"""Kills exports, most of them in a write: python tests/commands/kill_exports.py --run runs/demo

Every second export has pixels instead of floats as input, so that the old and the new bundle
differ. After each kill, every bundle must be either the old or the new one, and complete; and
table.json, if there is one, must describe these files. A last export that is not killed must remove
all unfinished folders.
"""

import json
import operator
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import kills

from keras_vit import deploy

COMMAND = Path(__file__).parents[2] / "export/to_tflite.py"
WORDS = ("--run", "run", "--quantize", "none", "dynamic", "--images", "32", "--threads", "1")
INPUTS, BUNDLES = ("float32", "uint8"), ("float32", "dynamic")
# The steps of what an export writes: two bundles of four files, the plot, the card and the table.
STEPS = 78


def main() -> None:
    options = kills.options(__doc__.splitlines()[0])
    options.add_argument("--run", type=Path, required=True, help="a run folder; it is copied")
    arguments = options.parse_args()
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(arguments.run, Path(folder) / "run")
        killer = kills.Killer(
            Path(folder), "keras_vit._public", "keras_vit.deploy.export", "tensorflow",
            "ai_edge_litert.interpreter", "ai_edge_quantizer", "matplotlib.figure",
        )  # fmt: skip
        start = time.monotonic()
        killer.run(COMMAND, *WORDS)
        seconds = time.monotonic() - start
        print(f"an export of two bundles takes {seconds:.1f} s", flush=True)
        exports = 0
        while killer.kills < arguments.kills:
            exports += 1
            words = (*WORDS, "--input", INPUTS[exports % 2])
            if exports % 4:
                end = killer.run(COMMAND, *words, step=moments.randrange(STEPS))
            else:
                wait = operator.methodcaller("join", moments.uniform(0, seconds))
                end = killer.run(COMMAND, *words, wait=wait)
            print(f"{words[-1]}, {end}: {_held(run)}", flush=True)
        left = len(_hidden(run))
        killer.run(COMMAND, *WORDS)
        if _hidden(run):
            sys.exit(f"a complete export did not remove {_hidden(run)}")
        _held(run, must_have_table=True)
    print(
        f"{exports} exports, {killer.kills} killed, {killer.in_writes} of them in a write; all "
        "bundles are complete, and no table describes other files"
    )
    print(f"{left} unfinished folders were left, none after one more export")
    killer.check(arguments.in_writes)


def _held(run: Path, must_have_table: bool = False) -> dict[str, str]:
    """The input of each bundle, after all bundles and the table have been checked."""
    bundles = {name: deploy.read_bundle(run / "export" / name)[0] for name in BUNDLES}
    table = run / "export" / "table.json"
    if must_have_table or table.exists():
        rows = {row["name"]: row["sha256"] for row in json.loads(table.read_text())["rows"]}
        files = {name: deploy.read_bundle(run / "export" / name)[0]["sha256"] for name in rows}
        if rows != files or not bundles.keys() <= rows.keys():
            sys.exit(f"{table} describes other files than those beside it")
    held = {name: bundle["input"]["dtype"] for name, bundle in bundles.items()}
    return held | {"table": "yes" if table.exists() else "no"}


def _hidden(run: Path) -> list[str]:
    """What unfinished exports left; the empty files of locks stay on purpose."""
    hidden = (path for path in run.rglob(".*") if path.suffix != ".lock")
    return sorted(str(path.relative_to(run)) for path in hidden)


if __name__ == "__main__":
    main()
