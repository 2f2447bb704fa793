"""The table of clients, with what each needs of a file.

It imports nothing heavy, so that commands can use it for their help texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from keras_vit._checks import Interpolation
from keras_vit._errors import UsageError, did_you_mean, shown
from keras_vit.deploy.precisions import Precision

if TYPE_CHECKING:
    from keras_vit.specs import Preprocessing

_MOST_MASK_CLASSES = 255  # of MediaPipe's masks, which are uint8


@dataclasses.dataclass(frozen=True)
class ClientTask:
    """How a client runs the files of models for one task.

    Attributes:
        title: its name in messages.
        output: the output that it needs.
        runner: a script in `keras_vit/tflite`: python RUNNER model.tflite FOLDER. The pictures are
            in the folder; `tflite/client_process.py` says how, and what it answers.
        shortest_side: of a picture that it can use.
        classes: the fewest and the most classes that it can use; None for any number.
    """

    title: str
    output: str
    runner: str
    shortest_side: int = 1
    classes: tuple[int, int] | None = None

    @property
    def program(self) -> Path:
        """The path of the runner."""
        return Path(__file__).parents[1] / "tflite" / self.runner


@dataclasses.dataclass(frozen=True)
class Client:
    """A program that runs a file by itself, if the file's input and output are not int8 or int16.

    It normalises R, G and B alike: a file of another model takes pixels and normalises them itself.

    Attributes:
        name: the value of the argument `client`.
        title: its name in messages.
        tasks: how it runs files, by the task of their model.
        interpolation: its own resize, of the whole image.
        longest_side: of a picture that it can resize.
        module: the Python package that runs files as it does.
        install: the command that installs it.
    """

    name: str
    title: str
    tasks: Mapping[str, ClientTask]
    interpolation: Interpolation
    longest_side: int
    module: str
    install: str


_ROWS = (
    Client(
        "mediapipe",
        "MediaPipe",
        tasks={
            "classification": ClientTask(
                "MediaPipe's ImageClassifier", "probabilities", "mediapipe_runner.py"
            ),
            "segmentation": ClientTask(
                "MediaPipe's ImageSegmenter",
                "scores",
                "mediapipe_segmenter_runner.py",
                shortest_side=2,  # it divides by the side - 1
                classes=(2, _MOST_MASK_CLASSES),  # one score is a mask without classes to it
            ),
        },
        interpolation="mediapipe",
        longest_side=32_766,  # its process ends with longer ones
        module="mediapipe",
        install="pip install mediapipe",
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
    known = {task.output: f"{task.output!r} for {name}" for name, task in client.tasks.items()}
    if output not in (None, *known):
        raise _wrong_output(client.title, known.values(), output)
    for precision in precisions:
        if precision.kind("INPUT").startswith("static"):
            raise UsageError(
                f"{client.title} runs no files with {precision.name} input and output. Received: "
                f"quantize={precision.quantize!r}; choose int8, whose input and output are floats."
            )


def _wrong_output(title: str, known: Iterable[str], output: str) -> UsageError:
    """The error of an output that a client cannot use."""
    why = ", whose width it would take for the number of classes" if output == "class_map" else ""
    return UsageError(
        f"{title} needs output={' or '.join(known)}. Received: output={output!r}{why}; "
        "leave it out."
    )


def output_for(client: Client, output: str | None, task: str) -> str:
    """The output of a file for a client: the one that it needs of models for a task.

    Args:
        client: the client.
        output: as given; None for what the client needs.
        task: that of the model.

    Raises:
        UsageError: another output is given, or the client runs no models for this task.
    """
    found = task_of(client, task)
    if output not in (None, found.output):
        raise _wrong_output(found.title, [repr(found.output)], output)
    return found.output


def task_of(client: Client, task: str) -> ClientTask:
    """How a client runs models for a task.

    Raises:
        UsageError: it does not.
    """
    if task not in client.tasks:
        raise UsageError(
            f"{client.title} runs models for {' or '.join(client.tasks)}. Received: a model for "
            f"{task}; leave out client."
        )
    return client.tasks[task]


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
