"""Decodes picture files of many formats and modes to uint8 RGB arrays."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps

from keras_vit._errors import UsageError
from keras_vit.data import picture_limits
from keras_vit.data.picture_formats import EXTENSIONS, HEADER_BYTES, READ, UNREAD, true_format

# Pillow's modes with a known colour space, and the usual compressions of TIFF.
_MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr"}
_COMPRESSIONS = {
    "raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "jpeg", "group3",
    "group4", "tiff_ccitt",
}  # fmt: skip
_SPREAD = {"L;2": 85, "L;4": 17}  # by Pillow's raw mode
_MASK_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I;16L", "I;16B"}
_RUNS = (1, 2)  # the compressions of a BMP that Pillow decodes in Python
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262  # tags of TIFF
_ORIENTATION = 0x0112  # a tag of EXIF
_TURNS = (  # for EXIF's orientations 2 to 8
    *("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE"),
    *("ROTATE_270", "TRANSVERSE", "ROTATE_90"),
)
_BAND = 2**20  # pixels that are converted at once, so that their memory does not depend on the size
_room = picture_limits.Room()


def decode_image(path: Path) -> np.ndarray:
    """Decodes a JPEG, PNG, WebP, GIF, BMP or TIFF of any mode to uint8 (height, width, 3).

    The format is detected from the content, not from the name. Only the first frame or page is
    read. EXIF rotation is applied, transparent pixels are blended with white, and 16-bit grey is
    scaled to 8 bits.

    Raises:
        OSError: the file is absent or cannot be opened.
        UsageError: it is not a complete picture in one of these formats, or has too many pixels.
    """
    return _of_opened(path, to_rgb)


def decode_content(content: bytes, place: str) -> np.ndarray:
    """`decode_image` for the content of a file; `place` is for the error."""
    return _of_content(content, place, to_rgb)


def decode_values(path: Path) -> np.ndarray:
    """The value of each pixel of a mask, uint8 (height, width).

    Of a picture with a palette these are the places in it, not its colours. Colours are accepted
    if they are grey: some programs save masks so.

    Raises:
        OSError: the file is absent or cannot be opened.
        UsageError: it is not a complete picture in a format that keeps values, has too many
            pixels, or has colours or larger values.
    """
    return _of_opened(path, _values)


def decode_values_of(content: bytes, place: str) -> np.ndarray:
    """`decode_values` for the content of a file; `place` is for the error."""
    return _of_content(content, place, _values)


def upright_size(path: Path) -> tuple[int, int]:
    """Height and width of a picture as `decode_image` returns it, whose pixels are not read.

    Raises:
        OSError, UsageError: see `decode_image`.
    """
    return _of_opened(path, _upright)


def upright_size_of(content: bytes, place: str) -> tuple[int, int]:
    """`upright_size` for the content of a file; `place` is for the error."""
    return _of_content(content, place, _upright)


def examine_image(path: Path) -> tuple[str, str]:
    """Reads the whole file.

    Returns:
        The reason why it cannot be decoded, or "", and the format if it is in
        `picture_formats.PLAIN`, else "". There are only a few different reasons, so that files can
        be counted by reason.
    """
    fault = check_format(path)
    if fault:
        return fault, ""
    with _opened(path) as file:
        return examine_stream(file)


def examine_stream(file: BinaryIO) -> tuple[str, str]:
    """`examine_image` for an opened file."""
    try:
        with _open(file) as image:
            _check_mode(image)
            whole = _area(image)
            image.draft("RGB", (1, 1))  # reads all of a JPEG, but skips most of the decoding
            # A progressive one is in memory as a whole all the same.
            with _room.taken(whole if "progressive" in image.info else _area(image)):
                image.load()
                plain = plain_format(image)
    except Exception as error:  # as in decode_image
        return _reason(error, file), ""
    return "", plain


def plain_format(image: Image.Image) -> str:
    """The format of an opened picture if it is in `picture_formats.PLAIN`, else ""."""
    modes = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "P", "RGB")}
    is_plain = image.mode in modes.get(image.format, ()) and not image.has_transparency_data
    is_upright = _orientation(image) in (None, 1)
    return image.format if is_plain and is_upright else ""


def check_format(path: Path) -> str:
    """Why a file is no picture that is read, from its first bytes; "" for a picture."""
    try:
        with _opened(path) as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        return f"cannot be opened ({error.strerror})"
    if not header:
        return "empty file"
    name = true_format(header)
    if name in READ:
        return ""
    suffix = path.suffix.lower()
    advice = ", convert to JPEG or PNG" if name in UNREAD else ""
    return f"{name} in a {suffix}{advice}" if suffix in EXTENSIONS else f"{name}{advice}"


def to_rgb(image: Image.Image) -> np.ndarray:
    """A Pillow image to uint8 (height, width, 3), with the same rules as `decode_image`.

    Raises:
        UsageError: its mode is not supported (floats, 32-bit integers, Lab).
    """
    _check_mode(image)
    image.load()
    tags = getattr(image, "tag_v2", {})
    bits, white_is_zero = tags.get(_BITS_PER_SAMPLE, (16,))[0], tags.get(_PHOTOMETRIC) == 0
    turn = _orientation(image)
    is_turned, from_end = turn in (5, 6, 7, 8), turn in (3, 4, 6, 7)
    width, height = image.size
    pixels = np.empty((width, height, 3) if is_turned else (height, width, 3), np.uint8)
    rows = max(_BAND // max(width, 1), 1)
    for top in range(0, height, rows):
        end = min(top + rows, height)
        band = _rgb_band(image.crop((0, top, width, end)), bits, white_is_zero)
        if turn in range(2, 9):
            band = band.transpose(Image.Transpose[_TURNS[turn - 2]])
        place = slice(height - end, height - top) if from_end else slice(top, end)
        pixels[(slice(None), place) if is_turned else place] = np.asarray(band)
    return pixels


def printable(path: str | os.PathLike) -> str:
    """A path, or text that contains one, as valid UTF-8 even if the path is not."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _of_opened(path: Path, use: Callable[[Image.Image], Any]) -> Any:
    """What a function of the opened picture in a file returns."""
    with _opened(path) as file:
        try:
            with _open(file) as image, _room.taken(_area(image)):
                return use(image)
        except Exception as error:  # a damaged file makes Pillow raise errors of any type
            reason = check_format(path) or _reason(error, file)
            raise UsageError(f"{printable(path)}: {reason}.") from error


def _of_content(content: bytes, place: str, use: Callable[[Image.Image], Any]) -> Any:
    """What a function of the picture in the content of a file returns."""
    file = io.BytesIO(content)
    try:
        with _open(file) as image, _room.taken(_area(image)):
            return use(image)
    except Exception as error:  # as in `_of_opened`
        raise UsageError(f"{printable(place)}: {_reason(error, file)}.") from error


def _upright(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    return (width, height) if _orientation(image) in (5, 6, 7, 8) else (height, width)


def _values(image: Image.Image) -> np.ndarray:
    """The values of a mask, a band at a time as in `to_rgb`."""
    if image.format in ("JPEG", "WEBP"):
        raise UsageError(f"{image.format} changes the values of a mask, save it as PNG")
    if image.mode not in _MASK_MODES:
        raise UsageError(f"mask of the mode {image.mode}, save it with 8 bits")
    # Pillow spreads the levels of grey pictures of 2 and 4 bits over 0 to 255.
    spread = _SPREAD.get(image.tile[0][3] if image.tile else "", 1)
    image.load()
    width, height = image.size
    values, rows = np.empty((height, width), np.uint8), max(_BAND // max(width, 1), 1)
    for top in range(0, height, rows):
        end = min(top + rows, height)
        band = _values_of(np.asarray(image.crop((0, top, width, end))), image.mode)
        values[top:end] = band // spread
    return values


def _values_of(band: np.ndarray, mode: str) -> np.ndarray:
    if band.ndim == 3:
        others = band[..., 1:3] if mode.startswith("RGB") else band[..., :0]
        band = band[..., 0]
        if (others != band[..., None]).any():
            raise UsageError("colours instead of the numbers of classes")
    if band.max(initial=0) > 255:
        raise UsageError("mask with values above 255")
    return band


def _open(file: BinaryIO) -> Image.Image:
    """The picture of a file within the limits, not decoded yet."""
    name = true_format(file.read(HEADER_BYTES))
    if name not in READ:
        raise UsageError("not a picture that can be read")
    picture_limits.check_structure(file, name)
    file.seek(0)
    # A thumbnail has a scan, too.
    scans = file.read().count(picture_limits.SCAN) if name == "JPEG" else 0
    file.seek(0)
    Image.preinit()
    if name.upper() not in Image.OPEN:
        Image.init()
    # Not Image.open, which writes a warning to standard error from 89 million pixels on.
    image = Image.OPEN[name.upper()][0](file, "")
    most, longest = picture_limits.MOST_PIXELS, picture_limits.MOST_SIDE
    if _area(image) > most or max(image.size) > longest:
        raise UsageError(f"{name} of more than {most:,} pixels, or {longest:,} a side")
    if name == "JPEG" and scans * _area(image) > picture_limits.MOST_SCANNED:
        raise UsageError("JPEG of too many scans, save it as a baseline JPEG")
    compression = image.info.get("compression")
    if image.format == "TIFF" and compression not in _COMPRESSIONS:
        raise UsageError(f"TIFF with {compression} compression, save it without")
    if len(image.tile) > picture_limits.MOST_STRIPS or _painted(image) > 4 * _area(image):
        raise UsageError(f"{name} of too many strips or tiles, save it again")
    most = picture_limits.MOST_RUN_PIXELS
    if name == "BMP" and compression in _RUNS and _area(image) > most:
        raise UsageError(f"compressed BMP of more than {most:,} pixels, save it as PNG")
    return image


def _painted(image: Image.Image) -> int:
    """The pixels of all strips; those of a TIFF may overlap, and each colour may have its own."""
    boxes = (tile[1] for tile in image.tile)
    return sum((right - left) * (bottom - top) for left, top, right, bottom in boxes)


def _area(image: Image.Image) -> int:
    return image.width * image.height


def _rgb_band(image: Image.Image, bits: int, white_is_zero: bool) -> Image.Image:
    if image.mode.startswith("I"):
        values = np.asarray(image) >> (bits - 8)
        image = Image.fromarray(values.clip(0, 255).astype(np.uint8))
        image = ImageOps.invert(image) if white_is_zero else image
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _check_mode(image: Image.Image) -> None:
    # 16-bit grey is I;16, or I in a PNG before Pillow 11; any other I has 32 bits.
    is_deep = image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PNG")
    if not is_deep and image.mode not in _MODES:
        kind = image.format or "image"
        raise UsageError(f"{kind} of Pillow's mode {image.mode}, convert to 8 bits a colour")


def _orientation(image: Image.Image) -> int | None:
    """The rotation in the EXIF block of a loaded image; None if it has none."""
    block, profile = (image.info.get(name) for name in ("exif", "Raw profile type exif"))
    if block is None and isinstance(profile, str):
        block = bytes.fromhex("".join(profile.split("\n")[3:]))  # as Pillow reads it
    if isinstance(block, bytes):
        picture_limits.check_exif(block, image.format or "image")
    return image.getexif().get(_ORIENTATION)


def _reason(error: Exception, file: BinaryIO) -> str:
    if isinstance(error, UsageError):
        return str(error)
    file.seek(0)
    name = true_format(file.read(HEADER_BYTES))
    if name not in READ:
        return "not a picture that can be read"
    return f"truncated {name}" if "truncated" in str(error).lower() else f"broken {name}"


def _opened(path: Path) -> BinaryIO:
    """The opened file; a pipe is refused, because opening one waits for a writer."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return path.open("rb")
