"""Arrays on disk instead of in memory."""

from __future__ import annotations

import functools
import itertools
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class StoredArrays(UserDict[Any, np.ndarray]):
    """Arrays by name, each in a file of its own, which is mapped into memory when it is read.

    A change of a mapped array does not change the file.

    Args:
        folder: a new folder, for the files.
        sources: functions that give arrays that are not stored yet, by their names.
    """

    def __init__(self, folder: Path, sources: dict[Any, Callable[[], np.ndarray]] | None = None):
        super().__init__()
        folder.mkdir()
        self._folder, self._numbers, self._files = folder, itertools.count(), {}
        self.data = dict(sources or {})

    def __setitem__(self, name: Any, array: np.ndarray) -> None:
        path = self._folder / str(next(self._numbers))
        # Not numpy.save, whose error on a full disk does not say what it is.
        path.write_bytes(np.ascontiguousarray(array).data)
        self._remove_file(name)
        self._files[name] = path
        self.data[name] = functools.partial(_mapped, path, array.dtype, array.shape)

    def __getitem__(self, name: Any) -> np.ndarray:
        return self.data[name]()

    def __delitem__(self, name: Any) -> None:
        del self.data[name]
        self._remove_file(name)

    def store(self) -> None:
        """Stores what the sources give; they are not needed afterwards."""
        for name in self.data.keys() - self._files.keys():
            self[name] = self[name]

    def _remove_file(self, name: Any) -> None:
        if path := self._files.pop(name, None):
            path.unlink()


def _mapped(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if 0 in shape:  # an empty file cannot be mapped
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "c", shape=shape))
