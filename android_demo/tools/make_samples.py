"""Writes the samples of the tests' models: a held-out digit of each class, as PNGs of 8 x 8 pixels.

They are the very pixels that `keras-vit fit --data digits` held out, so that the app's scores can
be compared with Python's. The app shows such tiny pictures enlarged, without blurring them.

    python android_demo/tools/make_samples.py
"""

from pathlib import Path

from PIL import Image

from keras_vit.data.sources import digits
from keras_vit.data.split import split_source

MODELS = Path(__file__).parents[1] / "testing/models"


def main() -> None:
    """Writes the pictures and prints which held-out picture each one is."""
    source = digits()
    written = set()
    for index in split_source(source).held_out:
        target = int(source.targets[index])
        if target in written:
            continue
        written.add(target)
        for bundle in sorted(MODELS.iterdir()):
            path = bundle / "samples" / f"digit-{target}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(source.image(index)).save(path, optimize=True)
            print(f"{path}: {source.ids[index]}")


if __name__ == "__main__":
    main()
