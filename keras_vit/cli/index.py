"""Makes a gallery of pictures that others are compared with.

The bundle gives features (export with --output features). Its gallery holds the features of the
pictures and small copies of them: run, the app and the page of web then show which of them a
picture is like, and name its class by them, without training.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

from keras_vit import deploy
from keras_vit._errors import UsageError
from keras_vit.cli._arguments import option
from keras_vit.cli._options import check_pictures
from keras_vit.cli._printing import class_table, print_next
from keras_vit.cli._program import load, spelled
from keras_vit.cli._progress import CountPrinter, size
from keras_vit.deploy.bundle.folder import check_bundle


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Options of the command."""

    pictures: tuple[Path, ...] = option((), positional="PICTURE")
    """Folders of pictures, and picture files."""
    bundle: Path | None = None
    """An exported folder of features, such as export/float16; must be given. The folder gallery in
    it is written or replaced. All who have the bundle can see the small pictures."""
    classes: bool = True
    """the names of the folders as classes: the class of a picture is the name of the folder that it
    lies in, but not that of the only folder that is given."""

    def __post_init__(self):
        if self.bundle is None or not self.pictures:
            raise UsageError(f"expected {spelled('index')} --bundle FOLDER PICTURES")
        check_bundle(self.bundle, spelled("export"))
        check_pictures(self.pictures)


def run(arguments: Arguments) -> None:
    """Writes the gallery, and prints how well its pictures name each other's classes."""
    load("ai_edge_litert.interpreter")

    pictures = deploy.pictures_to_index(arguments.pictures, arguments.classes)
    bundle = deploy.open_bundle(arguments.bundle, trusted=False)
    bundle.check_features()
    print(f"bundle {arguments.bundle}: {bundle.name}, {bundle.precision}")
    printers = CountPrinter("pictures"), _print_skipped
    gallery, found = deploy.index_pictures(bundle, pictures, *printers)
    if gallery.classes:
        counts = Counter(gallery.targets[gallery.targets >= 0].tolist())
        print(class_table(gallery.classes, [counts[i] for i in range(len(gallery.classes))]))
    if found:
        nearest = f"{gallery.vote.neighbours} nearest"
        voters = nearest if gallery.vote.of == "pictures" else "means"
        print(
            f"classes by the other pictures: {nearest} {found['pictures']:.2%}, class means "
            f"{found['means']:.2%}; the {voters} vote"
        )
    folder = bundle.folder / "gallery"
    count = f"{len(gallery.names):,}"
    held = size(sum(file.stat().st_size for file in folder.iterdir()))
    print(f"gallery: {folder}, {count} picture{'' if count == '1' else 's'}, {held}")
    print_next("web", "--bundle", arguments.bundle)


def _print_skipped(line: str) -> None:
    print(f"skipped {line}", file=sys.stderr)
