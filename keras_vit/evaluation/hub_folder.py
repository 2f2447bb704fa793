"""Which files the folder for a hub has, and whether it may be written."""

from __future__ import annotations

from pathlib import Path

from keras_vit._errors import UsageError

LAYOUTS = {"timm": "", "transformers": "transformers"}  # and the folders of their files
_FILES = {"README.md", "model.safetensors", "config.json", "weights.npz", *LAYOUTS}


def check_for_hub(out: Path) -> None:
    """Raises a `UsageError` if a folder has anything else than `write_hub_folder` writes."""
    if out.is_file():
        raise UsageError(f"{out} is a file; choose another folder.")
    others = sorted({path.name for path in out.iterdir()} - _FILES) if out.is_dir() else []
    if others:
        raise UsageError(
            f"{out} has other files than those of a card, such as {others[0]!r}; choose another "
            "folder, because this one would be replaced."
        )
