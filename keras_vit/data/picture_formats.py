"""Detects the format of a file from its first bytes, never from its name."""

from __future__ import annotations

import re

# Formats that are read. Pillow's other decoders are old code and rarely used.
READ = ("JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF")
# What TensorFlow's own decoders turn into the same pixels as Pillow: JPEG and PNG of 8 bits without
# rotation, transparency and print colours. The first is for everything else.
PLAIN = ("", "JPEG", "PNG")
# File extensions of these formats.
EXTENSIONS = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff",
)  # fmt: skip
# Formats that are recognised only to name them in messages.
UNREAD = ("HEIC", "AVIF", "JPEG XL", "JPEG 2000", "SVG", "Photoshop", "icon", "camera raw")
HEADER_BYTES = 512

# The first bytes of formats, as patterns; the first that matches is the format. An ISO media file
# has "ftyp", a main brand, its version and a list of brands: files without a known one are videos.
_BRANDS = rb".{4}ftyp(.{8}(.{4})*)?"
_PATTERNS = {
    "AVIF": _BRANDS + rb"avi[fs]",
    "HEIC": _BRANDS + rb"(hei[cmsx]|hev[cx]|mif1|msf1)",
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "WebP": rb"RIFF.{4}WEBP",
    "GIF": rb"GIF8[79]a",
    "camera raw": _BRANDS + rb"crx |.{8}CR\x02|FUJIFILMCCD-RAW",
    "video": rb".{4}ftyp|\x1a\x45\xdf\xa3",
    "TIFF": rb"(II[*+]\0|MM\0[*+])",
    "BMP": rb"BM",
    "JPEG XL": rb"\0\0\0\x0cJXL \r\n\x87\n|\xff\x0a",
    "JPEG 2000": rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    "Photoshop": rb"8BPS",
    "icon": rb"\0\0\x01\0",
    "PDF": rb"%PDF",
    "ZIP": rb"PK\x03\x04",
    "gzip": rb"\x1f\x8b",
    "RAR": rb"Rar!",
    "SVG": rb"(?i)[\xef\xbb\xbf \t\r\n]*(<\?xml.*)?<svg",
    "HTML": rb"(?i)[\xef\xbb\xbf \t\r\n]*(<\?xml.*)?<(!doctype )?html",
}


def true_format(header: bytes) -> str:
    """The format of a file from its first `HEADER_BYTES`: "JPEG", "HEIC", "text" ...

    >>> true_format(b"GIF89a")
    'GIF'
    """
    for name, pattern in _PATTERNS.items():
        if re.match(pattern, header, re.DOTALL):
            return name
    return "text" if _is_text(header) else "unknown format"


def _is_text(header: bytes) -> bool:
    return bool(header) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in header)
