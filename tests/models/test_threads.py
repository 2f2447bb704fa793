"""Several threads build models at the same time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import keras_vit
from keras_vit.models import image_model

pytestmark = pytest.mark.flavours

# Each thread waits for the others where Keras is about to change the base classes.
FIRST_MODELS = """
import contextlib, sys, threading
from concurrent.futures import ThreadPoolExecutor
sys.setswitchinterval(1e-6)
import keras_vit
from keras_vit.models import image_model
from keras_vit.training.learner import Learner

barrier, layer_name = threading.Barrier(8), image_model.layer_name

def waiting(name):
    with contextlib.suppress(threading.BrokenBarrierError):
        barrier.wait(1)
    return layer_name(name)

def build(i):
    model = keras_vit.ViT(SPEC, 3, (16, 16))
    return model.count_params() + model.intermediates("logits").count_params()

image_model.layer_name = waiting
SPEC = keras_vit.ViTSpec(patch_size=8, hidden_dim=8, depth=1, num_heads=1, mlp_dim=8)
with ThreadPoolExecutor(8) as pool:
    assert len(set(pool.map(build, range(8)))) == 1
"""


@pytest.mark.slow
def test_the_first_models_of_a_process_may_be_built_by_several_threads():
    result = subprocess.run([sys.executable, "-c", FIRST_MODELS], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_each_thread_gets_the_dtype_that_it_asked_for(small_spec, monkeypatch):
    barrier, layer_name = threading.Barrier(4), image_model.layer_name

    def waiting(name):
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.2)
        return layer_name(name)

    def blocks(dtype):
        model = keras_vit.ViT(small_spec, 3, (16, 16), dtype=dtype)
        return model.get_layer("encoderblock_1").compute_dtype

    monkeypatch.setattr(image_model, "layer_name", waiting)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(blocks, ["mixed_bfloat16", None, "mixed_float16", None]))
    assert found == ["bfloat16", "float32", "float16", "float32"]
