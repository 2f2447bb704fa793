"""Reading a file of weights in all ways, and files in all layouts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras_vit
from fuzzing.kind import Files
from fuzzing.kinds._reading import each_of, small_model
from keras_vit.weights import open_checkpoint

_FIXTURES = Path(__file__).parents[3] / "fixtures"
_FIELDS = (
    "dialect", "num_classes", "labels", "parameters", "head_state", "spec", "variant", "image_size",
    "grid", "preprocessing", "stated", "stated_grid",
)  # fmt: skip
_SPECS = (
    {}, {"pooling": "gap", "position_embedding": "sincos2d"}, {"pooling": "map"},
    {"position_embedding": "relative", "pooling": "gap"}, {"representation_dim": 4},
    {"stem": keras_vit.ResNetStem((1,), 0.5), "patch_size": 1, "pooling": "distilled"},
)  # fmt: skip


def read(file: Path) -> None:
    """Inspects the file, loads it into a model, and builds the model that it describes."""
    with open_checkpoint(file) as checkpoint:
        each_of(*(functools.partial(getattr, checkpoint, field) for field in _FIELDS))
    each_of(
        lambda: keras_vit.load_weights(_known(), file, head="reset"),
        lambda: keras_vit.model_from_weights(file),
    )


def saved(home: Path, suffix: str, **options: Any) -> list[Files]:
    """A file for each kind of small model, as `save_weights` writes it, with what is beside it."""
    inputs = []
    for i, spec in enumerate(_SPECS):
        folder = home / f"{i}{options}"
        try:
            keras_vit.save_weights(small_model(**spec), folder / f"model{suffix}", **options)
        except keras_vit.UsageError:  # the layout does not have it
            continue
        inputs.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    return inputs


def fixtures(*names: str, to: str) -> list[Files]:
    """Files of the reference implementations, under the name `to`, with their config."""
    inputs = []
    for name in names:
        files = {to: (_FIXTURES / name).read_bytes()}
        config = _FIXTURES / f"{name.split('.')[0]}.config.json"
        if config.exists():
            files["config.json"] = config.read_bytes()
        inputs.append(files)
    return inputs


@functools.cache
def _known() -> Any:
    return small_model()
