"""Checkpoints: the whole state of a run, so that it can go on bit for bit.

A checkpoint is an `.npz` of all variables of the learner and of its optimiser, which include the
average of the weights and the state of random generators, in their order, of the step, which is
also the position in the data, and of the time of the run so far. It is written in a thread,
and only complete files get their name.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from keras_vit import _files, _json
from keras_vit._checks import positive_integer
from keras_vit._errors import UsageError, shown
from keras_vit._keras import LEGACY
from keras_vit.training.callbacks import check_finite, sync, value_of
from keras_vit.training.plan import NEVER, Every
from keras_vit.weights.tensors import ERRORS

FORMAT = 1
_NAME = re.compile(r"step-(\d{9})\.npz")


class Checkpoints:
    """The checkpoints in a folder.

    Args:
        folder: the folder; created when the first checkpoint is written.
        learner: a built and compiled learner with an optimiser.
        keep: number of newest checkpoints to keep.
        every: how often `maybe_save` writes one.
        stay: whether they stay when the run has ended.
    """

    def __init__(
        self, folder: Path, learner: Any, keep: int = 2, every: Every = NEVER, stay: bool = True
    ):
        self.folder, self._learner, self._stay = Path(folder), learner, stay
        self._keep, self._every = positive_integer("keep", keep), every
        self._writer: threading.Thread | None = None
        self._superseded = threading.Event()
        self._error: BaseException | None = None
        self._saved, self._saved_step = time.monotonic(), 0
        self._began = time.monotonic()
        self._last_call: float | None = None

    def seconds(self) -> float:
        """The time of the run up to now, with that before it was resumed."""
        return time.monotonic() - self._began

    def restore(self) -> int:
        """Sets all variables to the newest complete checkpoint and returns its step; 0 if none.

        Raises:
            UsageError: the checkpoint is of another model or optimiser.
        """
        for path in reversed(self.saved()):
            try:
                about, arrays = _read(path)
            except UsageError:
                raise
            except ERRORS:
                # Damaged after it was written; an older one may be whole. With its own name it
                # would stay as the newest.
                path.replace(path.with_suffix(".damaged"))
                continue
            _assign(_variables(self._learner), arrays, path)
            self._saved_step, self._began = about.step, self._began - about.seconds
            return self._saved_step
        return 0

    def saved(self) -> list[Path]:
        """The checkpoint files, the newest last."""
        return sorted(path for path in self.folder.glob("*.npz") if _NAME.fullmatch(path.name))

    def newest_step(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return max((int(path.stem.partition("-")[2]) for path in self.saved()), default=0)

    def maybe_save(self, step: int) -> None:
        """Writes a checkpoint after `step` steps if one is due, without waiting for the disk.

        One that would be due within the next step is written before it: steps can be long.
        """
        now = time.monotonic()
        step_took = 0.0 if self._last_call is None else now - self._last_call
        at_next, self._last_call = now + step_took, now
        if self._every.is_due(at_next - self._saved, step - self._saved_step):
            self.save(step, wait=False)

    def end(self, step: int) -> None:
        """Saves the state after the last step if checkpoints stay, and removes all of them if not.

        Raises:
            DiskFullError: see `save`.
        """
        if self._stay and step > self.newest_step():
            self.save(step)
        if self._stay:
            return
        for path in [*self.saved(), *self.folder.glob("*.damaged")]:
            path.unlink()
        with contextlib.suppress(OSError):  # there is none, or something else is in it
            self.folder.rmdir()

    def save(self, step: int, wait: bool = True) -> None:
        """Writes a checkpoint after `step` steps; the oldest ones are deleted afterwards.

        Nothing is written if there is one of this step. With `wait`, an older one that is still
        being written is given up: after Ctrl-C the user waits for this one.

        Raises:
            DiskFullError: the disk was full, now or when the previous one was written.
            RefusedError: a weight is NaN or infinite; the previous checkpoints are kept.
        """
        if wait and step != self._saved_step:
            self._superseded.set()
        self.wait()
        if (self.folder / _name(step)).exists():
            return
        sync(self._learner)
        names, variables = zip(*_variables(self._learner), strict=True)
        arrays = [value_of(variable) for variable in variables]
        weights = {id(variable) for variable in self._learner.trainable_variables}
        check_finite((a for v, a in zip(variables, arrays, strict=True) if id(v) in weights), step)
        self._saved, self._saved_step = time.monotonic(), step
        about = {"format": FORMAT, "step": step, "seconds": self.seconds(), "names": names}
        self._superseded = threading.Event()
        arguments = about, arrays, self._superseded
        self._writer = threading.Thread(target=self._write, args=arguments, daemon=True)
        self._writer.start()
        if wait:
            self.wait()

    def wait(self) -> None:
        """Waits until the last checkpoint is on the disk, and raises the error if it failed."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(
        self, about: dict[str, Any], arrays: list[np.ndarray], superseded: threading.Event
    ) -> None:
        try:
            members = {str(i): array for i, array in enumerate(arrays)}
            members["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
            with _files.replacing(self.folder / _name(about["step"])) as temporary:
                _savez(temporary, members, superseded)
            for old in self.saved()[: -self._keep]:
                old.unlink()
        except _SupersededError:
            pass
        except BaseException as error:  # raised by `wait` in the main thread
            self._error = error


class _SupersededError(Exception):
    """A checkpoint is not needed any more, because a newer one follows at once."""


def _savez(path: Path, members: dict[str, np.ndarray], superseded: threading.Event) -> None:
    """Writes what `numpy.savez` writes, and stops between two arrays if it is superseded."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in members.items():
            if superseded.is_set():
                raise _SupersededError
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _name(step: int) -> str:
    return f"step-{step:09}.npz"


class _About(Struct):
    """What a checkpoint says of itself."""

    step: int
    names: list[str]
    seconds: Annotated[float, Meta(ge=0, le=1e12)] = 0.0


def _read(path: Path) -> tuple[_About, dict[str, np.ndarray]]:
    _files.check_stored(path)
    with np.load(path, allow_pickle=False) as file:
        about = _json.parse(file["about"].tobytes(), str(path))
        actual = about.get("format") if isinstance(about, dict) else None
        if actual != FORMAT:
            raise UsageError(
                f"{path}: expected format {FORMAT}. Received: {shown(actual)}; "
                "install the keras_vit that wrote it."
            )
        about = _json.check(about, str(path), _About, "start again with overwrite=True")
        arrays = {name: file[str(i)] for i, name in enumerate(about.names)}
    for array in arrays.values():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise ValueError("a member is not an array of numbers")
    return about, arrays


def _assign(variables: list[tuple[str, Any]], arrays: dict[str, np.ndarray], path: Path) -> None:
    expected = {name: tuple(variable.shape) for name, variable in variables}
    actual = {name: array.shape for name, array in arrays.items()}
    if expected != actual:
        differ = sorted(expected.items() ^ actual.items())
        raise UsageError(
            f"{path} is of another model, optimiser or Keras: {len(differ)} variables differ, the "
            f"first is {differ[0][0]}. Train with the same settings, or start again with "
            "overwrite=True."
        )
    for name, variable in variables:
        variable.assign(arrays[name])


def _variables(learner: Any) -> list[tuple[str, Any]]:
    """All variables that change in training, with a name that is the same in every process."""
    optimizer = learner.optimizer
    of_optimizer = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    frozen = {id(variable) for variable in _of_teacher(learner)}
    trained = [variable for variable in learner.variables if id(variable) not in frozen]
    variables = {"learner": trained, "optimizer": of_optimizer}
    if LEGACY:
        variables["random"] = _generators(learner)
        variables["loss_scale"] = _loss_scale(optimizer)
    return [(f"{kind}/{i}", v) for kind, each in variables.items() for i, v in enumerate(each)]


def _of_teacher(learner: Any) -> list[Any]:
    """The variables of the teacher in a distillation: they do not change, and its run has them."""
    names = [layer.name for layer in learner.layers]
    return learner.get_layer("teacher").model.variables if "teacher" in names else []


def _loss_scale(optimizer: Any) -> list[Any]:
    """The loss scale of tf_keras' float16 optimiser, which is not in its `variables`."""
    state = getattr(optimizer, "_loss_scale", None)
    return [] if state is None else list(state._weights.values())


def _generators(learner: Any) -> list[Any]:
    """The states of the random generators of tf_keras' layers, which are not in `variables`."""
    generators = [getattr(layer, "_random_generator", None) for layer in learner._flatten_layers()]
    states = [getattr(generator, "_generator", None) for generator in generators]
    return [state.state for state in states if state is not None]
