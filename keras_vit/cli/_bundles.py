"""The bundles that a command puts together, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keras_vit._errors import UsageError
from keras_vit.cli._program import spelled
from keras_vit.deploy.bundle.folder import check_bundle


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
        check_bundle(bundle)


def named_bundles(bundles: Sequence[Path], names: Sequence[str]) -> dict[str, Path]:
    """The bundles by their names, which are by default those of their runs and folders.

    Raises:
        UsageError: two bundles have the same name.
    """
    from keras_vit import deploy

    names = names or tuple(map(deploy.bundle_name, bundles))
    if len(set(names)) < len(names):
        raise UsageError(
            f"each bundle needs a name of its own. Received: {' '.join(names)}; pass --name."
        )
    return dict(zip(names, bundles, strict=True))
