"""Compares the pixels of transformers' image processors and timm's transforms with ours.

Pictures are random parts of photographs, so that they have many sizes. Their pixels, in grey levels
from 0 to 255, are compared with those that `keras_vit.preprocess` gives by the same
preprocessor_config.json, or by the same arguments. The exit code is 3 if those of a processor
differ by more than 0.5 levels on average, or the libraries could not be installed.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from environments import FOLDER, installed
from families import LIBRARIES
from PIL import Image

import keras_vit
from keras_vit._errors import RefusedError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run
from keras_vit.weights.hub_preprocessing import timm_preprocessing, transformers_preprocessing

_DINOV2 = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
# By the name of the image processor: what a folder of its models states besides the defaults.
PROCESSORS = {
    "ViT": {},
    "CLIP": {},
    "Siglip": {},
    "Bit": _DINOV2 | {"resample": 3},
    "DINOv3ViT": {},
}
TIMM = (0.875, 0.9, 1.0)  # crop_pct
_READ = """
import json, numpy as np, transformers
from pathlib import Path
from PIL import Image
from timm.data import create_transform
transformers.logging.set_verbosity_error()
pictures, found = [Image.open(path) for path in sorted(Path("pictures").iterdir())], {}
for name, stated in json.loads(Path("processors.json").read_text()).items():
    for backend in ("", "Pil"):
        kind = getattr(transformers, f"{name}ImageProcessor{backend}", None)
        if kind is None: continue
        processor = kind(**stated)
        x = [processor(images=each, return_tensors="np")["pixel_values"][0] for each in pictures]
        mean, std = (np.reshape(s, (3, 1, 1)) for s in (processor.image_mean, processor.image_std))
        found[name + backend] = 255 * (np.stack(x) * std + mean)
for fraction in TIMM:
    transform = create_transform((3, 224, 224), crop_pct=fraction, mean=(0, 0, 0), std=(1, 1, 1))
    found[f"timm {fraction}"] = 255 * np.stack([transform(each).numpy() for each in pictures])
np.savez("found.npz", **{name: x.transpose(0, 2, 3, 1) for name, x in found.items()})
"""


@dataclasses.dataclass(frozen=True)
class Arguments:
    pictures: Path
    """A folder of pictures."""
    count: int = 60
    """How many of them are compared."""
    environments: Path = FOLDER
    """The folder where the libraries are installed; installed ones are reused."""
    python: str = sys.executable
    """The Python to install them for."""


def main(arguments: Arguments) -> None:
    python = installed(LIBRARIES, arguments.environments, arguments.python)
    if python is None:
        raise RefusedError("timm and transformers: not installed")
    pictures = _parts(arguments.pictures, arguments.count)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pictures").mkdir()
        for i, picture in enumerate(pictures):
            picture.save(folder / "pictures" / f"{i:04}.png")
        (folder / "processors.json").write_text(json.dumps(PROCESSORS))
        program = f"TIMM = {TIMM}\n{_READ}"
        subprocess.run([python, "-c", program], cwd=folder, check=True)
        found = dict(np.load(folder / "found.npz"))
    rows, failed = [], []
    for name, theirs in found.items():
        difference = np.abs(_ours(name, pictures) - theirs)
        rows.append((name, f"{difference.mean():.4f}", f"{difference.max():.0f}"))
        if difference.mean() > 0.5 and "timm" not in name:
            failed.append(f"{name}: {difference.mean():.2f}")
    print(f"grey levels, {len(pictures)} pictures\n{table(('processor', 'mean', 'largest'), rows)}")
    if failed:
        raise RefusedError("\n".join(failed))


def _ours(name: str, pictures: list[Image.Image]) -> np.ndarray:
    library, _, fraction = name.partition(" ")
    if library == "timm":
        preprocessing = timm_preprocessing({"crop_pct": float(fraction)})
    else:
        name = name.removesuffix("Pil")
        stated = PROCESSORS[name] | {"image_processor_type": f"{name}ImageProcessor"}
        preprocessing = transformers_preprocessing(stated)
    levels = dataclasses.replace(preprocessing, mean=0.0, scale=1.0)
    return keras_vit.preprocess(pictures, levels)


def _parts(folder: Path, count: int) -> list[Image.Image]:
    rng, parts = np.random.default_rng(0), []
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in (".jpg", ".png")]
    for path in paths[:count]:
        picture = Image.open(path).convert("RGB")
        width, height = (int(rng.integers(side // 3, side + 1)) for side in picture.size)
        parts.append(picture.crop((0, 0, width, height)))
    return parts


if __name__ == "__main__":
    run(main, Arguments)
