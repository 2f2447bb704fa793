"""Which strategy fits the devices, and what must be set before Keras is imported.

This module imports no Keras, so that a command can still choose the flavour and the backend.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

from keras_vit._errors import UsageError, did_you_mean
from keras_vit.recipe import Recipe

# What each strategy runs on: "tf_keras", "jax", or any Keras (""). Keras 3 under MirroredStrategy
# clips the gradient of each replica before they are summed, so the step is not that of the batch;
# under MultiWorkerMirroredStrategy and TPUStrategy its `fit` fails (keras issues 20585, 19448).
STRATEGIES: dict[str, str] = {
    "auto": "",
    "one": "",
    "mirrored": "tf_keras",
    "multiworker": "tf_keras",
    "tpu": "tf_keras",
    "jax": "jax",
}
_OPTIMIZERS = ("adamw", "sgd", "lion")  # those of tf_keras
_VARIABLES = {
    "": {},
    "tf_keras": {"TF_USE_LEGACY_KERAS": "1"},
    "jax": {"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "0"},
}


def choose(
    strategy: str, *, tpu: str | None = None, logical_devices: int = 1, recipe: Recipe | None = None
) -> str:
    """The strategy that "auto" stands for here; any other name is returned as it is.

    It is "tpu" if a TPU is named, "multiworker" if TF_CONFIG lists several workers, "jax" if
    KERAS_BACKEND says so or JAX's processes are named, "mirrored" with several devices, else "one".
    For a recipe that tf_keras cannot train it is, instead of "mirrored", "jax" where JAX has these
    devices, else "one".

    Args:
        strategy: a name in `STRATEGIES`.
        tpu: the name of a TPU.
        logical_devices: the number of parts that the CPU is split into.
        recipe: the settings of the run; None if they are not known.

    Raises:
        UsageError: there is no such strategy, the other arguments are for another one, or it runs
            on tf_keras, which cannot train the recipe.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy={strategy!r}; {did_you_mean(strategy, STRATEGIES)}")
    if strategy == "auto":
        strategy = _fitting(tpu, logical_devices, recipe)
    if tpu is not None and strategy != "tpu":
        raise UsageError(f"tpu={tpu!r} is for strategy='tpu'. Received: strategy={strategy!r}.")
    if logical_devices > 1 and strategy not in ("mirrored", "jax"):
        raise UsageError(
            f"logical_devices={logical_devices} is for strategy='mirrored' or strategy='jax'. "
            f"Received: strategy={strategy!r}."
        )
    setting = keras_3_setting(recipe)
    if setting and STRATEGIES[strategy] == "tf_keras":
        raise UsageError(
            f"{setting.partition('=')[0]} needs Keras 3; choose strategy='jax' or strategy='one'. "
            f"Received: {setting}, and strategy={strategy!r}, which runs on tf_keras."
        )
    return strategy


def keras_3_setting(recipe: Recipe | None) -> str:
    """The first setting of a recipe that needs Keras 3, such as "lora=4"; "" if none does."""
    if recipe is None:
        return ""
    name = recipe.set_of("keras 3")
    if not name and recipe.optimizer not in _OPTIMIZERS:
        name = "optimizer"
    return f"{name}={getattr(recipe, name)!r}" if name else ""


def environment(strategy: str) -> dict[str, str]:
    """The variables that must be set before the first import of Keras, for a chosen strategy."""
    return dict(_VARIABLES[STRATEGIES[strategy]])


def tf_workers() -> int:
    """The number of workers in TF_CONFIG; 1 if it is not set.

    Raises:
        UsageError: TF_CONFIG is not what TensorFlow expects.
    """
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
        return sum(len(cluster.get(job, ())) for job in ("chief", "worker")) or 1
    except (ValueError, AttributeError, TypeError):
        raise UsageError(
            'TF_CONFIG must be JSON such as {"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {os.environ["TF_CONFIG"]}.'
        ) from None


def jax_processes(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment says that several processes train together with JAX.

    KERAS_DISTRIBUTION_JOB_ADDRESSES is Keras' own variable, JAX_COORDINATOR_ADDRESS is JAX's; the
    others are those of Slurm, Open MPI and Cloud TPU, which JAX understands.
    """
    named = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "JAX_COORDINATOR_ADDRESS")
    tasks = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    return (
        any(environ.get(name) for name in named)
        or any(environ.get(name, "1") != "1" for name in tasks)
        or "," in environ.get("TPU_WORKER_HOSTNAMES", "")
    )


def _fitting(tpu: str | None, logical_devices: int, recipe: Recipe | None) -> str:
    if tpu is not None:
        return "tpu"
    if tf_workers() > 1:
        return "multiworker"
    on_jax = os.environ.get("KERAS_BACKEND") == "jax"
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    several = logical_devices > 1 or _gpus() > 1
    if on_jax and not legacy:
        return "jax" if several or jax_processes() else "one"
    if several and keras_3_setting(recipe) and not legacy:
        return "jax" if logical_devices > 1 or _jax_has_gpus() else "one"
    return "mirrored" if several else "one"


def _jax_has_gpus() -> bool:
    """Whether JAX is installed with its plugin for NVIDIA GPUs; without it, it runs on the CPU."""
    return any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins"))


def _gpus() -> int:
    """The number of NVIDIA GPUs that this process may use, without the seconds of a library."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
