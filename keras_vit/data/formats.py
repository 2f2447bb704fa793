"""Detects the format of a file from its first bytes, never from its name."""

from __future__ import annotations

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

# The first bytes of formats: (position, bytes, format).
_SIGNATURES = (
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (8, b"WEBP", "WebP"),
    (0, b"GIF87a", "GIF"),
    (0, b"GIF89a", "GIF"),
    (8, b"CR\x02", "camera raw"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"II+\0", "TIFF"),
    (0, b"MM\0+", "TIFF"),
    (0, b"BM", "BMP"),
    (0, b"FUJIFILMCCD-RAW", "camera raw"),
    (0, b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (0, b"\xff\x0a", "JPEG XL"),
    (0, b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (0, b"\xff\x4f\xff\x51", "JPEG 2000"),
    (0, b"8BPS", "Photoshop"),
    (0, b"\0\0\x01\0", "icon"),
    (0, b"%PDF", "PDF"),
    (0, b"PK\x03\x04", "ZIP"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"Rar!", "RAR"),
    (0, b"\x1a\x45\xdf\xa3", "video"),
)
# Brands in the header of an ISO media file ("ftyp"); files with other brands are videos.
_BRANDS = (
    (("avif", "avis"), "AVIF"),
    (("heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"), "HEIC"),
    (("crx ",), "camera raw"),
)
_MARKUP = ((b"<svg", "SVG"), (b"<!doctype html", "HTML"), (b"<html", "HTML"))


def true_format(header: bytes) -> str:
    """The format of a file from its first `HEADER_BYTES`: "JPEG", "HEIC", "text" ...

    >>> true_format(b"GIF89a")
    'GIF'
    """
    if header[4:8] == b"ftyp":
        return _media(header)
    for position, signature, name in _SIGNATURES:
        if header[position:].startswith(signature) and (name != "WebP" or header[:4] == b"RIFF"):
            return name
    start = header.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for signature, name in _MARKUP:
        if signature in start if start.startswith(b"<?xml") else start.startswith(signature):
            return name
    return "text" if _is_text(header) else "unknown format"


def _media(header: bytes) -> str:
    # The list of brands starts with its length. The major brand may be a general one such as mif1.
    length = min(int.from_bytes(header[:4], "big"), len(header))
    brands = [header[8:12], *(header[i : i + 4] for i in range(16, length - 3, 4))]
    for known, name in _BRANDS:
        if any(brand.decode("latin-1") in known for brand in brands):
            return name
    return "video"


def _is_text(header: bytes) -> bool:
    return bool(header) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in header)
