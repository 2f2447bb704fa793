"""Several threads build models at the same time."""

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import keras_vit
from keras_vit.models import image_model

pytestmark = pytest.mark.flavours


def built_together(build, arguments, seconds):
    """Builds in threads that wait for each other where Keras is about to change base classes."""
    barrier, layer_name = threading.Barrier(len(arguments)), image_model.layer_name

    def waiting(name):
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(seconds)
        return layer_name(name)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(arguments)) as pool:
        patch.setattr(image_model, "layer_name", waiting)
        return list(pool.map(build, arguments))


def build_first_models():
    sys.setswitchinterval(1e-6)
    from keras_vit.training import learner  # noqa: F401, which has another model

    def build(name):
        model = keras_vit.ViT(keras_vit.ViTSpec(8, 8, 1, 1, 8), 3, 16, name=name)
        return model.count_params() + model.intermediates("logits").count_params()

    assert len(set(built_together(build, "abcdefgh", 1))) == 1


@pytest.mark.slow
def test_the_first_models_of_a_process_may_be_built_by_several_threads():
    program = f"import runpy; runpy.run_path({__file__!r})['build_first_models']()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_each_thread_gets_the_dtype_that_it_asked_for(small_spec):
    def block(dtype):
        model = keras_vit.ViT(small_spec, 3, (16, 16), dtype=dtype)
        return model.get_layer("encoderblock_1").compute_dtype

    found = built_together(block, ["mixed_bfloat16", None, "mixed_float16", None], 0.2)
    assert found == ["bfloat16", "float32", "float16", "float32"]
