"""The bundles that a command puts together, and their names."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_vit import deploy
from keras_vit._errors import UsageError
from keras_vit.cli._arguments import options_of
from keras_vit.cli._program import spelled
from keras_vit.deploy.bundle.folder import check_bundle

_CLONE = Path(__file__).parents[2]


def check_bundles(command: str, bundles: Sequence[Path], names: Sequence[str]) -> None:
    """Raises a `UsageError` without bundles, for other folders, and for too many or few names."""
    if not bundles:
        raise UsageError(
            f"expected bundles, as in: {spelled(command)} --bundle runs/flowers/export/int8"
        )
    if names and len(names) != len(bundles):
        raise UsageError(
            f"--name takes a name for each of the {len(bundles)} bundles. Received: {len(names)}."
        )
    for bundle in bundles:
        check_bundle(bundle, spelled("export"))


def named_bundles(
    bundles: Sequence[Path], names: Sequence[str] = (), advice: str = "pass --name"
) -> dict[str, Path]:
    """The bundles by their names, which are by default those of their runs and folders.

    Args:
        bundles: the folders.
        names: their names.
        advice: what to do if two have the same name.

    Raises:
        UsageError: two bundles have the same name.
    """

    names = names or tuple(map(deploy.bundle_name, bundles))
    if len(set(names)) < len(names):
        raise UsageError(
            f"each bundle needs a name of its own. Received: {' '.join(names)}; {advice}."
        )
    return dict(zip(names, bundles, strict=True))


def folder_of_clone(name: str, command: str, arguments: Any, given: Path | None = None) -> Path:
    """The given folder, or the folder `name` of this package's clone or of the current folder.

    Args:
        name: the folder.
        command: the command that needs it.
        arguments: its options, which an error repeats.
        given: the folder that the user chose.

    Raises:
        UsageError: there is none, as where the package was installed from a wheel.
    """
    if given is not None:
        if given.is_dir():
            return given
        raise UsageError(
            f"{given}: expected the folder {name} of a clone; there is no such folder."
        )
    for parent in (_CLONE, Path()):
        if (parent / name).is_dir():
            return parent / name
    raise UsageError(
        f"the folder {name} is not in the installed package; in a clone of keras_vit, run: "
        f"keras-vit {command} {shlex.join(_typed(arguments))}"
    )


def _typed(arguments: Any) -> Iterator[str]:
    """The words of a command's options that are not its defaults, for any current folder."""
    for option in options_of(type(arguments)):
        value = getattr(arguments, option.name)
        if value == option.default:
            continue
        yield option.flag
        for each in value if isinstance(value, tuple) else (value,):
            if not isinstance(each, bool):
                yield str(each.resolve() if isinstance(each, Path) else each)
