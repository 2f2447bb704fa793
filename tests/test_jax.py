"""The same source on Keras' jax backend, in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import keras_vit
from keras_vit.deploy import Runner
from keras_vit.models.variants import model_class
from keras_vit.specs import PositionEmbedding, ResNetSpec, ResNetStem, ViTSpec

pytestmark = pytest.mark.once

_REFERENCES = {
    "hybrid_stem": (ViTSpec(4, 48, 2, 3, 96, stem=ResNetStem()), "gn_root"),
    "hybrid_stages": (ViTSpec(2, 48, 2, 3, 96, stem=ResNetStem((2, 1))), "block2_unit1"),
    "bit": (ResNetSpec((2, 1, 1, 1)), "block4_unit1"),
}
_SEVERAL = """
import json, sys
import keras
import numpy as np
from keras_vit import load_weights
from keras_vit.models.variants import model_class
from keras_vit.specs import spec_from_dict

assert keras.backend.backend() == "jax"
for case in json.load(open(sys.argv[1])):
    spec = spec_from_dict(case["spec"])
    images = np.load(case["images"])["images"]
    model = model_class(spec)(spec, case["num_classes"], images.shape[1:3])
    load_weights(model, case["weights"])
    inner = model.inner("logits", *case["inner"]).predict(images, verbose=0)
    np.savez(case["out"], **inner)
"""
_PROGRAM = """
import sys
import keras
import numpy as np
import keras_vit

assert keras.backend.backend() == "jax"
spec = keras_vit.ViTSpec(patch_size=8, hidden_dim=48, depth=2, num_heads=3, mlp_dim=112)
model = keras_vit.ViT(spec, 5, (16, 24))
keras_vit.load_weights(model, sys.argv[1])
data = np.load(sys.argv[2])
logits = model.predict(data["images"], verbose=0)
attention = model.inner("attention_1")(data["images"])["attention_1"]
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
losses = model.fit(
    data["images"], data["targets"], epochs=3, batch_size=8, shuffle=False, verbose=0
).history["loss"]
model.save(sys.argv[4])
again = keras.models.load_model(sys.argv[4]).predict(data["images"], verbose=0)
assert np.array_equal(again, model.predict(data["images"], verbose=0))
verdict = keras_vit.export_tflite(model, sys.argv[5], representative_data=data["images"])
assert verdict.rewritten
headless = keras_vit.ViT(spec, 0, (16, 24))
try:
    followed = keras.Sequential([keras.Input((16, 24, 3)), headless, keras.layers.Dense(5)])
    keras_vit.export_tflite(followed, "never.tflite")
except keras_vit.UsageError as error:
    message = str(error)
np.savez(
    sys.argv[3], logits=logits, attention=attention, losses=losses, trained=again, message=message
)
"""


def test_jax_gives_the_same_logits_attention_losses_and_file(small_spec, randomised, rng, tmp_path):
    from keras_vit._keras import keras

    model = randomised(keras_vit.ViT(small_spec, 5, (16, 24)))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    images = rng.normal(size=(8, 16, 24, 3)).astype(np.float32)
    targets = rng.integers(0, 5, 8)
    np.savez(tmp_path / "data.npz", images=images, targets=targets)
    names = ("weights.npz", "data.npz", "out.npz", "model.keras", "model.tflite")
    paths = [tmp_path / name for name in names]
    _run_under_jax(tmp_path, _PROGRAM, *paths)
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(found["logits"], model.predict(images, verbose=0), atol=2e-5)
    attention = np.asarray(model.inner("attention_1")(images)["attention_1"])
    np.testing.assert_allclose(found["attention"], attention, atol=1e-5)
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    history = model.fit(images, targets, epochs=3, batch_size=8, shuffle=False, verbose=0).history
    np.testing.assert_allclose(found["losses"], history["loss"], rtol=1e-4)
    exported = Runner(tmp_path / "model.tflite").predict(images)
    np.testing.assert_allclose(exported, found["trained"], atol=2e-5)
    assert "only a keras_vit model itself is exported. Received: KERAS_BACKEND=jax" in str(
        found["message"]
    )
    assert not (tmp_path / "never.tflite").exists()


@pytest.fixture
def cases(tmp_path, fixtures, seeded_weights, small_spec, randomised, rng):
    """Models by name, as the program takes them: the references, and each kind of positions."""
    cases = {}
    for name, (spec, inner) in _REFERENCES.items():
        images = fixtures / f"{name}.io.npz"
        expected = np.load(images)
        num_classes = expected["logits"].shape[1]
        weights = fixtures / f"{name}.weights.npz"
        if not weights.exists():
            weights = seeded_weights(spec, num_classes, expected["images"].shape[1:3])
        cases[name] = (spec, num_classes, weights, images, [inner])
    images = tmp_path / "images.npz"
    np.savez(images, images=rng.normal(size=(2, 16, 24, 3)).astype(np.float32))
    for kind in get_args(PositionEmbedding):
        spec = dataclasses.replace(small_spec, position_embedding=kind)
        weights = tmp_path / f"{kind}.npz"
        keras_vit.save_weights(randomised(keras_vit.ViT(spec, 5, (16, 24))), weights)
        cases[kind] = (spec, 5, weights, images, ["embedded", "attention_1"])
    return cases


def test_jax_equals_the_references_and_tensorflow(cases, fixtures, tmp_path):
    listed = [
        {
            "spec": spec.to_dict(),
            "num_classes": num_classes,
            "weights": str(weights),
            "images": str(images),
            "inner": inner,
            "out": str(tmp_path / f"{name}.out.npz"),
        }
        for name, (spec, num_classes, weights, images, inner) in cases.items()
    ]
    (tmp_path / "cases.json").write_text(json.dumps(listed))
    _run_under_jax(tmp_path, _SEVERAL, tmp_path / "cases.json")
    for name, (spec, num_classes, weights, images, inner) in cases.items():
        found, data = np.load(tmp_path / f"{name}.out.npz"), np.load(images)
        model = model_class(spec)(spec, num_classes, data["images"].shape[1:3])
        keras_vit.load_weights(model, weights)
        here = model.inner("logits", *inner)(data["images"])
        expected = {"logits": data["logits"]} if name in _REFERENCES else {}
        for key, value in {**here, **expected}.items():
            # BiT's residual stream is not normalised: its values reach 80.
            atol = 2e-5 if key == "logits" else max(2e-5, 5e-6 * np.abs(value).max())
            np.testing.assert_allclose(
                found[key], np.asarray(value), atol=atol, rtol=0, err_msg=f"{name}: {key}"
            )


def test_jax_reads_every_layout_to_the_references_outputs(tmp_path):
    # The program whose figures the README gives.
    program = Path(__file__).parents[1] / "benchmarks" / "parity.py"
    header, _, _, *rows = _run_under_jax(tmp_path, program).splitlines()
    assert header == "Keras on jax"
    assert len(rows) == 14
    for row in rows:
        name, *_, logits, encoded = row.split()
        assert logits == "-" or float(logits) <= 2e-5, row
        # BiT's final norm divides what reaches 80 by as little as its epsilon lets it.
        assert encoded == "-" or float(encoded) <= (1e-4 if name == "bit" else 5e-5), row


def _run_under_jax(folder, program: str | Path, *arguments) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    code = [program] if isinstance(program, Path) else ["-c", program]
    result = subprocess.run(
        [sys.executable, *code, *map(str, arguments)],
        # Small models once: compiling them well takes longer than running them.
        env={**environment, "KERAS_BACKEND": "jax", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
