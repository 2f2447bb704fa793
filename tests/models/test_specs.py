"""Specs: what is refused, and what round-trips."""

from __future__ import annotations

import dataclasses
import json

import pytest

from keras_vit import Preprocessing, UsageError, ViTSpec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "num_heads=5 does not divide hidden_dim=768; choose 4, 6, 8 or 12."),
        ({"depth": 0}, "depth must be a positive integer. Received: depth=0."),
        ({"depth": True}, "depth must be a positive integer"),
        ({"patch_size": 16.0}, "patch_size must be a positive integer"),
        ({"pooling": "mean"}, "pooling must be one of token, gap, map, none. Received: .*'mean'"),
        ({"gelu": "relu"}, "gelu must be one of tanh, erf"),
        ({"position_embedding": "1d"}, "position_embedding must be one of learned, none"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\). Received: dropout=1.0"),
        ({"drop_path": -0.1}, r"drop_path must lie in \[0, 1\)"),
        ({"dropout": "a lot"}, "dropout must be a number"),
        ({"layer_norm_eps": 0}, "layer_norm_eps must be positive"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be a number"),
        ({"representation_dim": 0}, "representation_dim must be a positive integer"),
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
        ({"crop": 1.5}, r"crop must be None or lie in \(0, 1\]"),
        ({"interpolation": "area"}, "interpolation must be nearest, bilinear or bicubic"),
        ({"scale": 0}, "scale must be positive"),
    ],
)
def test_preprocessing_refuses(change, message):
    with pytest.raises(UsageError, match=message):
        Preprocessing(**{"height": 32, "width": 32, **change})


def test_specs_round_trip_through_json(small_spec):
    for spec in (
        dataclasses.replace(small_spec, representation_dim=20, pooling="map"),
        Preprocessing(32, 48, crop=0.875),
    ):
        assert type(spec).from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_unknown_and_missing_fields_are_named(small_spec):
    fields = small_spec.to_dict()
    del fields["depth"]
    with pytest.raises(UsageError, match=r"unknown fields \['stem'\], missing fields \['depth'\]"):
        ViTSpec.from_dict({**fields, "stem": None})
