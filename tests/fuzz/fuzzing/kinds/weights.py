"""Files of weights, and the JSON beside them."""

import functools
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save

import keras_vit
from fuzzing.kind import Files, Kind, one_file
from fuzzing.kinds._reading import each_of, known_model, small_model
from fuzzing.mutations import arrays, text
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


def _read(file: Path) -> None:
    """Inspects the file, loads it into a model, and builds the model that it describes."""
    with open_checkpoint(file) as checkpoint:
        each_of(*(functools.partial(getattr, checkpoint, field) for field in _FIELDS))
    each_of(
        lambda: keras_vit.load_weights(known_model(), file, head="reset"),
        lambda: keras_vit.model_from_weights(file),
    )


def _saved(home: Path, suffix: str, **options: Any) -> list[Files]:
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


def _fixture(name: str, to: str) -> Files:
    """A file of the reference implementations, under the name `to`, with its config."""
    files = {to: (_FIXTURES / name).read_bytes()}
    config = _FIXTURES / f"{name.split('.')[0]}.config.json"
    return files | ({"config.json": config.read_bytes()} if config.exists() else {})


def _npz(home: Path) -> list[Files]:
    """The official layout, with and without metadata, and files of Keras and PyTorch."""
    names = ("vit_token_linen", "hybrid_stem")
    linen = [_fixture(f"{name}.weights.npz", "w.npz") for name in names]
    keras = arrays.archived([("config.json", b"{}"), ("metadata.json", b"{}")])
    foreign = [{"w.npz": content} for content in (keras, b"\x89HDF\r\n", b"\x80\x02}q\0.")]
    return [*_saved(home, ".npz"), *linen, *foreign]


NPZ = Kind(
    # An archive may unpack to eight times its size and 128 MiB, for heads of zeros. Such an array
    # is there as the file's, the model's and the one that is checked.
    512 << 20,
    _npz,
    one_file({".npz": arrays.npz}),
    lambda folder, home: _read(next(folder.glob("*.npz"), folder / "model.npz")),
)


def _safetensors(home: Path) -> list[Files]:
    """Files as timm and transformers write them, and one whose names have a prefix."""
    to = "model.safetensors"
    timm, transformers = (
        _saved(home, ".safetensors", layout=layout) for layout in ("timm", "transformers")
    )
    names = ("timm_token", "timm_map", "hf_classifier", "hf_base")
    fixtures = [_fixture(f"{name}.safetensors", to) for name in names]
    prefixed = {f"a.b.{name}": array for name, array in load(fixtures[0][to]).items()}
    return [*timm, *transformers, *fixtures, fixtures[0] | {to: save(prefixed)}]


SAFETENSORS = Kind(
    64 << 20,  # what TensorFlow takes for the models that are built
    _safetensors,
    one_file({".safetensors": arrays.safetensors}),
    lambda folder, home: _read(folder),
)
HUB = SAFETENSORS._replace(
    mutate=one_file({".json": text.json_value}),  # config.json and preprocessor_config.json
    read=lambda folder, home: each_of(
        lambda: _read(folder),
        lambda: keras_vit.save_weights(known_model(), folder / "model.safetensors"),  # may it?
    ),
)
