"""Runs an exported bundle as the Android app does.

Prints the most probable classes of pictures; of a segmenter the classes of their pixels with their
shares, and writes masks (--out); of a bundle of features with a gallery (index), which of its
pictures they are like, and the classes that these name. --verify runs the golden check
instead: it compares the preprocessing and the scores of this computer with those of the exporter's,
on each kind of kernels that LiteRT has here, as the app's Verify does on a phone.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from keras_vit import _checks, deploy
from keras_vit._errors import RefusedError, UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_pictures
from keras_vit.cli._predictions import check_out, of_bundle, print_predictions
from keras_vit.cli._printing import print_next, table
from keras_vit.cli._program import load, spelled
from keras_vit.deploy.bundle.folder import check_bundle


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    pictures: tuple[Path, ...] = option((), positional="PICTURE")
    """Picture files, and folders of them."""
    bundle: Path | None = None
    """An exported folder, such as runs/demo/export/int8; must be given."""
    verify: bool = False
    """Run the golden check; exits with 3 if a difference is too large."""
    top_k: int = option(5, check=_checks.positive_integer)
    """How many classes, and similar pictures, of each picture are printed."""
    threads: int = option(2, check=_checks.positive_integer)
    """Number of threads of the golden check."""
    out: Path | None = None
    """Of a segmenter: the folder to write masks into, with a page of them, masks.html."""
    json: bool = False
    """Print a JSON object on a line for each picture."""

    def __post_init__(self):
        if self.bundle is None:
            raise UsageError(f"expected a bundle, as in: {spelled('run')} --bundle FOLDER 1.jpg")
        if bool(self.pictures) == self.verify:
            received = "both" if self.verify else "neither"
            raise UsageError(f"expected pictures or --verify. Received: {received}.")
        if self.verify and self.json:
            raise UsageError("--json prints the classes of pictures. Received: --verify --json.")
        check_bundle(self.bundle, spelled("export"))
        if self.verify and self.out is not None:
            raise UsageError("--out is for the masks of pictures. Received: --verify --out.")
        check_pictures(self.pictures)
        if self.out is not None:
            check_out(self.out)


def run(arguments: Arguments) -> None:
    """Prints the classes of each picture, or the result of the golden check."""
    load("ai_edge_litert.interpreter")
    if arguments.verify:
        _verify(arguments)
        return
    from keras_vit.data.images import find_pictures

    pictures = find_pictures(arguments.pictures)
    predictor = of_bundle(arguments.bundle, deploy.open_bundle(arguments.bundle, trusted=False))
    print_predictions(predictor, pictures, arguments.top_k, arguments.json, arguments.out)


def _verify(arguments: Arguments) -> None:
    check = deploy.check_golden(arguments.bundle, arguments.threads, trusted=False)
    if check.expected is not None:
        print(f"class   {check.labels[check.expected]}, as exported")
    print(f"tensor  differs by {check.tensor:.1e}, at most {check.tensor_tolerance:.1e}\n")
    print(_table(check))
    for each in check.kernels:
        if each.reason:
            print(f"{each.kernels}: {each.reason}")
    if not check.passed:
        raise RefusedError("this computer does not compute what the exporter's did.")
    print("passed: this computer computes what the exporter's did")
    if check.is_mask or check.expected is not None:  # the app shows no classes of other parts
        print_next("android", "--bundle", arguments.bundle)


def _table(check: Any) -> str:
    """The kinds of kernels, one a line; a column that holds nothing is left out."""
    header = ("kernels", f"{check.compared} differ by", "at most", "other class", "at most")
    columns = zip((*header, "class", "ms"), *_rows(check), strict=True)
    header, *rows = zip(*(each for each in columns if any(each[1:])), strict=True)
    return table(header, rows)


def _rows(check: Any) -> list[tuple[str, ...]]:
    return [
        (
            each.kernels,
            "refused" if each.difference is None else f"{each.difference:.1e}",
            f"{each.tolerance:.1e}",
            "" if each.pixels is None else f"{each.pixels:.2%}",
            "" if each.pixels is None else f"{each.most_pixels:.2%}",
            "" if each.found is None else check.labels[each.found],
            "" if each.milliseconds is None else f"{each.milliseconds:.2f}",
        )
        for each in check.kernels
    ]
