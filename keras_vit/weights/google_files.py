"""The published files of Google: the paper's, AugReg's, SAM's and BiT's.

Sources: the README, the changelog, `vit_jax/configs/models.py` and `vit_jax_augreg.ipynb` of
google-research/vision_transformer; the README and `bit_hyperrule.py` of google-research/
big_transfer (both Apache-2.0, like the files). Accuracies are ImageNet-1k validation top-1 as
published there for the same file; files without a published accuracy have None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keras_vit.weights.published_weights import PublishedWeights

_VIT = "https://storage.googleapis.com/vit_models/"
_BIT = "https://storage.googleapis.com/bit_models/"


def google_files() -> Iterator[PublishedWeights]:
    """All files but those of AugReg that are not recommended."""
    yield from _files()
    for name in _AUGREG_TOP1:
        yield from map(augreg_weights, (name, name.partition("--")[0]))  # fine-tuned, pre-trained


def augreg_weights(name: str) -> PublishedWeights | None:
    """The file with a name in AugReg's pattern; None for other names.

    The pattern is `MODEL-DATA-EPOCHSep-lr_X-aug_X-wd_X-do_X-sd_X` for a pre-trained file, followed
    by `--DATA-steps_X-lr_X-res_X` for a fine-tuned one (Steiner et al. 2021).
    """
    name = name.removesuffix(".npz").removeprefix("augreg/")
    match = _AUGREG_NAME.fullmatch(name)
    if match is None:
        return None
    tuned = match["tuned"]
    return PublishedWeights(
        name=f"augreg/{name}",
        model=AUGREG_MODELS[match["model"]],
        url=f"{_VIT}augreg/{name}.npz",
        image_size=int(match["resolution"] or 224),
        num_classes=_TUNED[tuned] if tuned else _CLASSES[match["data"]],
        top1=_AUGREG_TOP1.get(name),
        default=name in _AUGREG_TOP1,
        # Pre-trained files were evaluated on the centre 224 of 256 pixels (big_vision's
        # vit_i21k.py). The official fine-tuning code stretches images, as for all other files here
        # (vit_jax/input_pipeline.py).
        crop=None if tuned else 0.875,
    )


# The models in the names of AugReg's files, and their variants.
AUGREG_MODELS = {
    **{name: f"ViT-{name}" for name in ("Ti_16", "S_32", "S_16", "B_32", "B_16", "B_8", "L_16")},
    "R_Ti_16": "R+ViT-Ti_16",
    "R26_S_32": "R26+ViT-S_32",
    "R50_L_32": "R50+ViT-L_32",
}
# Numbers of classes: of the data for pre-training, and of those for fine-tuning. kitti has four
# classes for the distance of the closest vehicle (VTAB).
_CLASSES = {"i1k": 1000, "i21k": 21843, "i21k_30": 21843}
_TUNED = {"imagenet2012": 1000, "cifar100": 100, "oxford_iiit_pet": 37, "resisc45": 45, "kitti": 4}
_AUGREG_NAME = re.compile(
    rf"(?P<model>{'|'.join(AUGREG_MODELS)})-(?P<data>{'|'.join(_CLASSES)})-\d{{2,3}}ep-lr_\d\.\d+"
    r"-aug_(?:none|light[012]|medium[12]|strong[12])-wd_\d\.\d+-do_\d\.\d+-sd_\d\.\d+"
    rf"(?:--(?P<tuned>{'|'.join(_TUNED)})-steps_\d{{1,2}}k-lr_\d\.\d+-res_(?P<resolution>224|384))?"
)

# The recommended files: pre-trained on ImageNet-21k for 300 epochs, then fine-tuned. Accuracies
# are from the README's table, and for B/8 from the output of vit_jax_augreg.ipynb.
_RECOMMENDED = (
    # model, augmentation and regularisation, fine-tuning, top-1
    ("L_16", "aug_strong1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 85.59),
    ("B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0", "lr_0.03-res_384", 85.49),
    ("S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 83.73),
    ("R50_L_32", "aug_medium1-wd_0.1-do_0.1-sd_0.1", "lr_0.01-res_384", 85.99),
    ("R26_S_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 83.85),
    ("Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 78.22),
    ("B_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 83.59),
    ("S_32", "aug_none-wd_0.1-do_0.0-sd_0.0", "lr_0.01-res_384", 79.58),
    ("R_Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "lr_0.03-res_384", 75.40),
    ("B_8", "aug_medium2-wd_0.1-do_0.0-sd_0.0", "lr_0.03-res_224", 85.58),
)
_AUGREG_TOP1 = {
    f"{model}-i21k-300ep-lr_0.001-{settings}--imagenet2012-steps_20k-{tuning}": top1
    for model, settings, tuning, top1 in _RECOMMENDED
}


_BIT_MODELS = "R50x1 R50x3 R101x1 R101x3 R152x4"
# The names of files and of their variants, resolution, classes, and what {} stands for.
_FILES = (
    ("imagenet21k/{}", "{}", 224, 21843, "ViT-B_8 ViT-B_16 ViT-B_32 ViT-L_16 ViT-L_32 ViT-H_14"),
    ("imagenet21k/{}", "{}", 224, 21843, "R26+ViT-B_32 R50+ViT-B_16 R50+ViT-L_32"),
    ("imagenet21k+imagenet2012/{}", "{}", 384, 1000, "ViT-B_8 ViT-B_16 ViT-B_32 ViT-L_16"),
    ("imagenet21k+imagenet2012/{}", "{}", 384, 1000, "ViT-L_32 R50+ViT-B_16"),
    ("sam/{}", "{}", 224, 1000, "ViT-S_16 ViT-B_16 ViT-B_32 ViT-L_16 ViT-L_32"),
    ("gsam/{}", "{}-gap", 224, 1000, "ViT-S_16 ViT-S_32 ViT-B_16 ViT-B_32"),
    # Fine-tuned again at 224 px; see the README's changelog of 2020-10-29.
    ("imagenet21k+imagenet2012/{}-224", "{}", 224, 1000, "ViT-B_16 ViT-L_16"),
    ("bit-s/BiT-S-{}", "BiT-{}", 224, 1000, _BIT_MODELS),
    ("bit-m/BiT-M-{}", "BiT-{}", 224, 21843, _BIT_MODELS),
    # Fine-tuned on images of 480 px (`bit_hyperrule.py`).
    ("bit-m+imagenet2012/BiT-M-{}-ILSVRC2012", "BiT-{}", 480, 1000, _BIT_MODELS),
)
_TOP1 = {
    "imagenet21k+imagenet2012/ViT-B_16-224": 81.2,
    "imagenet21k+imagenet2012/ViT-L_16-224": 82.7,
    # Measured at 480 px by pytorch-image-models with these files (docs/models/big-transfer).
    "bit-m+imagenet2012/BiT-M-R50x1-ILSVRC2012": 80.19,
    "bit-m+imagenet2012/BiT-M-R50x3-ILSVRC2012": 83.75,
    "bit-m+imagenet2012/BiT-M-R101x1-ILSVRC2012": 82.21,
    "bit-m+imagenet2012/BiT-M-R101x3-ILSVRC2012": 84.38,
    "bit-m+imagenet2012/BiT-M-R152x4-ILSVRC2012": 84.95,
}
# Google publishes no hashes. A sha256 is given here if independent public copies of a file have the
# same hash. R50+ViT-B_16 (461,217,452 bytes): huggingface.co/ccf92/ViT_Classification_Model and
# copies of TransUNet's users. ViT-B_16 at 384 px (347,502,902 bytes): the same
# sources and github.com/KevinG273/ViT.
_SHA256 = {
    "imagenet21k/R50+ViT-B_16": "ff009bf39bb4f9198b834cfe46aba2bfdaf730e933ab3e3c4b1edf4226eaafbe",
    "imagenet21k+imagenet2012/ViT-B_16": (
        "19d3f569702e80c3a19101c8a3bde16b34f0c475ce565e999cb96068a580fdbf"
    ),
}


def _files() -> Iterator[PublishedWeights]:
    for name_template, model_template, image_size, num_classes, stems in _FILES:
        for stem in stems.split():
            name, model = name_template.format(stem), model_template.format(stem)
            # BiT's files are at the top of their bucket, without a directory.
            url = _BIT + name.partition("/")[2] if model.startswith("BiT") else _VIT + name
            yield PublishedWeights(
                name,
                model,
                f"{url}.npz",
                image_size,
                num_classes,
                top1=_TOP1.get(name),
                default=not name.endswith("-224"),
                sha256=_SHA256.get(name),
            )
