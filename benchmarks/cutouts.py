"""Writes photographs of CIFAR-10's classes as a folder to evaluate on.

    apt-get download tuxpaint-stamps-default
    dpkg -x tuxpaint-stamps-default_*.deb tuxpaint
    python benchmarks/cutouts.py tuxpaint/usr/share/tuxpaint/stamps --out pictures/cutouts
    keras-vit evaluate --weights runs/cifar10-camera/weights.npz --data pictures/cutouts

They are stamps of Tux Paint, which were cut out of photographs, on plain grey. None shows a cat, so
the Android app's sample does.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from PIL import Image

_CAT = "android_demo/app/src/main/assets/bundles/cifar10-int8/samples/cat.jpg"
_GREY = (200, 200, 200)
_MARGIN = 1.15  # sides of the picture, of the longer side of what was cut out
# The stamps that are photographs: class, folder and names.
STAMPS = (
    ("airplane", "vehicles/flight/planes", "747"),
    ("airplane", "military/vehicles", "f22_raptor"),
    ("automobile", "vehicles/auto", "beetle sedan sportscar2"),
    ("bird", "animals/birds", "adelaide-rosella blackbird crow cuckoo drake duck hen lark magpie"),
    ("bird", "animals/birds", "ostrich owl pelican pigeon quetzal seagull silver-gull"),
    ("deer", "animals/mammals/deer", "caribou deer doe wapiti"),
    ("dog", "animals/mammals/dogs", "dingo dog"),
    ("frog", "animals/amphibians", "frog frog-1"),
    ("horse", "animals/mammals/equines", "horse"),
    ("ship", "vehicles/ship", "chineseJunk"),
    ("truck", "vehicles/auto", "truck"),
    ("truck", "vehicles/construction", "dumper"),
    ("truck", "vehicles/emergency", "firetruck"),
    ("truck", "vehicles", "garbagetruck"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stamps", type=Path)
    parser.add_argument("--out", type=Path, default=Path("pictures/cutouts"))
    arguments = parser.parse_args()
    for label, place, names in STAMPS:
        folder = arguments.out / label
        folder.mkdir(parents=True, exist_ok=True)
        for name in names.split():
            with Image.open(arguments.stamps / place / f"{name}.png") as stamp:
                on_grey(stamp.convert("RGBA")).save(folder / f"{name}.png")
    (arguments.out / "cat").mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parents[1] / _CAT, arguments.out / "cat")


def on_grey(stamp: Image.Image) -> Image.Image:
    """What was cut out, in the middle of a square."""
    cut = stamp.crop(stamp.getchannel("A").getbbox())
    side = round(max(cut.size) * _MARGIN)
    square = Image.new("RGB", (side, side), _GREY)
    square.paste(cut, ((side - cut.width) // 2, (side - cut.height) // 2), cut)
    return square


if __name__ == "__main__":
    main()
