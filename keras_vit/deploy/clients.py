"""The table of clients, with what each needs of a file.

It imports nothing heavy, so that commands can use it for their help texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from keras_vit._checks import Interpolation
from keras_vit._errors import UsageError, did_you_mean, shown
from keras_vit.deploy.precisions import Precision

if TYPE_CHECKING:
    from keras_vit.specs import Preprocessing


@dataclasses.dataclass(frozen=True)
class Client:
    """A program that runs a file by itself, if the file's input and output are not int8 or int16.

    It normalises R, G and B alike: a file of another model takes pixels and normalises them itself.

    Attributes:
        name: the value of the argument `client`.
        title: its name in messages.
        output: the output that it needs.
        interpolation: its own resize, of the whole image.
        longest_side: of a picture that it can resize.
        module: the Python package that runs files as it does.
        install: the command that installs it.
        runner: a script in `keras_vit/tflite`: python RUNNER model.tflite FOLDER. The pictures are
            in the folder; `tflite/client_process.py` says how, and what it prints.
    """

    name: str
    title: str
    output: str
    interpolation: Interpolation
    longest_side: int
    module: str
    install: str
    runner: str

    @property
    def program(self) -> Path:
        """The path of the runner."""
        return Path(__file__).parents[1] / "tflite" / self.runner


_ROWS = (
    Client(
        "mediapipe",
        "MediaPipe's ImageClassifier",
        output="probabilities",
        interpolation="mediapipe",
        longest_side=32_766,  # its process ends with longer ones
        module="mediapipe",
        install="pip install mediapipe",
        runner="mediapipe_runner.py",
    ),
)
# By the value of `client`.
CLIENTS: dict[str, Client] = {row.name: row for row in _ROWS}


def client_of(name: str | None) -> Client | None:
    """The client with that name; None means no client.

    Raises:
        UsageError: there is none.
    """
    if name is None:
        return None
    if name not in CLIENTS:
        raise UsageError(f"unknown client={shown(name)}; {did_you_mean(str(name), CLIENTS)}")
    return CLIENTS[name]


def check_for(client: Client | None, output: str | None, precisions: Iterable[Precision]) -> None:
    """Raises a `UsageError` if a client cannot use an output (None for its own) or a precision."""
    if client is None:
        return
    if output not in (None, client.output):
        raise UsageError(
            f"{client.title} needs output={client.output!r}. Received: output={output!r}; leave "
            "it out."
        )
    for precision in precisions:
        if precision.kind("INPUT").startswith("static"):
            raise UsageError(
                f"{client.title} runs no files with {precision.name} input and output. Received: "
                f"quantize={precision.quantize!r}; choose int8, whose input and output are floats."
            )


def input_for(client: Client | None, input: str | None, preprocessing: Preprocessing | None) -> str:
    """The input of a file: as given, or as a client needs it.

    Args:
        client: the client; None for none.
        input: "float32", "uint8", or None for what the client needs, otherwise "float32".
        preprocessing: the model's; None if it has none.

    Raises:
        UsageError: the client does not normalise so.
    """
    normalisation = (preprocessing.mean, preprocessing.scale) if preprocessing else ()
    per_channel = any(isinstance(each, tuple) and len(set(each)) > 1 for each in normalisation)
    pixels = client is not None and per_channel
    if pixels and input == "float32":
        raise UsageError(
            f"{client.title} normalises R, G and B alike, and this model does not. Received: "
            "input='float32'; use 'uint8', so that the file does it."
        )
    return input or ("uint8" if pixels else "float32")
