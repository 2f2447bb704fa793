"""The same source on Keras' jax backend, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import keras_vit

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
try:
    keras_vit.export_tflite(model, "never.tflite")
except keras_vit.UsageError as error:
    message = str(error)
np.savez(sys.argv[3], logits=logits, attention=attention, losses=losses, message=message)
"""


def test_jax_gives_the_same_logits_attention_and_losses(small_spec, randomised, rng, tmp_path):
    from keras_vit._keras import keras

    model = randomised(keras_vit.ViT(small_spec, 5, (16, 24)))
    keras_vit.save_weights(model, tmp_path / "weights.npz")
    images = rng.normal(size=(8, 16, 24, 3)).astype(np.float32)
    targets = rng.integers(0, 5, 8)
    np.savez(tmp_path / "data.npz", images=images, targets=targets)
    paths = [tmp_path / n for n in ("weights.npz", "data.npz", "out.npz", "model.keras")]
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *map(str, paths)],
        env={**environment, "KERAS_BACKEND": "jax"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
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
    assert "needs Keras on TensorFlow. Received: KERAS_BACKEND=jax" in str(found["message"])
    assert not (tmp_path / "never.tflite").exists()
