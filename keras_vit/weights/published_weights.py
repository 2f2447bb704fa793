"""What is known of one set of published weights."""

from __future__ import annotations

import dataclasses
from typing import Literal

from keras_vit.specs import Preprocessing

HUB = "hf://"  # the addresses of folders of the Hugging Face Hub begin with it


@dataclasses.dataclass(frozen=True)
class PublishedWeights:
    """One published file, or one folder of the Hugging Face Hub.

    Attributes:
        name: "DIRECTORY/NAME", without ".npz"; of a folder "OWNER/NAME".
        model: the variant's name in the table of variants.
        url: its address; "hf://OWNER/NAME" of a folder.
        image_size: side of the images in pixels for which its position table was trained; of a
            folder that of its own image processor.
        num_classes: number of classes of its head; 0 if it has none.
        top1: published ImageNet-1k top-1 accuracy in percent; None if none is published or the
            head is for another data set.
        default: whether `weights="DIRECTORY"` means this file for this variant.
        licence: SPDX name, or that of the publisher; "not stated" if the page names none.
        gated: whether the licence must be accepted on the page of the folder before the download.
        crop, interpolation, mean, scale: as in `Preprocessing`.
        sha256: the file's hash in hexadecimal, checked after the download; None if unknown.
    """

    name: str
    model: str
    url: str
    image_size: int
    num_classes: int
    top1: float | None = None
    default: bool = False
    licence: str = "Apache-2.0"
    gated: bool = False
    crop: float | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    mean: float = 127.5
    scale: float = 127.5
    sha256: str | None = None

    @property
    def directory(self) -> str:
        """The published directory, which is also a short name for `weights="..."`."""
        return self.name.partition("/")[0]

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing that a file expects; None of a folder, whose own files state it."""
        if self.url.startswith(HUB):
            return None
        side = self.image_size
        return Preprocessing(side, side, self.crop, self.interpolation, self.mean, self.scale)
