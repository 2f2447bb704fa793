"""Specs: invalid fields are refused, and valid ones round-trip."""

import dataclasses
import inspect
import json
import re

import numpy as np
import pytest

from keras_vit import Preprocessing, ResNetSpec, ResNetStem, UsageError, ViTSpec, layers
from keras_vit.encoder.poolings import POOLINGS
from keras_vit.encoder.positions import POSITION_EMBEDDINGS
from keras_vit.specs import as_size, spec_from_dict

VIT = {"patch_size": 16, "hidden_dim": 768, "depth": 12, "num_heads": 12, "mlp_dim": 3072}
REFUSED_BY_VIT = [
    ({"num_heads": 5}, "num_heads=5 does not divide hidden_dim=768; choose 4, 6, 8 or 12."),
    ({"depth": 0}, "depth must be a positive integer. Received: depth=0."),
    ({"depth": True}, "depth must be a positive integer"),
    ({"depth": 100_000}, "depth must be at most 256. Received: depth=100000."),
    ({"patch_size": 10**9}, "patch_size must be at most 65,536"),
    ({"hidden_dim": 10**9}, "hidden_dim must be at most 262,144"),
    ({"mlp_dim": 10**5000}, "mlp_dim must be at most 262,144. Received: .* 16,610 bits"),
    ({"num_heads": 10**9}, "num_heads must be at most 262,144"),
    ({"patch_size": 16.5}, "patch_size must be a positive integer"),
    ({"patch_size": np.bool_(True)}, "patch_size must be a positive integer"),
    ({"pooling": "mean"}, f"pooling must be one of {', '.join(POOLINGS)}. Received: .*'mean'"),
    (
        {"norm_after_pooling": True},
        "is for pooling='gap' and 'token_gap'. Received: pooling='token'",
    ),
    ({"qk_norm": "no"}, "qk_norm must be True or False. Received: qk_norm='no'"),
    (
        {"rotation": "dinov3", "hidden_dim": 36, "num_heads": 6},
        "'dinov3' needs heads whose width is a multiple of 4. Received: .* = 6",
    ),
    ({"rotation": "2d"}, "rotation must be one of dinov3, eva02, none. Received: rotation='2d'"),
    ({"registers": -1}, "registers must be a positive integer. Received: registers=-1"),
    (
        {"registers": 4, "position_embedding": "relative"},
        "no further learned tokens. .*registers=4",
    ),
    ({"resampling": "area"}, "resampling must be one of bilinear, bicubic, "),
    ({"activation": "relu"}, "activation must be one of tanh, erf"),
    (
        {"position_embedding": "1d"},
        f"must be one of {', '.join(POSITION_EMBEDDINGS)}. Received: .*'1d'",
    ),
    (
        {"position_embedding": "learned2d", "hidden_dim": 15, "num_heads": 3},
        "'learned2d' needs a hidden_dim that is a multiple of 2. Received: hidden_dim=15",
    ),
    (
        {"position_embedding": "sincos2d", "hidden_dim": 18, "num_heads": 3},
        "'sincos2d' needs a hidden_dim that is a multiple of 4. Received: hidden_dim=18",
    ),
    ({"stem": (3, 4, 9)}, r"stem must be a ResNetStem or None. Received: stem=\(3, 4, 9\)"),
    ({"dropout": 1.0}, r"dropout must lie in \[0, 1\). Received: dropout=1.0"),
    ({"drop_path": -0.1}, r"drop_path must lie in \[0, 1\)"),
    ({"dropout": "a lot"}, "dropout must be a number"),
    ({"layer_norm_eps": 0}, "layer_norm_eps must be positive"),
    ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be a number"),
    ({"representation_dim": 0}, "representation_dim must be a positive integer"),
    (
        {"pooling": "distilled", "representation_dim": 8},
        "'distilled' has two classifiers and no representation .*representation_dim=8",
    ),
    ({"projection_dim": 8.5}, "projection_dim must be a positive integer"),
    (
        {"representation_dim": 8, "projection_dim": 9},
        "Received: representation_dim=8 and projection_dim=9; leave one of them out",
    ),
    ({"pooling": "distilled", "projection_dim": 9}, "two classifiers.*Received: projection_dim=9"),
    (
        {"pooling": "distilled", "normalized_features": True},
        "classifiers.*normalized_features=True",
    ),
    ({"normalized_features": "no"}, "normalized_features must be True or False"),
    ({"head_activation": "tanh"}, "head_activation.*softmax.*sigmoid.*Received: .*'tanh'"),
    ({"patch_bias": None}, "patch_bias must be True or False. Received: patch_bias=None"),
    (
        {"pooling": "distilled", "position_embedding": "relative"},
        "'relative' has entries for a class token and no further .* Received: pooling='distilled'",
    ),
]
PICTURE = {"height": 32, "width": 32}
REFUSED_BY_PREPROCESSING = [
    ({"height": 0}, "height must be a positive integer"),
    ({"height": 10**6}, "height must be at most 65,536"),
    ({"height": 60_000, "width": 60_000}, "at most 67,108,864 pixels. Received: 60000 x 60000"),
    ({"crop": 1.5}, r"crop must be None or lie in \(0, 1\]"),
    ({"interpolation": "area"}, "interpolation must be nearest, bilinear, bicubic or med"),
    ({"interpolation": "mediapipe", "crop": 0.875}, "resizes the whole image.*crop=0.875"),
    ({"scale": 0}, "scale must be positive"),
    ({"channels": 4}, "channels must be 3 for RGB or 1 for grey.*channels=4"),
    ({"channels": 1, "mean": (1, 2, 3)}, "mean must be a number for one channel"),
]
REFUSED_BY_STEM = [
    ({"stages": 3}, "stages must be a tuple of integers. Received: stages=3"),
    ({"stages": (3, 0)}, "stages must be a positive integer. Received: stages=0"),
    ({"stages": (10**9,)}, "stages must be at most 256"),
    ({"stages": (100, 100, 100)}, "stages must have at most 256 units"),
    ({"stages": (1,) * 9}, "at most 8 stages and 262,144 channels"),
    ({"stages": (1,), "width": 1e30}, "at most 8 stages and 262,144 channels"),
    ({"width": 0.25}, "a multiple of 32. Received: width=0.25, which makes 16"),
    ({"width": -1}, "a multiple of 32"),
    ({"width": "1"}, "width must be a number"),
]
REFUSED_BY_RESNET = [
    ({"layers": (10**5, 1)}, "layers must be at most 256"),
    ({"layers": (1, 1), "width": 1000}, "width must be at most 64"),
    ({"layers": (1, 1, 1, 1), "width": 1.5}, "width must be a positive integer"),
    ({"layers": ()}, r"layers must be one to four numbers. Received: layers=\(\)"),
    ({"layers": (3, 4, 6, "3")}, "layers must be a positive integer"),
]
REFUSED = [
    *((ViTSpec, VIT | change, message) for change, message in REFUSED_BY_VIT),
    *((Preprocessing, PICTURE | change, text) for change, text in REFUSED_BY_PREPROCESSING),
    *((ResNetStem, fields, message) for fields, message in REFUSED_BY_STEM),
    *((ResNetSpec, fields, message) for fields, message in REFUSED_BY_RESNET),
]


@pytest.mark.parametrize(("kind", "fields", "message"), REFUSED)
def test_invalid_fields_are_refused(kind, fields, message):
    with pytest.raises(UsageError, match=message):
        kind(**fields)


def test_specs_round_trip_through_json(small_spec):
    for spec in (
        dataclasses.replace(small_spec, representation_dim=20, pooling="map", in_channels=13),
        dataclasses.replace(small_spec, pooling="distilled"),
        dataclasses.replace(small_spec, stem=ResNetStem((3, 4, 9), width=2)),
        ResNetStem((2, 2)),
        ResNetSpec((3, 4, 6, 3), width=3, in_channels=1),
        Preprocessing(32, 48, crop=0.875),
        Preprocessing(32, 48, channels=1),
    ):
        fields = json.loads(json.dumps(spec.to_dict()))
        again = type(spec).from_dict(fields)
        assert again == spec
        assert hash(again) == hash(spec)
        if isinstance(spec, (ViTSpec, ResNetSpec)):
            assert spec_from_dict(fields) == spec  # knows the class


def test_a_spec_and_a_layer_of_older_files_are_read(small_spec):
    fields = small_spec.to_dict() | {"gelu": "erf"}
    del fields["activation"]
    assert ViTSpec.from_dict(fields) == dataclasses.replace(small_spec, activation="erf")
    config = layers.MLP(8).get_config() | {"gelu": "erf"}
    del config["activation"]
    assert layers.MLP.from_config(config).activation == "erf"


def test_a_dict_may_lack_newer_fields_but_no_others_and_has_no_unknown_ones(small_spec):
    fields = small_spec.to_dict()
    del fields["stem"], fields["in_channels"]
    assert ViTSpec.from_dict(fields) == small_spec
    del fields["depth"]
    with pytest.raises(UsageError, match=r"unknown fields \['root'\], missing fields \['depth'\]"):
        ViTSpec.from_dict({**fields, "root": None})
    with pytest.raises(UsageError, match=r"missing fields \['layers'\]"):
        ResNetSpec.from_dict({"width": 1})
    with pytest.raises(UsageError, match=r"unknown fields \['depth'\]"):
        ResNetStem.from_dict({"depth": 1})


@pytest.mark.parametrize(
    ("stages", "stride", "channels"),
    [((), 4, 64), ((2,), 4, 256), ((3, 4, 9), 16, 1024), ((2, 2, 2, 2), 32, 2048)],
)
def test_stride_and_channels_of_stems(stages, stride, channels):
    stem = ResNetStem(stages)
    assert (stem.stride, stem.channels) == (stride, channels)
    assert ResNetStem(stages, width=2).channels == 2 * channels
    assert ResNetStem(stages, width=0.5).channels == channels // 2
    assert ResNetStem(stages, width=1.51) == ResNetStem(stages, width=1.5)


def test_numpy_numbers_become_plain_ones(small_spec):
    sizes = np.int64(8), np.float32(48), 2.0, np.uint8(3), np.int32(112)
    rates = {"dropout": np.float64(0.5), "layer_norm_eps": np.float64(1e-6)}
    stem = ResNetStem((np.int64(1),), width=np.float32(0.5))
    spec = ViTSpec(*sizes, **rates, stem=stem)
    plain = dataclasses.replace(small_spec, dropout=0.5, stem=ResNetStem((1,), width=0.5))
    assert spec == plain
    assert json.dumps(spec.to_dict()) == json.dumps(plain.to_dict())
    mean = (np.float64(1),) * 3
    preprocessing = Preprocessing(np.int64(8), np.int64(16), np.float64(0.5), mean=mean)
    plain = Preprocessing(8, 16, 0.5, mean=(1.0,) * 3)
    assert json.dumps(preprocessing.to_dict()) == json.dumps(plain.to_dict())
    assert json.dumps(ResNetStem(width=1.0).to_dict()) == '{"stages": [], "width": 1}'


def test_image_sizes_may_be_numpy_numbers_arrays_and_iterators():
    for size in (np.int32(8), np.array(8), np.array([8, 8]), iter([8, 8])):
        assert as_size(size) == (8, 8)
    assert {type(side) for side in as_size((np.int64(8), 9.0))} == {int}


@pytest.mark.parametrize(
    "size",
    [32.5, 0, True, None, "32", b"32", (32,), (32, 32, 3), {32, 64}, (32, None), np.ones((2, 2))],
    ids=str,
)
def test_other_sizes_are_refused(size):
    with pytest.raises(UsageError, match=r"integer, or \(height, width\)\. Received: image_size="):
        as_size(size)


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("kind", "keyword", "advice"),
    [
        (ViTSpec, "mlp_dimm", " Did you mean mlp_dim? Fields: patch_s"),
        (ResNetStem, "widht", " Did you mean width? Fields: stages, width."),
        (ResNetSpec, "layer", " Did you mean layers? Fields: layers, width, in_channels."),
        (Preprocessing, "colour", " Fields: height, width, crop, interpolation, "),
    ],
)
def test_unknown_keywords_are_named(kind, keyword, advice):
    message = re.escape(f"{kind.__name__} has no field '{keyword}'.{advice}")
    with pytest.raises(UsageError, match=message):
        kind(**{keyword: 1})
    assert list(inspect.signature(kind).parameters) == [f.name for f in dataclasses.fields(kind)]


def test_grid_counts_the_stems_stride(small_spec):
    spec = dataclasses.replace(small_spec, patch_size=2, stem=ResNetStem((1, 1)))
    assert spec.stride == 16
    assert spec.grid((32, 64)) == (2, 4)
    # The stem has 5 x 9 positions; those that do not fill a patch are cut off.
    assert spec.grid((40, 70)) == (2, 4)
    assert spec.grid(9) == (1, 1)
    message = r"at least 9 \(patch_size=2, stem 8\). Received: 8 x 32"
    with pytest.raises(UsageError, match=message):
        spec.grid((8, 32))
