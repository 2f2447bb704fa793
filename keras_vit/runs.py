"""The run folder, which training writes and all other commands read.

It contains spec.json, weights.npz, labels.txt, recipe.json, split.json, metrics.jsonl and report/,
and weights_ema.npz if an average of the weights was kept.
Each file is replaced as a whole, so a folder can be loaded from the moment training starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from keras_vit import _files, _json
from keras_vit._errors import UsageError
from keras_vit._json import Text
from keras_vit.data.source import check_labels
from keras_vit.data.sources import Source, check_out, for_task, open_source, source_folder
from keras_vit.data.split import RULE, Split
from keras_vit.labels import count_of, read_labels, write_labels
from keras_vit.models.image_model import ImageModel
from keras_vit.models.pretrained import model_class
from keras_vit.recipe import RunRecipe
from keras_vit.specs import Preprocessing, RunSpec, activation_of_loss, check_spec, spec_from_dict
from keras_vit.weights import load_weights, save_weights
from keras_vit.weights.checkpoint import open_checkpoint
from keras_vit.weights.loading import Target, match

FORMAT = 1
# The average of the weights, in the folder of a run that was trained with `ema`.
AVERAGE = "weights_ema.npz"
# Bytes of split.json; ImageNet-21k's has half of them. Reading takes at most six times the memory.
_MOST_SPLIT = 1 << 30


@dataclasses.dataclass(frozen=True)
class Run:
    """An opened run folder.

    Attributes:
        path: the folder.
        spec: the content of spec.json.
        labels: the class names, in the order of the logits.
        recipe: the content of recipe.json.
    """

    path: Path
    spec: dict[str, Any]
    labels: tuple[str, ...]
    recipe: dict[str, Any]

    def __str__(self) -> str:
        """One line: the folder, the model, the data it was trained on and the time."""
        height, width = self.spec["image_size"]
        return (
            f"{self.path}: {self.spec['model']}, {height} x {width} pixels, "
            f"{count_of(self.labels)}, trained on {self.recipe['data']}, saved {self.saved}"
        )

    @property
    def saved(self) -> str:
        """The local time at which its weights were written: "2026-01-31 17:05"."""
        local_time = time.localtime((self.path / "weights.npz").stat().st_mtime)
        return time.strftime("%Y-%m-%d %H:%M", local_time)

    @property
    def has_average(self) -> bool:
        """Whether training kept an average of the weights."""
        return (self.path / AVERAGE).is_file()

    def model(self, dtype: Any = None, average: bool = False) -> ImageModel:
        """The trained model.

        Args:
            dtype: Keras' dtype or policy; None for float32.
            average: with the average of the weights instead of those of the last step.

        Raises:
            UsageError: there is no average.
        """
        if average and not self.has_average:
            raise UsageError(
                f"{self.path} has no average of its weights ({AVERAGE}); train with ema=0.9999."
            )
        spec, size = spec_from_dict(self.spec["spec"]), tuple(self.spec["image_size"])
        weights = self.path / (AVERAGE if average else "weights.npz")
        # Nothing is built before the weights are known to fit.
        with open_checkpoint(weights) as checkpoint:
            target = Target(spec, len(self.labels), size, self.labels)
            match(target, checkpoint, check_stated=True)
        spec = dataclasses.replace(spec, **self.activation_field)
        model = model_class(spec)(
            spec,
            num_classes=len(self.labels),
            labels=self.labels,
            image_size=size,
            preprocessing=Preprocessing.from_dict(self.spec["preprocessing"]),
            dtype=dtype,
            name=self.spec["model"],
        )
        load_weights(model, weights)
        return model

    @property
    def activation_field(self) -> dict[str, str]:
        """The field of the spec that says what logits mean, by the loss they were trained with.

        The spec does not say it of older runs, and of models that were built before the loss was
        chosen.
        """
        return activation_of_loss(spec_from_dict(self.spec["spec"]), self.loss)

    def source(self, data: str | os.PathLike | None = None) -> Source:
        """The images that the run was trained on, read again.

        Args:
            data: their current folder, if they were moved.

        Raises:
            UsageError: the folder is gone, or its classes are not those of the run.
        """
        data = self.recipe["data"] if data is None else for_task(data, self.task)
        folder = source_folder(data)
        if folder is not None and not folder.is_dir():
            raise UsageError(
                f"expected the pictures of {self.path} in {data}, a folder that is not there; name "
                "their current folder with data=FOLDER."
            )
        source = open_source(data)
        if source.labels != self.labels:
            added = sorted(set(source.labels) - set(self.labels))
            missing = sorted(set(self.labels) - set(source.labels))
            raise UsageError(
                f"{source.locator}: expected the {len(self.labels)} classes of {self.path}. "
                f"Received: {len(source.labels)}, added {added}, missing {missing}."
            )
        return source

    def split(self, source: Source) -> Split:
        """The split that training used, as indices into `source`.

        Raises:
            UsageError: images of the split are missing.
        """
        return self._indices(self._split_ids(), source)

    def _indices(self, ids: _SplitIds, source: Source) -> Split:
        index = {name: i for i, name in enumerate(source.ids)}
        parts = (ids.train, ids.held_out)
        missing = [i for part in parts for i in part if i not in index]
        if missing:
            raise UsageError(
                f"{source.locator}: {len(missing)} images of the run's split are missing or "
                f"unreadable, the first is {missing[0]}; put them back or train again. For other "
                f"pictures: keras-vit evaluate --weights {self.path / 'weights.npz'} --data FOLDER."
            )
        return Split(*(np.array([index[i] for i in part], int) for part in parts), ids.rule)

    @property
    def training_images(self) -> int:
        """The number of images that it is trained on; they are not read."""
        return len(self._split_ids().train)

    def _split_ids(self) -> _SplitIds:
        file = self.path / "split.json"
        return _files.read_record(file, _SplitIds, format=FORMAT, most_bytes=_MOST_SPLIT)

    def check_targets(self, source: Source) -> None:
        """Raises a `UsageError` if images of the split have other classes than in training.

        Runs that were trained before this was recorded are not checked.
        """
        ids = self._split_ids()
        now = _targets_sha256(source, self._indices(ids, source))
        if ids.targets_sha256 not in (None, now):
            raise UsageError(
                f"{source.locator}: images have other classes than when {self.path} was trained; "
                "train again."
            )

    def images(self, source: Source, split: str = "held_out") -> np.ndarray:
        """The images to judge the run on, as indices into `source`.

        Args:
            source: the images.
            split: "held_out" for those that training held out; or "validation" or "test", if the
                data declares it.

        Raises:
            UsageError: images of the run's split are missing, the data declares no such split, or
                the run was trained on images of it.
        """
        used = self.split(source)
        if split == "held_out":
            return used.held_out
        sizes = {name: len(indices) for name, indices in source.splits.items() if len(indices)}
        if split not in sizes:
            declared = f"the splits {' and '.join(sizes)}" if sizes else "no splits"
            raise UsageError(
                f"{source.locator} declares {declared}. Received: split={split!r}; the images that "
                "training held out are split='held_out'."
            )
        indices = source.splits[split]
        trained = len(np.intersect1d(indices, used.train))
        if trained:
            raise UsageError(
                f"{self.path} was trained on {trained} images of split={split!r}, which cannot "
                "judge it; choose split='held_out'."
            )
        return indices

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting of the recipe.

        Args:
            name: a field of `training.Recipe`.
            default: the value for runs that were trained before there was such a setting.

        Raises:
            UsageError: recipe.json does not have it and there is no default.
        """
        value = self.recipe["recipe"].get(name, default)
        if value is not None:
            return value
        raise UsageError(f"{self.path / 'recipe.json'} has no setting {name!r}; train again.")

    @property
    def loss(self) -> str:
        """The loss that it was trained with, see `training.Recipe`."""
        return self.setting("loss", "softmax")

    @property
    def task(self) -> str:
        """What it was trained for, see `training.Recipe`."""
        return self.setting("task", "classification")

    @property
    def is_being_trained(self) -> bool:
        """Whether a process trains it now."""
        return _files.is_locked(self.path)

    @property
    def may_weight_classes(self) -> bool:
        """Whether another run could weight the classes: see `training.Recipe`."""
        ways = (self.setting("class_weights", "none"), self.setting("sampling", "all"))
        is_of_one = self.task == "classification" and self.loss == "softmax"
        return is_of_one and "balanced" not in ways

    def check_classifies(self) -> None:
        """Raises a `UsageError` if it was trained without classes, or for another task."""
        if self.task != "classification":
            raise UsageError(
                f"{self.path}: expected a run of a classifier. Received: one of {self.task}."
            )
        self.check_trained_with_classes()

    def check_trained_with_classes(self) -> None:
        """Raises a `UsageError` if it was trained without classes, so that its head is zeros."""
        if self.loss not in ("softmax", "sigmoid"):
            raise UsageError(
                f"{self.path} was trained without classes (loss {self.loss}), so its head is all "
                f"zeros; train one that starts from its weights, {self.path / 'weights.npz'}."
            )

    def metrics(self) -> list[dict[str, Any]]:
        """A record for each finished epoch, oldest first."""
        return [record for record in self.log() if "epoch" in record]

    def log(self) -> list[dict[str, Any]]:
        """All records of metrics.jsonl, also those within epochs, oldest first."""
        path = self.path / "metrics.jsonl"
        lines = _files.read_lines(path) if path.exists() else ()
        whole = [line for line in lines if line.endswith("}")]  # a killed process leaves half a one
        # At once, because a call for each of a million lines would take minutes. In a message about
        # JSON, line 3 is the third one of the file; a record is $[2] there.
        text = ",\n".join(whole)
        records = _json.parse(f"[{text}]", str(path), nan=True)
        _json.check(records, str(path), list[_Record])
        return records


class _SplitIds(Struct):
    """The content of split.json: which images train and which are held out."""

    train: Annotated[list[Text], Meta(min_length=1)]
    held_out: Annotated[list[Text], Meta(min_length=1)]
    rule: Text = RULE
    targets_sha256: str | None = None


_Figure = Annotated[float, Meta(description="NaN or infinite in a run that diverged")]


class _Record(Struct):
    """A line of metrics.jsonl."""

    step: int
    epoch: int = 0
    seconds: _Figure = 0
    loss: _Figure | None = None
    accuracy: _Figure | None = None
    val_loss: _Figure | None = None
    val_accuracy: _Figure | None = None
    mean_iou: _Figure | None = None
    val_mean_iou: _Figure | None = None


def create_run(
    path: str | os.PathLike,
    model: ImageModel,
    source: Source,
    split: Split,
    recipe: dict[str, Any],
    origin: str,
    *,
    overwrite: bool = False,
) -> Path:
    """Writes a new run folder with all files except the metrics, and with the model's weights.

    Args:
        path: the folder; created if it does not exist.
        model: the model that will be trained.
        source: the images; their labels and locator are stored.
        split: which images are for training, and which are held out.
        recipe: all settings, as JSON values.
        origin: where the weights come from: "fresh" or a file's name.
        overwrite: replace an existing run.

    Raises:
        UsageError: see `check_out`; or the name of a class is not one line of text, or the images
            have too many names.
        DiskFullError: the disk is full.
    """
    path = Path(path)
    check_out(path, source.locator, overwrite)
    check_labels(source.labels, source.locator)
    with _files.replacing_folder(path) as folder:
        ids = np.array(source.ids)
        contents = {
            "spec.json": {
                "model": model.name,
                "spec": model.spec.to_dict(),
                "num_classes": model.num_classes,
                "image_size": model.image_size,
                "preprocessing": model.preprocessing.to_dict(),
                "weights": origin,
            },
            "recipe.json": {"data": source.locator, **recipe},
            "split.json": {
                "rule": split.rule,
                "train": ids[split.train].tolist(),
                "held_out": ids[split.held_out].tolist(),
                "targets_sha256": _targets_sha256(source, split),
            },
        }
        for name, content in contents.items():
            _files.write_json(folder / name, {"format": FORMAT, **content})
        write_labels(folder / "labels.txt", source.labels)
        _check_split(folder / "split.json", source)
        save_weights(model, folder / "weights.npz")
    return path


def _check_split(path: Path, source: Source) -> None:
    """Refuses images whose split.json could not be read again."""
    size = path.stat().st_size
    if size > _MOST_SPLIT:
        raise UsageError(
            f"{source.locator}: expected images whose names fit into {_MOST_SPLIT:,} bytes of "
            f"split.json. Received: {size:,} bytes for {len(source.ids):,} images; shorten the "
            "names of the folders, or train on a part of the images."
        )


def _targets_sha256(source: Source, split: Split) -> str:
    """A hash of the classes of a split's images."""
    targets = source.targets if source.sets is None else source.sets
    hashed = hashlib.sha256()
    for indices in (split.train, split.held_out):
        for start in range(0, len(indices), 256):  # all rows of several classes may need gigabytes
            hashed.update(targets[indices[start : start + 256]].astype("<i8").tobytes())
    return hashed.hexdigest()


def rewind(run: Run, step: int, settings: dict[str, Any]) -> None:
    """Prepares a run to go on after `step`: removes later metrics, and writes its settings.

    Args:
        run: the run.
        step: the step of the checkpoint.
        settings: the recipe, as JSON values.
    """
    _files.write_json(run.path / "recipe.json", {**run.recipe, "recipe": settings})
    earlier = [record for record in run.log() if record["step"] <= step]
    text = "".join(f"{json.dumps(record)}\n" for record in earlier)
    _files.write_text(run.path / "metrics.jsonl", text)


def load_run(path: str | os.PathLike) -> ImageModel:
    """The trained model of a run folder, with the run's labels and preprocessing.

    >>> model = keras_vit.load_run("runs/flowers")
    >>> scores = model.predict(keras_vit.preprocess(images, model), verbose=0)
    >>> best = keras_vit.decode_predictions(scores, model, top=3)

    Raises:
        UsageError: see `open_run`.
    """
    return open_run(path).model()


def open_run(path: str | os.PathLike) -> Run:
    """Opens a run folder. The weights are not read before `Run.model` is called.

    Raises:
        UsageError: the folder or one of its files is missing, or a file has a newer format.
    """
    path = Path(path)
    if path.is_file():
        advice = f"; pass {path.parent}" if (path.parent / "spec.json").is_file() else ""
        raise UsageError(f"{path}: expected a run folder. Received: a file{advice}.")
    if not path.is_dir():
        raise UsageError(f"{path}: expected a run folder; there is no such folder.")
    files = ("spec.json", "weights.npz", "labels.txt", "recipe.json", "split.json")
    missing = [name for name in files if not (path / name).is_file()]
    if (path / "model.tflite").is_file():
        raise UsageError(f"{path}: expected a run folder. Received: an exported bundle.")
    if missing:
        raise UsageError(f"{path} is not a complete run folder: {', '.join(missing)} missing.")
    spec = _files.read_json(path / "spec.json", format=FORMAT, schema=RunSpec)
    check_spec(spec, str(path / "spec.json"))
    # A later version may have other choices.
    fix = "use the version of keras_vit that wrote it, or train again"
    recipe = _files.read_json(path / "recipe.json", format=FORMAT, schema=RunRecipe, fix=fix)
    labels = read_labels(path / "labels.txt")
    if len(labels) != spec["num_classes"]:
        raise UsageError(
            f"{path}: expected {spec['num_classes']} labels, the num_classes of spec.json. "
            f"Received: {len(labels)} in labels.txt."
        )
    return Run(path, spec, labels, recipe)


def newest_run(folder: str | os.PathLike = "runs") -> Path:
    """The run in `folder` whose weights are the newest.

    Raises:
        UsageError: there is no run.
    """
    runs = list_runs(folder)
    if not runs:
        raise UsageError(f"no run under {Path(folder).resolve()}; train a model first.")
    return runs[-1]


def list_runs(folder: str | os.PathLike = "runs") -> list[Path]:
    """The runs in `folder`, the one with the newest weights last."""
    # A killed process may leave folders whose names start with a dot.
    weights = (spec.with_name("weights.npz") for spec in Path(folder).glob("[!.]*/spec.json"))
    runs = [path.parent for path in weights if path.is_file()]
    return sorted(runs, key=lambda run: (run / "weights.npz").stat().st_mtime_ns)
