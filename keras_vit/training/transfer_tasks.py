"""The tasks of the transfer suite: their images, splits and settings.

Sources: Dosovitskiy et al. 2021 (arXiv 2010.11929), table 4 and appendix B.1.1, for steps and
learning rates; `configs/transfer.py` of google-research/big_vision for the splits of the paper's
data sets. The paper resizes VTAB's images as Kolesnikov et al. 2020 (BiT, arXiv 1912.11370,
section 3.3), who leave out crops and flips where these change the class. They do not list these
tasks; here they are VTAB's structured ones and the digits of SVHN.

Nothing here imports NumPy before a split is made, because --help lists the tasks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from keras_vit import data
from keras_vit.data.vtab_tasks import VTAB
from keras_vit.training.recipes import PRESETS, Recipe


@dataclasses.dataclass(frozen=True)
class TransferTask:
    """A row of `TASKS`.

    Attributes:
        name: its name, also that of its folder.
        group: "paper", or the group of VTAB.
        sources: where its images may be, see `open_source`; the first that is on the disk is used.
        preset: the name of its recipe; its learning rates are tried.
        test: the declared split that the final training is judged on.
        augment: the augmentation, if the recipe has another one.
        trained_as: the task whose final models are judged on these images; "" if it has its own.
    """

    name: str
    group: str
    sources: tuple[str, ...]
    preset: str
    test: str = "test"
    augment: str | None = None
    trained_as: str = ""

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rates that are compared on the development images."""
        return PRESETS[self.preset].learning_rates

    def is_own(self, locator: str) -> bool:
        """Whether a source has the task's own images and splits, which published figures are for.

        Args:
            locator: see `open_source`. A folder may follow "cifar10:", a version
                "tfds:cifar10/"; "tfds:cifar10:SPLIT" has other splits.
        """
        return any(
            re.fullmatch(re.escape(own) + ("(/[^:]+)?" if ":" in own else "(:.+)?"), locator)
            for own in self.sources
        )

    def recipe(self, changes: Mapping[str, Any]) -> Recipe:
        """The settings.

        Args:
            changes: fields of `Recipe` that replace the task's. If the duration is changed and the
                warmup is not, the warmup stays the same fraction of the duration.
        """
        recipe = PRESETS[self.preset].recipe
        if self.augment is not None:
            recipe = dataclasses.replace(recipe, augment=self.augment)
        if "duration" in changes and "warmup" not in changes:
            steps, warmup = (int(x.split()[0]) for x in (recipe.duration, recipe.warmup))
            changes = {"warmup": f"{100 * warmup / steps:g}%", **changes}
        return dataclasses.replace(recipe, **changes)

    def splits(self, source: data.Source) -> tuple[data.Split, data.Split]:
        """The split on which learning rates are compared, and that of the final training.

        Images that declare no split for testing are divided by `split_source`.
        """
        import numpy as np

        declared = source.splits
        if not {"train", self.test} <= declared.keys():
            final = data.split_source(source)
        elif self.group != "paper" and "validation" in declared:
            train = np.concatenate([declared["train"], declared["validation"]])
            final = data.Split(train, declared[self.test], _VTAB_RULE)
            return data.Split(declared["train"], declared["validation"], _VTAB_RULE), final
        else:
            rule = f"declared by the data: train is for training, {self.test} is held out"
            final = data.Split(declared["train"], declared[self.test], rule)
        fraction = PRESETS[self.preset].development
        if not source.locator.startswith("tfds:"):  # images may be in the order of their classes
            return data.development_split(source, final, fraction), final
        first = round((1 - fraction) * len(final.train))
        rule = f"the last {fraction:.0%} of the training images are held out"
        return data.Split(final.train[:first], final.train[first:], rule), final


_VTAB_RULE = "VTAB-1k: 800 images for training, 200 for validation, all test images"


def _paper(name: str, recipe: str, test: str = "test", *others: str) -> TransferTask:
    return TransferTask(name, "paper", (f"tfds:{name}", *others), f"finetune-{recipe}", test)


def _vtab(name: str) -> TransferTask:
    group = VTAB[name].group
    whole = group == "structured" or name == "svhn"
    augment = "none" if whole else "resize_crop_flip"
    return TransferTask(f"vtab-{name}", group, (f"vtab:{name}",), "finetune-vtab", augment=augment)


_ROWS = (
    _paper("imagenet2012", "imagenet", "validation"),
    TransferTask(
        "imagenet2012_real", "paper", ("imagenet2012_real",), "finetune-imagenet", "validation",
        trained_as="imagenet2012",
    ),
    _paper("cifar10", "cifar10", "test", "cifar10"),
    _paper("cifar100", "cifar100"),
    _paper("oxford_iiit_pet", "pets"),
    _paper("oxford_flowers102", "flowers"),
    *map(_vtab, VTAB),
)  # fmt: skip
TASKS: dict[str, TransferTask] = {task.name: task for task in _ROWS}
SUITES: dict[str, tuple[str, ...]] = {
    "paper": tuple(name for name, task in TASKS.items() if task.group == "paper"),
    "vtab": tuple(name for name, task in TASKS.items() if task.group != "paper"),
    "all": tuple(TASKS),
}
