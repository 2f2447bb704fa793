"""Engines: which devices compute the training steps, and which rows of a batch each of them.

The engines themselves are those of TensorFlow (`tf.distribute`) and of Keras on JAX
(`keras.distribution`). In both, the gradients of the replicas are summed first and then clipped
once, so a step equals that of one device with the whole batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from keras_vit._errors import LostProcessError, UsageError
from keras_vit._keras import LEGACY, backend, keras
from keras_vit.recipe import Recipe
from keras_vit.specs import Spec, ViTSpec
from keras_vit.training.devices import STRATEGIES, choose, environment, jax_processes, tf_workers

# Seconds without a sign of life after which a process of JAX counts as lost.
_HEARTBEAT = 20
# Seconds that the others wait at the end, while the chief evaluates and reports.
_SHUTDOWN = 3600
# Operations of a run on a CPU, about 30 seconds. XLA makes the steps of a ViT up to a quarter
# faster there, those of a ResNet not, and takes some seconds.
_WORTH_COMPILING = 3e12


@dataclasses.dataclass(frozen=True)
class Engine:
    """The devices of a run.

    Attributes:
        name: the strategy, a name in `STRATEGIES`, but never "auto".
        replicas: number of replicas of the model, over all processes.
        processes: number of processes.
        process: the number of this process, from 0. The first one is the chief, the only one that
            writes files.
        distribution: a `tf.distribute.Strategy`, a `keras.distribution.DataParallel`, or None.
    """

    name: str = "one"
    replicas: int = 1
    processes: int = 1
    process: int = 0
    distribution: Any = None

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run folder."""
        return self.process == 0

    @property
    def can_jit(self) -> bool:
        """Whether Keras may compile the whole step by XLA; TPUStrategy does so by itself."""
        return self.name in ("one", "jax")

    def gains_by_jit(self, spec: Spec, flops: int) -> bool:
        """Whether XLA saves more time than its compilation takes.

        Args:
            spec: the spec of the model.
            flops: the operations of the whole training.
        """
        if not self.can_jit:
            return False
        if backend() == "jax":
            return True
        import tensorflow as tf

        if tf.config.list_logical_devices("GPU"):
            return True
        return isinstance(spec, ViTSpec) and flops > _WORTH_COMPILING

    def scope(self) -> contextlib.AbstractContextManager:
        """The context in which the model, its optimiser and its metrics are built and used."""
        return contextlib.nullcontext() if self.distribution is None else self.distribution.scope()

    def check_batch(self, batch_size: int, accumulate: int | None = None) -> None:
        """Raises a `UsageError` if the replicas, or the parts of each, do not divide a batch."""
        if batch_size % self.replicas:
            below = batch_size - batch_size % self.replicas
            nearest = [str(size) for size in (below, below + self.replicas) if size]
            raise UsageError(
                f"the {self.replicas} replicas must divide the batch. Received: "
                f"batch_size={batch_size}; the nearest that they divide: {' and '.join(nearest)}."
            )
        images = batch_size // self.replicas
        if accumulate is not None and images % accumulate:
            raise UsageError(
                f"accumulate must divide the batch of each of the {self.replicas} replicas, "
                f"{images}. Received: accumulate={accumulate}."
            )

    def check_model(self, model: Any) -> None:
        """Raises a `UsageError` if a model was not built in the scope of this engine."""
        if self.distribution is None:
            return
        if self.name == "jax":
            built_here = len(model.variables[0].value.sharding.device_set) == self.replicas
        else:
            built_here = model.distribute_strategy is self.distribution
        if not built_here:
            raise UsageError(
                f"strategy={self.name!r} needs a model that was built in its scope; pass the name "
                "of a model, or an engine: engine = open_engine(...); with engine.scope(): ..."
            )

    def distribute(self, batches: Any) -> Any:
        """A dataset for Keras' fit and evaluate.

        Args:
            batches: a `tf.data.Dataset` of this process' rows of each global batch, all of one
                size that its replicas divide.
        """
        if self.distribution is None or self.name == "jax":
            return batches
        count = self.replicas // self.processes
        parts = batches.map(lambda *batch: tuple(_split(x, count) for x in batch)).unbatch()
        return self.distribution.distribute_datasets_from_function(lambda context: parts)

    def rows(self, batch_size: int) -> slice:
        """This process' rows of a global batch."""
        size = batch_size // self.processes
        return slice(self.process * size, (self.process + 1) * size)

    def barrier(self) -> None:
        """Waits until all processes are here."""
        if self.processes == 1:
            return
        if self.name == "jax":
            from jax.experimental import multihost_utils

            multihost_utils.sync_global_devices("keras_vit")
            return
        import tensorflow as tf

        def add():
            return tf.distribute.get_replica_context().all_reduce("sum", tf.ones(()))

        self.distribution.run(tf.function(add))


def open_engine(
    strategy: str = "one",
    *,
    tpu: str | None = None,
    logical_devices: int = 1,
    recipe: Recipe | None = None,
) -> Engine:
    """Starts the devices of a strategy. Call it before anything is computed.

    Args:
        strategy: "one" device; "mirrored", all GPUs of this machine; "multiworker", the machines
            in TF_CONFIG; "tpu"; "jax", all devices that JAX has, also those of several processes;
            "auto", see `devices.choose`.
        tpu: the name of a TPU, for TensorFlow's resolver; "local" on a TPU VM.
        logical_devices: the number of devices that the CPU is split into, to try a strategy.
        recipe: the settings of the run, if they are known: some need Keras 3.

    Raises:
        UsageError: the strategy cannot train the recipe, it needs another flavour or backend of
            Keras than is imported, or TensorFlow or JAX has started already.
    """
    strategy = choose(strategy, tpu=tpu, logical_devices=logical_devices, recipe=recipe)
    _check_flavour(strategy)
    if strategy == "one":
        return Engine()
    if strategy == "jax":
        return _jax(logical_devices)
    if strategy == "tpu":
        return _tpu(tpu)
    return _multiworker() if strategy == "multiworker" else _mirrored(logical_devices)


@contextlib.contextmanager
def naming_lost_processes(engine: Engine) -> Iterator[None]:
    """A context that turns the errors of a collective without its other processes into one line.

    Raises:
        LostProcessError: another process ended.
    """
    try:
        yield
    except Exception as error:
        if engine.processes == 1 or not _is_lost(error):
            raise
        raise LostProcessError(
            f"another of the {engine.processes} processes of this run ended; look for its "
            "error, then start all of them again with resume=True, or from the start if there is "
            "no checkpoint."
        ) from error


def _is_lost(error: Exception) -> bool:
    """Whether an error of TensorFlow or JAX is about the other processes."""
    text = str(error).lower()
    words = ("collective", "gloo", "nccl", "heartbeat", "coordination", "connection", "peer")
    return not isinstance(error, UsageError) and any(word in text for word in words)


def _check_flavour(strategy: str) -> None:
    """Raises a `UsageError` if the strategy is wrong, or fails, on the Keras that is imported."""
    needed = STRATEGIES[strategy]
    if needed and needed != ("tf_keras" if LEGACY else backend()):
        variables = " ".join(f"{name}={value}" for name, value in environment(strategy).items())
        raise UsageError(
            f"strategy={strategy!r} runs on {needed}. Received: "
            f"{'tf_keras' if LEGACY else f'Keras 3 on {backend()}'}; set {variables} before Keras "
            "is imported."
        )


def _mirrored(logical_devices: int) -> Engine:
    import tensorflow as tf

    gpus = [] if logical_devices > 1 else tf.config.list_logical_devices("GPU")
    devices = gpus or _cpus(logical_devices)
    # The default collective fails on parts of one CPU.
    reduction = None if gpus else tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices], reduction)
    return Engine("mirrored", strategy.num_replicas_in_sync, distribution=strategy)


def _multiworker() -> Engine:
    import tensorflow as tf

    if tf_workers() == 1:
        raise UsageError(
            "strategy='multiworker' needs TF_CONFIG with the addresses of at least two workers."
        )
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    process = resolver.task_id + (
        resolver.task_type == "worker" and "chief" in resolver.cluster_spec().jobs
    )
    replicas = strategy.num_replicas_in_sync
    return Engine("multiworker", replicas, tf_workers(), process, strategy)


def _tpu(name: str | None) -> Engine:
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(tpu=name or "local")
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        reason = str(error).partition(". ")[0]
        raise UsageError(f"no TPU answers to tpu={name or 'local'!r}: {reason}.") from None
    strategy = tf.distribute.TPUStrategy(resolver)
    return Engine("tpu", strategy.num_replicas_in_sync, distribution=strategy)


def _jax(logical_devices: int) -> Engine:
    import jax
    import tensorflow as tf

    if logical_devices > 1:
        # A device that waits for the others keeps a thread of XLA, and the others need some too.
        os.environ.setdefault("PJRT_NPROC", str(4 * logical_devices))
        try:
            jax.config.update("jax_num_cpu_devices", logical_devices)
            jax.config.update("jax_platforms", "cpu")
        except RuntimeError:
            raise _started("JAX") from None
    with contextlib.suppress(RuntimeError):  # TensorFlow has started; it only reads images
        tf.config.set_visible_devices([], "GPU")
    if jax_processes():
        # All processes must start the programs that wait for each other in the same order.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        _initialize_jax(jax)
    distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
    return Engine("jax", jax.device_count(), jax.process_count(), jax.process_index(), distribution)


def _initialize_jax(jax: Any) -> None:
    """Connects the processes, as `keras.distribution.initialize` does, but with a heartbeat."""
    addresses = os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").split(",")
    numbers = {}
    for argument in ("num_processes", "process_id"):
        name = f"KERAS_DISTRIBUTION_{argument.upper()}"
        if (text := os.environ.get(name)) is not None:
            try:
                numbers[argument] = int(text)
            except ValueError:
                message = f"{name} must be an integer. Received: {name}={text}."
                raise UsageError(message) from None
    if len(addresses) > 1:
        numbers.setdefault("num_processes", len(addresses))
    try:
        jax.distributed.initialize(
            addresses[0] or None,
            heartbeat_timeout_seconds=_HEARTBEAT,
            shutdown_timeout_seconds=_SHUTDOWN,
            **numbers,
        )
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"the processes of strategy='jax' cannot be connected: {str(error).splitlines()[0]}"
        ) from None


def _cpus(count: int) -> list[Any]:
    """The devices that the CPU is split into."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("CPU")
    if count > 1:
        parts = [tf.config.LogicalDeviceConfiguration()] * count
        try:
            tf.config.set_logical_device_configuration(physical[0], parts)
        except RuntimeError:
            raise _started("TensorFlow") from None
    return tf.config.list_logical_devices("CPU")


def _started(library: str) -> UsageError:
    return UsageError(
        f"{library} has started already; call open_engine, or train with logical_devices, before "
        "anything is computed."
    )


def _split(x: Any, count: int) -> Any:
    import tensorflow as tf

    return tf.reshape(x, (count, x.shape[0] // count, *x.shape[1:]))  # (count, b / count, ...)
