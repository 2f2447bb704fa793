"""Index files: what is known of a folder's pictures, and AugReg's index.csv."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

from fuzzing.kind import Files
from fuzzing.kinds._reading import each_of, in_one_file
from fuzzing.kinds.records import _found_at
from fuzzing.mutations import json_text, lines
from keras_vit.data.index import FORMAT, Index
from keras_vit.weights import augreg

MEMORY = 64 << 20
_PICTURE = Path("a.png")
_NAME = f"cache/pictures/{hashlib.sha256(os.fsencode(Path('.'))).hexdigest()[:32]}.json"
_ROW = {
    "name": "S/16", "ds": "i21k", "epochs": "300.0", "lr": "0.001", "adapt_ds": "imagenet2012",
    "adapt_resolution": "224", "adapt_final_val": "0.8", "adapt_filename": (
        "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0--imagenet2012-steps_20k-lr_0.01"
        "-res_224"
    ),
}  # fmt: skip


def seeds(home: Path) -> list[Files]:
    about = {"format": FORMAT, "folder": ".", "files": {"a.png": [3, 10**18, "", "PNG"]}}
    columns = list(augreg.IndexRow.__annotations__)
    row = ",".join(_ROW.get(name, "") for name in columns)
    return [
        {_PICTURE.name: b"abc", _NAME: json.dumps(about).encode()},
        {"index.csv": "\n".join([",".join(columns), *[row] * 3]).encode()},
    ]


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {".json": json_text.mutated, ".csv": lines.mutated})


def read(folder: Path, home: Path) -> None:
    csv = folder / "index.csv"
    each_of(
        lambda: csv.exists() and augreg.best(augreg.read_index(csv), "S/16"),
        lambda: (folder / _PICTURE).exists() and _examine(folder),
    )


def _examine(folder: Path) -> None:
    with _found_at(folder):
        os.utime(_PICTURE, ns=(10**18, 10**18))
        index = Index(Path("."))
        index.check_format(_PICTURE)
        for entry in index.examine([_PICTURE]).values():
            f"{entry.fault}{entry.plain}".encode()
