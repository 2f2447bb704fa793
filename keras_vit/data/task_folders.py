"""Which sources read pictures for a task. Nothing here imports NumPy."""

from __future__ import annotations

import os

# The names in `SOURCES` for each task but classification: of what reads a folder, which needs no
# name for classification, and of what reads prepared data sets in the place of tfds.
FOLDERS = {"segmentation": "masks"}
PREPARED = {"segmentation": "tfds-masks"}


def task_of(data: str | os.PathLike) -> str | None:
    """The task that a source's name says, "segmentation" for masks:FOLDER; None for the others."""
    name = os.fspath(data).partition(":")[0]
    tables = (FOLDERS, PREPARED)
    return next((task for table in tables for task in table if table[task] == name), None)
