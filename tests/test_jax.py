"""The library on Keras' jax backend, in a separate process."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

import keras_vit
from keras_vit.deploy import Runner

_KINDS = ("learned", "learned2d", "relative")  # the others add nothing that JAX computes
_INTERMEDIATES = ("logits", "embedded", "attention_1")
_PROGRAM = """
import sys
import keras
import numpy as np
import pytest
import keras_vit

assert keras.backend.backend() == "jax"
names, *kinds = (names.split(",") for names in sys.argv[1:])
data = np.load("data.npz")
for (kind,) in kinds:
    model = keras_vit.model_from_weights(kind + ".npz")
    np.savez(kind + ".out.npz", **model.intermediates(*names).predict(data["images"], verbose=0))

model = keras_vit.model_from_weights("learned.npz")
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
options = {"epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0}
losses = model.fit(data["images"], data["targets"], **options).history["loss"]
model.save("model.keras")
again = keras.models.load_model("model.keras").predict(data["images"], verbose=0)
assert np.array_equal(again, model.predict(data["images"], verbose=0))
verdict = keras_vit.export_tflite(model, "model.tflite", representative_data=data["images"] / 8)
assert verdict.rewritten
np.savez("out.npz", losses=losses, trained=again)
headless = keras_vit.ViT(model.spec, 0, (16, 24))
followed = keras.Sequential([keras.Input((16, 24, 3)), headless, keras.layers.Dense(5)])
refusal = "keras_vit model itself is exported. Received: KERAS_BACKEND=jax"
with pytest.raises(keras_vit.UsageError, match=refusal):
    keras_vit.export_tflite(followed, "never.tflite")
"""


@pytest.fixture
def jax(python, tmp_path):
    """Runs Python on Keras' jax backend."""
    # Small models run only once, so optimising them takes longer than running them.
    backend = {"KERAS_BACKEND": "jax", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return functools.partial(python, cwd=tmp_path, **backend)


@pytest.mark.slow
def test_jax_gives_the_same_logits_attention_losses_and_file(
    jax, small_spec, randomised, rng, tmp_path
):
    from keras_vit._keras import keras

    models = {}
    for kind in _KINDS:
        spec = dataclasses.replace(small_spec, position_embedding=kind)
        models[kind] = randomised(keras_vit.ViT(spec, 5, (16, 24)))
        keras_vit.save_weights(models[kind], tmp_path / f"{kind}.npz")
    images = rng.normal(size=(8, 16, 24, 3)).astype(np.float32)
    targets = rng.integers(0, 5, 8)
    np.savez(tmp_path / "data.npz", images=images, targets=targets)
    jax("-c", _PROGRAM, ",".join(_INTERMEDIATES), *_KINDS)
    for kind, model in models.items():
        actual = np.load(tmp_path / f"{kind}.out.npz")
        for name, expected in model.intermediates(*_INTERMEDIATES)(images).items():
            error = np.abs(actual[name] - np.asarray(expected)).max()
            assert error <= 2e-5, (kind, name)
    model, actual = models["learned"], np.load(tmp_path / "out.npz")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
    history = model.fit(images, targets, epochs=3, batch_size=8, shuffle=False, verbose=0).history
    np.testing.assert_allclose(actual["losses"], history["loss"], rtol=1e-4)
    exported = Runner(tmp_path / "model.tflite").predict(images)
    np.testing.assert_allclose(exported, actual["trained"], atol=2e-5)
    assert not (tmp_path / "never.tflite").exists()


@pytest.mark.slow
def test_jax_reads_every_layout_to_the_references_outputs(jax):
    # The program whose figures docs/weights.md gives.
    program = Path(__file__).parents[1] / "benchmarks" / "parity.py"
    header, _, _, *rows = jax(program).stdout.splitlines()
    assert header == "Keras on jax"
    assert len(rows) == 15
    for row in rows:
        name, *_, logits, encoded = row.split()
        assert logits == "-" or float(logits) <= 2e-5, row
        # BiT's final norm divides values of up to 80 by very small deviations.
        assert encoded == "-" or float(encoded) <= (1e-4 if name == "bit" else 5e-5), row
