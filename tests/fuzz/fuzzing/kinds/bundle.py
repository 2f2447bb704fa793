"""Bundles: model.json, golden.json, labels.txt and recipe.json beside a file that is intact."""

from __future__ import annotations

import json
import random
from pathlib import Path

from fuzzing.kind import Files
from fuzzing.kinds._reading import each_of, in_one_file
from fuzzing.mutations import json_text, lines, raw
from keras_vit.deploy.bundle import export_report as report
from keras_vit.deploy.bundle import golden
from keras_vit.deploy.convert.auto import read_recipe

MEMORY = 64 << 20
_ASSETS = Path(__file__).parents[4] / "android_demo/app/src/main/assets/bundles/digits-int8"


def seeds(home: Path) -> list[Files]:
    golden._TIMED = 1  # how fast it runs does not matter here
    files = {f"int8/{path.name}": path.read_bytes() for path in sorted(_ASSETS.iterdir())}
    about = json.loads(files["int8/model.json"])
    measured = {"latency": [], "peak_bytes": 1000, "load_s": 0.5, "compressed_bytes": 1000}
    known = {"name": "int8", "bytes": 9, "sha256": about["sha256"], "measured": measured}
    row = report.table_row(about["parity"], **known)
    table = report.table_record([row], {}, 1)
    recipe = {
        "format": 1, "base": "int8", "model": about["model"], "chosen_on": "3 images",
        "float_layers": ["head"], "sensitivity": {"head": 0.5},
    }  # fmt: skip
    for name, value in (("int8/recipe.json", recipe), ("table.json", table)):
        files[name] = json.dumps(value).encode()
    return [files]


def mutate(rng: random.Random, files: Files) -> Files:
    mutations = {".json": json_text.mutated, ".txt": lines.mutated}
    if rng.random() < 0.03:
        mutations = {".tflite": raw.mutated}  # it is no longer the file of model.json
    return in_one_file(rng, files, mutations)


def read(folder: Path, home: Path) -> None:
    each_of(
        lambda: golden.check_golden(folder / "int8"),
        lambda: read_recipe(folder / "int8/recipe.json", "ViT-Pico_4", {"int8"}),
        lambda: report._earlier_bundles(folder, {}),
        lambda: report._labels(folder, {"int8": {}}),
        lambda: report.withdraw_report(folder),  # the last one, because it removes table.json
    )
