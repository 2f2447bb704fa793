"""Published accuracies after fine-tuning, in percent, to compare a transfer with.

Sources: Dosovitskiy et al. 2021 (arXiv 2010.11929): table 2 for the best models of the paper and
those before it, table 5 for the models pre-trained on ImageNet-21k, table 9 for the tasks of VTAB;
the docstring of `configs/transfer.py` of google-research/big_vision for AugReg's B/32.
"""

from __future__ import annotations

from keras_vit.data.vtab_tasks import VTAB

_PAPER = (
    "imagenet2012", "imagenet2012_real", "cifar10", "cifar100", "oxford_iiit_pet",
    "oxford_flowers102",
)  # fmt: skip
_VTAB = tuple(f"vtab-{task}" for task in VTAB)  # in the order of table 9
# The mean of VTAB's 19 tasks, which tables give with more digits than the tasks.
VTAB_MEAN = "vtab"


def _row(paper: tuple[float | None, ...], vtab: tuple[float, ...] = (), mean: float | None = None):
    means = {} if mean is None else {VTAB_MEAN: mean}
    tasks = dict(zip(_PAPER, paper, strict=False)) | dict(zip(_VTAB, vtab, strict=False))
    return {task: figure for task, figure in tasks.items() if figure is not None} | means


# Columns of tables 2 and 9. Noisy Student has only the first two data sets.
PAPER: dict[str, dict[str, float]] = {
    "ViT-H/14, JFT": _row(
        (88.55, 90.72, 99.50, 94.55, 97.56, 99.68),
        (95.3, 85.5, 75.2, 99.7, 97.2, 65.0, 88.9, 83.3, 96.7, 91.4, 76.6,
         91.7, 63.8, 53.1, 79.4, 63.3, 84.5, 33.2, 51.2),
        77.63,
    ),
    "ViT-L/16, JFT": _row(
        (87.76, 90.54, 99.42, 93.90, 97.32, 99.74),
        (95.4, 81.9, 74.3, 99.7, 96.7, 63.5, 87.4, 83.6, 96.5, 89.7, 77.1,
         86.4, 63.1, 49.7, 74.5, 60.5, 82.2, 36.2, 51.1),
        76.28,
    ),
    "ViT-L/16, I21k": _row(
        (85.30, 88.62, 99.15, 93.25, 94.67, 99.61),
        (90.8, 84.1, 74.1, 99.3, 92.7, 61.0, 80.9, 82.5, 95.6, 85.2, 75.3,
         70.3, 56.1, 41.9, 74.7, 64.9, 79.9, 30.5, 41.7),
        72.72,
    ),
    "BiT-L": _row((87.54, 90.54, 99.37, 93.51, 96.62, 99.63), mean=76.29),
    "Noisy Student": _row((88.4, 90.55)),
}  # fmt: skip

# Table 5: by model, pre-trained on ImageNet-21k, 384 pixels.
_IMAGENET21K = {
    "ViT-B_16": _row((83.97, 88.35, 98.95, 91.67, 94.43, 99.38)),
    "ViT-B_32": _row((81.28, 86.63, 98.79, 91.97, 93.02, 99.11)),
    "ViT-L_16": _row((85.15, 88.40, 99.16, 93.44, 94.73, 99.61)),
    "ViT-L_32": _row((80.99, 85.65, 99.13, 93.04, 93.09, 99.19)),
    "ViT-H_14": _row((85.13, 88.70, 99.27, 93.82, 94.82, 99.51)),
}
_AUGREG_B32 = "augreg/B_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0"
_BY_FILE = {f"imagenet21k/{model}": row for model, row in _IMAGENET21K.items()}
_BY_FILE[_AUGREG_B32] = _row((83.27, None, 98.55, 91.35, 93.78, 99.43))


def published_transfer(file: str | None) -> dict[str, float]:
    """What was published for a file of weights: accuracies in percent by task; {} if nothing was.

    Args:
        file: the name in the catalogue, such as "imagenet21k/ViT-B_16".
    """
    return _BY_FILE.get(file or "", {})
