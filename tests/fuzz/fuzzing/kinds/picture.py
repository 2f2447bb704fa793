"""Pictures in all formats, through Pillow."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from fuzzing.kind import Files
from fuzzing.kinds._reading import each_of, in_one_file
from fuzzing.mutations import images
from keras_vit.data.decoding import examine_image
from keras_vit.data.images import read_picture
from keras_vit.data.preprocessing import preprocess_image
from keras_vit.specs import Preprocessing

MEMORY = 1 << 30
_PREPROCESSING = Preprocessing(8, 8)
_MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "JPEG": ("L", "RGB", "CMYK"),
    "WEBP": ("RGB", "RGBA"), "GIF": ("P",), "BMP": ("RGB",), "TIFF": ("L", "RGB", "I;16"),
}  # fmt: skip


def seeds(home: Path) -> list[Files]:
    pictures = [made(mode, form) for form, modes in _MODES.items() for mode in modes]
    return [{"picture": picture} for picture in (*pictures, run_length_encoded())]


def made(mode: str, form: str) -> bytes:
    """A small picture of a mode in a format; those of JPEG have an EXIF block."""
    grey = (np.arange(9 * 7).reshape(9, 7) * 4 % 256).astype(np.uint8)
    image = Image.fromarray(grey.astype(np.uint16) if mode == "I;16" else grey)
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {"exif": exif} if form == "JPEG" else {}
    stream = io.BytesIO()
    (image if mode == "I;16" else image.convert(mode)).save(stream, form, **options)
    return stream.getvalue()


def run_length_encoded() -> bytes:
    """A BMP of 7 x 9 pixels that Pillow decodes in Python; its own encoder does not write them."""
    rows = b"\x07\x05\x00\x00" * 9 + b"\x00\x01"  # seven pixels of colour 5, and the row's end
    start = 14 + 40 + 4 * 256
    sizes = struct.pack("<IiiHHIIiiII", 40, 7, 9, 1, 8, 1, len(rows), 0, 0, 256, 0)
    head = b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start)
    return head + sizes + bytes(range(256)) * 4 + rows


def mutate(rng: random.Random, files: Files) -> Files:
    return in_one_file(rng, files, {"picture": images.mutated})


def read(folder: Path, home: Path) -> None:
    file = folder / "picture"
    each_of(
        lambda: examine_image(file)[0].encode(),
        lambda: preprocess_image(read_picture(file), _PREPROCESSING),
    )
