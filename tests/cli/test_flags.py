"""Messages of the library name the flags of a command."""

from __future__ import annotations

import pytest

from keras_vit.cli import compare, export, fit
from keras_vit.cli._arguments import options_of, with_flags


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        (fit, "batch_size=0.", "--batch-size=0."),
        (fit, "seed must be small.", "--seed must be small."),
        (fit, "Received: jit=False and precision='x'.", "Received: --no-jit and --precision x."),
        (fit, "jit=False, was jit=True;", "--no-jit, was --jit;"),
        (fit, "remat=False, was remat=True;", "without --remat, was --remat;"),
        (fit, "leave out image_size.", "leave out --image-size."),
        (fit, "patch_size=4, model_name, my_seed=1", "patch_size=4, model_name, my_seed=1"),
        (fit, "the data and the model are gone", "the data and the model are gone"),
        (fit, "ViT_B16(weights='a')", "ViT_B16(weights='a')"),
        (fit, "a/batch_size/b: image_size.npz", "a/batch_size/b: image_size.npz"),
        (fit, "max_drop of another command", "max_drop of another command"),
        (fit, "use --batch-size", "use --batch-size"),
        (export, "pass representative_data, or", "pass --data, or"),
        (export, "representative_data is empty", "--data is empty"),
        (export, "min_runtime=2.14; max_drop", "--min-runtime=2.14; --max-drop"),
        (compare, "One of: depth, position_embedding.", "One of: depth, position_embedding."),
        (compare, "image_size? did you mean image_size?", "--image-size? did you mean image_size?"),
        (
            export,
            "choose one of a, b or raise min_runtime.",
            "choose one of a, b or raise --min-runtime.",
        ),
        (fit, "none (keras_vit.list_weights)", "none (an unknown name lists all)"),
    ],
)
def test_arguments_of_python_become_flags(command, message, expected):
    assert with_flags(message, command.Arguments) == expected


def test_the_help_of_export_begins_with_what_is_exported_and_how():
    names = [each.name for each in options_of(export.Arguments)]
    assert names.index("quantize") < names.index("images")
