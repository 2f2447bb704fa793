"""The options of an export, checked before a model is opened or a picture is read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_vit import _checks
from keras_vit._errors import UsageError
from keras_vit.deploy.clients import Client, check_for, client_of, input_for, output_for
from keras_vit.deploy.graph.graph_options import GraphOptions, outputs_of
from keras_vit.deploy.judge.gpu import GpuChoice, check_gpu_choice
from keras_vit.deploy.precisions import PRECISIONS, Precision, precision_of
from keras_vit.specs import Preprocessing
from keras_vit.tflite.runtimes import check_version

# Images that measure ranges. For 8, 16, 32, 64 and 128 of them the error of int8 on digits is
# 0.026, 0.019, 0.018, 0.017, 0.017 (mean of three draws).
CALIBRATED = 32
_MOST_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The keywords of `export_tflite` and `export_bundles`, which explain them.

    Raises:
        UsageError: an option is unknown or out of range, contradicts another one, or there is no
            Vulkan device for gpu="yes".
    """

    quantize: str | Iterable[str | None] | None
    max_images: int
    input: str | None = None
    output: str | None = None
    normalize: bool = False
    output_stride: int | None = None
    float_layers: Iterable[str] = ()
    max_drop: float | None = None
    min_runtime: str | None = None
    recipe: str | os.PathLike | None = None
    rewrite: bool = True
    gpu: GpuChoice = "no"
    client: str | None = None
    batch: int = 1
    calibrate: int = CALIBRATED
    labels: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None
    relabel: str | os.PathLike | None = None
    say: Callable[[str], None] = lambda line: None

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> ExportOptions:
        """The options among the arguments of a function, as its `locals()` are at the beginning."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in arguments.items() if name in names})

    def __post_init__(self):
        one = self.quantize is None or isinstance(self.quantize, str)
        object.__setattr__(self, "quantize", (self.quantize,) if one else tuple(self.quantize))
        object.__setattr__(self, "float_layers", tuple(self.float_layers))
        precisions = self.precisions
        batch = _checks.positive_integer("batch", self.batch, _MOST_BATCH)
        if batch > 1 and (self.client or self.gpu != "no"):
            raise UsageError(f"a client or a GPU takes batch=1. Received: batch={batch}.")
        check_gpu_choice(self.gpu)
        _checks.positive_integer("max_images", self.max_images)
        _checks.positive_integer("calibrate", self.calibrate)
        if self.max_drop is not None:
            _checks.not_negative("max_drop", self.max_drop)
        if self.min_runtime is not None:
            check_version(self.min_runtime)
        for precision in precisions if self.float_layers else ():
            if not precision.rules:
                raise UsageError("float_layers are for quantised files. Received: quantize='none'.")
            if precision.base:
                raise UsageError(
                    f"{precision.quantize} chooses the float layers; leave out float_layers."
                )
        if self.recipe is not None and not any(precision.base for precision in precisions):
            choosing = " or ".join(name for name, row in PRECISIONS.items() if row.base)
            names = ", ".join(precision.quantize for precision in precisions)
            raise UsageError(
                f"recipe can only be used with quantize={choosing!r}. Received: quantize={names!r}."
            )
        if self.recipe is not None and self.relabel is not None:
            raise UsageError(
                "recipe is for a conversion; the files that relabel changes have theirs."
            )
        check_for(self.wanted_client, self.output, precisions)

    @property
    def precisions(self) -> list[Precision]:
        """The precisions of the files, each once."""
        return list(dict.fromkeys(precision_of(name) for name in self.quantize))

    @property
    def wanted_client(self) -> Client | None:
        """The program that will run the files."""
        return client_of(self.client)

    @property
    def calibrates(self) -> bool:
        """Whether there are files that are not in float, for which images measure ranges."""
        return not all(precision.is_float for precision in self.precisions)

    @property
    def chooses(self) -> bool:
        """Whether layers that stay in float are searched for."""
        return self.recipe is None and any(precision.base for precision in self.precisions)

    def graph(self, model: Any) -> GraphOptions:
        """The input and the output of the files: as given, or as the client needs them."""
        client = self.wanted_client
        if client:
            output = output_for(client, self.output, model.task)
        else:
            output = self.output or outputs_of(model)[0]
        preprocessing = self.preprocessing or getattr(model, "preprocessing", None)
        input = input_for(client, self.input, preprocessing)
        options = {"normalize": self.normalize, "output_stride": self.output_stride}
        return GraphOptions(input, output, self.batch, **options)
