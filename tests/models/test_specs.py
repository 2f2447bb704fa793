"""Specs: invalid fields are refused, and valid ones round-trip."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re

import numpy as np
import pytest

from keras_vit import Preprocessing, ResNetSpec, ResNetStem, UsageError, ViT, ViTSpec
from keras_vit.parts.poolings import POOLINGS
from keras_vit.parts.positions import POSITION_EMBEDDINGS
from keras_vit.specs import as_size, spec_from_dict


@pytest.mark.parametrize(
    ("change", "message"),
    [
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
        ({"gelu": "relu"}, "gelu must be one of tanh, erf"),
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
        (
            {"pooling": "distilled", "position_embedding": "relative"},
            "'relative' has no entries for a distillation token. Received: pooling='distilled'",
        ),
    ],
)
def test_spec_refuses(change, message):
    fields = {"patch_size": 16, "hidden_dim": 768, "depth": 12, "num_heads": 12, "mlp_dim": 3072}
    with pytest.raises(UsageError, match=message):
        ViTSpec(**{**fields, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 0}, "height must be a positive integer"),
        ({"height": 10**6}, "height must be at most 65,536"),
        ({"height": 60_000, "width": 60_000}, "at most 67,108,864 pixels. Received: 60000 x 60000"),
        ({"crop": 1.5}, r"crop must be None or lie in \(0, 1\]"),
        ({"interpolation": "area"}, "interpolation must be nearest, bilinear, bicubic or med"),
        ({"interpolation": "mediapipe", "crop": 0.875}, "resizes the whole image.*crop=0.875"),
        ({"scale": 0}, "scale must be positive"),
        ({"channels": 4}, "channels must be 3 for RGB or 1 for grey.*channels=4"),
        ({"channels": 1, "mean": (1, 2, 3)}, "mean must be a number for one channel"),
    ],
)
def test_preprocessing_refuses(change, message):
    with pytest.raises(UsageError, match=message):
        Preprocessing(**{"height": 32, "width": 32, **change})


def test_specs_round_trip_through_json(small_spec):
    for spec in (
        dataclasses.replace(small_spec, representation_dim=20, pooling="map"),
        dataclasses.replace(small_spec, pooling="distilled"),
        dataclasses.replace(small_spec, stem=ResNetStem()),
        dataclasses.replace(small_spec, stem=ResNetStem((3, 4, 9), width=2)),
        ResNetStem((2, 2)),
        ResNetSpec((3, 4, 6, 3), width=3),
        Preprocessing(32, 48, crop=0.875),
        Preprocessing(32, 48, channels=1),
        dataclasses.replace(small_spec, in_channels=13),
        ResNetSpec((1, 1), in_channels=1),
    ):
        again = type(spec).from_dict(json.loads(json.dumps(spec.to_dict())))
        assert again == spec
        assert hash(again) == hash(spec)


def test_a_spec_is_restored_as_its_own_class(small_spec):
    for spec in (small_spec, ResNetSpec((1, 1, 1, 1))):
        assert spec_from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize("field", ["stem", "in_channels"])
def test_specs_written_before_there_was_a_field_still_load(small_spec, field):
    fields = small_spec.to_dict()
    del fields[field]
    assert ViTSpec.from_dict(fields) == small_spec


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ResNetStem(3), "stages must be a tuple of integers. Received: stages=3"),
        (lambda: ResNetStem((3, 0)), "stages must be a positive integer. Received: stages=0"),
        (lambda: ResNetStem((10**9,)), "stages must be at most 256"),
        (lambda: ResNetStem((100, 100, 100)), "stages must have at most 256 units"),
        (lambda: ResNetStem((1,) * 9), "at most 8 stages and 262,144 channels"),
        (lambda: ResNetStem((1,), width=1e30), "at most 8 stages and 262,144 channels"),
        (lambda: ResNetSpec((10**5, 1)), "layers must be at most 256"),
        (lambda: ResNetSpec((1, 1), width=1000), "width must be at most 64"),
        (lambda: ResNetStem(width=0.25), "a multiple of 32. Received: width=0.25, which makes 16"),
        (lambda: ResNetStem(width=-1), "a multiple of 32"),
        (lambda: ResNetStem(width="1"), "width must be a number"),
        (lambda: ResNetSpec((1, 1, 1, 1), width=1.5), "width must be a positive integer"),
        (lambda: ResNetSpec(()), r"layers must be one to four numbers. Received: layers=\(\)"),
        (lambda: ResNetSpec((3, 4, 6, "3")), "layers must be a positive integer"),
        (lambda: ResNetSpec.from_dict({"width": 1}), r"missing fields \['layers'\]"),
        (lambda: ResNetStem.from_dict({"depth": 1}), r"unknown fields \['depth'\]"),
    ],
)
def test_resnets_refuse(build, message):
    with pytest.raises(UsageError, match=message):
        build()


@pytest.mark.parametrize(
    ("stages", "stride", "channels"),
    [((), 4, 64), ((2,), 4, 256), ((3, 4, 9), 16, 1024), ((2, 2, 2, 2), 32, 2048)],
)
def test_stride_and_channels_of_stems(stages, stride, channels):
    stem = ResNetStem(stages)
    assert (stem.stride, stem.channels) == (stride, channels)
    assert ResNetStem(stages, width=2).channels == 2 * channels
    assert ResNetStem(stages, width=0.5).channels == channels // 2


def test_a_fractional_width_is_rounded_to_its_channels():
    assert ResNetStem(width=1.51) == ResNetStem(width=1.5)
    assert ResNetStem(width=1.51).root_channels == 96
    assert json.dumps(ResNetStem(width=1.0).to_dict()) == '{"stages": [], "width": 1}'


def test_numpy_numbers_become_plain_ones(small_spec):
    fields = {
        "patch_size": np.int64(8),
        "hidden_dim": np.float32(48),
        "depth": 2.0,
        "num_heads": np.uint8(3),
        "mlp_dim": np.int32(112),
        "dropout": np.float64(0.5),
        "layer_norm_eps": np.float64(1e-6),
    }
    spec = ViTSpec(**fields, stem=ResNetStem((np.int64(1),), width=np.float32(0.5)))
    plain = dataclasses.replace(small_spec, dropout=0.5, stem=ResNetStem((1,), width=0.5))
    assert spec == plain
    assert json.dumps(spec.to_dict()) == json.dumps(plain.to_dict())
    preprocessing = Preprocessing(
        np.int64(8), np.int64(16), np.float64(0.5), mean=(np.float64(1),) * 3
    )
    assert json.dumps(preprocessing.to_dict()) == json.dumps(
        Preprocessing(8, 16, 0.5, mean=(1.0,) * 3).to_dict()
    )
    assert as_size(np.int32(8)) == as_size(np.array([8, 8])) == (8, 8)
    assert {type(side) for side in as_size((np.int64(8), 9.0))} == {int}


SIZES = [
    32.5,
    0,
    True,
    None,
    "32",
    b"32",
    (32,),
    (32, 32, 3),
    {32, 64},
    (32, None),
    np.ones((2, 2)),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_other_sizes_are_refused(size):
    with pytest.raises(UsageError, match=r"integer, or \(height, width\)\. Received: image_size="):
        as_size(size)


def test_image_sizes_may_be_arrays():
    assert as_size(np.array(32)) == as_size(iter([32, 32])) == (32, 32)


@pytest.mark.flavours
@pytest.mark.parametrize(
    ("kind", "values", "keyword", "message"),
    [
        (
            ViTSpec,
            (16, 768, 12, 12),
            "mlp_dimm",
            "mlp_dimm'. Did you mean mlp_dim? Fields: patch_s",
        ),
        (ResNetStem, ((3, 4),), "widht", "widht'. Did you mean width? Fields: stages, width."),
        (
            ResNetSpec,
            (),
            "layer",
            "layer'. Did you mean layers? Fields: layers, width, in_channels.",
        ),
        (Preprocessing, (8, 8), "colour", "colour'. Fields: height, width, crop, interpolation, "),
    ],
)
def test_unknown_keywords_are_named(kind, values, keyword, message):
    with pytest.raises(UsageError, match=re.escape(f"{kind.__name__} has no field '{message}")):
        kind(*values, **{keyword: 1})
    assert list(inspect.signature(kind).parameters) == [f.name for f in dataclasses.fields(kind)]


@pytest.mark.parametrize("labels", ["abc", {"a", "b", "c"}, {"a": 0, "b": 1, "c": 2}, [0, 1, 2], 3])
def test_labels_are_a_sequence_of_strings(small_spec, labels):
    with pytest.raises(UsageError, match="labels must be a sequence of strings"):
        ViT(small_spec, 3, 16, labels=labels)
    assert ViT(small_spec, 3, 16, labels=np.array(["a", "b", "c"])).labels == ("a", "b", "c")


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


def test_unknown_and_missing_fields_are_named(small_spec):
    fields = small_spec.to_dict()
    del fields["depth"]
    with pytest.raises(UsageError, match=r"unknown fields \['root'\], missing fields \['depth'\]"):
        ViTSpec.from_dict({**fields, "root": None})


@pytest.mark.parametrize(
    ("changes", "num_classes", "image_size", "message"),
    [
        (
            {"hidden_dim": 65_536, "num_heads": 4, "mlp_dim": 262_144},
            10,
            16,
            "at most 30,000,000,000 parameters",
        ),
        ({"hidden_dim": 65_536, "num_heads": 1}, 10**6, 16, "at most 30,000,000,000 parameters"),
        (
            {},
            10**7,
            16,
            "num_classes must be 0 .* at most 1,000,000. Received: num_classes=10000000",
        ),
        ({"patch_size": 1}, 10, 8_192, "at most 65,536 patches. Received: 8192 x 8192"),
    ],
)
def test_a_model_of_values_that_multiply_is_refused_before_it_is_built(
    small_spec, changes, num_classes, image_size, message
):
    spec = dataclasses.replace(small_spec, **changes)
    with pytest.raises(UsageError, match=message):
        ViT(spec, num_classes, image_size)
