"""The loop over the training steps, and the evaluations on held-out images."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import data, runs
from keras_vit._errors import RefusedError
from keras_vit._interrupts import Terminated, deferred_interrupts
from keras_vit._keras import backend, keras
from keras_vit.data.reading import naming_unreadable
from keras_vit.training.callbacks import Evaluation, Hooks, Reporter, RunWriter, Steps
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.plan import Plan
from keras_vit.training.prepared import Prepared


@dataclasses.dataclass(frozen=True)
class Loop:
    """The steps of a run, their evaluations, and what they write.

    Attributes:
        ready: the run, prepared.
        out: the run folder.
        checkpoints: its checkpoints.
        hooks: what is called.
    """

    ready: Prepared
    out: Path
    checkpoints: Checkpoints
    hooks: Hooks

    @functools.cached_property
    def epochs(self) -> list[dict[str, Any]]:
        """The metrics of the epochs before the first step, of a run that goes on."""
        run = self.ready.begun.run
        metrics = run.metrics() if run else []
        return [record for record in metrics if record["step"] <= self.ready.plan.first_step]

    def run(self, extra: list[Any]) -> None:
        """Makes the steps. If they are stopped, the state of the last complete one is saved.

        Args:
            extra: Keras callbacks after those that evaluate.
        """
        ready, steps, stuck = self.ready, self._steps(), self.hooks.stuck
        writer = RunWriter(
            self.out, ready.begun.model, steps, self.checkpoints.seconds, ready.plan.batch_size,
            len(self.epochs),
        )  # fmt: skip
        writer.set_model(ready.learner)  # a signal may come before Keras does it
        evaluation = Evaluation(lambda: held_out.evaluate())

        def tell() -> None:
            # JAX takes the weights out of the variables while it evaluates.
            if evaluation.is_steady and backend() == "tensorflow":
                self.hooks.saving(steps.done)
                self.checkpoints.save(steps.done)
            stuck(_saved(self.out, self.checkpoints, ready.plan))

        with deferred_interrupts(stuck and tell, terminate=True) as check:

            def after_step() -> None:
                check()
                if not self._ends_period(steps.done):
                    self.checkpoints.maybe_save(steps.done)

            each = keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: after_step(),
                on_test_batch_end=lambda batch, logs: check(),
            )
            reporter = Reporter(ready.plan, steps, self.hooks.report)
            held_out = HeldOut(ready, [each, reporter])
            # What is resumed at the end of an epoch has its metrics and weights already.
            last = keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: self.checkpoints.maybe_save(steps.done)
            )
            callbacks = [steps, each, evaluation, *extra, reporter, writer, last]
            try:
                self._fit_and_save(callbacks, steps, writer)
            except RefusedError as error:
                raise RefusedError(f"{error} {self._kept()}") from None
            self.checkpoints.end(steps.done)

    def follow(self) -> None:
        """Makes the steps in a process that writes nothing.

        After a signal it goes on until the chief, which saves the state, has stopped.
        """
        with deferred_interrupts(terminate=True) as check:
            try:
                self._fit([self._steps(), Evaluation(HeldOut(self.ready, []).evaluate)])
            except Exception:
                check()
                raise

    def _fit_and_save(self, callbacks: list[Any], steps: Steps, writer: RunWriter) -> None:
        try:
            self._fit(callbacks)
        except (KeyboardInterrupt, Terminated) as stop:
            self.hooks.saving(steps.done)
            self.checkpoints.save(steps.done)  # a second Ctrl-C ends it
            writer.save()
            raise type(stop) from None  # `saying_what_is_saved` says it
        except BaseException:
            self.checkpoints.wait()
            raise
        self.checkpoints.wait()

    def _fit(self, callbacks: list[Any]) -> None:
        ready, plan = self.ready, self.ready.plan
        stopped = "training stopped after the last saved epoch: "
        with naming_unreadable(ready.begun.source, stopped), _releasing_the_input():
            if self._was_stopped_before_its_evaluation():
                self._end_epoch(callbacks)
            for first, last in _spans(plan):
                ready.learner.fit(
                    ready.batches(plan.steps - first, first),
                    initial_epoch=first // plan.period,
                    epochs=-(-last // plan.period),
                    steps_per_epoch=min(plan.period, last - first),
                    callbacks=callbacks,
                    verbose=0,
                    shuffle=False,
                )

    def _steps(self) -> Steps:
        return Steps(self.ready.plan.first_step, self.ready.plan.steps)

    def _ends_period(self, step: int) -> bool:
        return step % self.ready.plan.period == 0 or step == self.ready.plan.steps

    def _was_stopped_before_its_evaluation(self) -> bool:
        """Whether a resumed training has made the last step of an epoch, but no metrics of it."""
        first = self.ready.plan.first_step
        evaluated = any(record["step"] == first for record in self.epochs)
        return first > 0 and self._ends_period(first) and not evaluated

    def _end_epoch(self, callbacks: list[Any]) -> None:
        """Evaluates and writes the epoch that ended before the run was resumed."""
        epoch = -(-self.ready.plan.first_step // self.ready.plan.period) - 1
        logs: dict[str, float] = {}
        kinds = keras.callbacks
        others = (Steps, Reporter, kinds.LambdaCallback, kinds.TensorBoard)
        for callback in callbacks:
            if not isinstance(callback, others):
                callback.set_model(self.ready.learner)
                callback.on_epoch_end(epoch, logs)

    def _kept(self) -> str:
        """What is on the disk after training diverged."""
        found = [self.out / "weights.npz", *self.checkpoints.saved()[-1:]]
        return f"{' and '.join(map(str, found))} {'are' if len(found) > 1 else 'is'} from before."


class HeldOut:
    """Evaluates a learner on held-out images.

    All batches have one size, which every device can divide and XLA compiles once. The last one is
    filled with copies whose weight in every metric is 0. A process reads only its own rows.

    Args:
        ready: the run, prepared; this class is used in the scope of its engine.
        callbacks: Keras' callbacks of the evaluation.
    """

    def __init__(self, ready: Prepared, callbacks: list[Any]):
        learner, engine, indices = ready.learner, ready.engine, ready.begun.split.held_out
        self._callbacks = callbacks
        places = _places(len(indices), ready.plan.batch_size, engine.replicas)
        self._steps, size = places.shape
        own = places[:, engine.rows(size)]
        own_indices = indices[np.minimum(own, len(indices) - 1).ravel()]
        self._batches = engine.distribute(_weighted(ready, own_indices, own < len(indices)))
        self._model = keras.Model(learner.input, learner.output)
        # Keras divides a loss by the number of images, which counts the copies; a weighted metric
        # is divided by the sum of the weights.
        loss = ready.task.loss(training=False)
        mean = keras.metrics.MeanMetricWrapper(loss.call, name="mean")
        self._model.compile(
            loss=loss,
            weighted_metrics=[mean, *ready.task.metrics()],
            jit_compile=ready.begun.recipe.jit and engine.can_jit,
        )

    def evaluate(self) -> dict[str, float]:
        """The metrics of the current weights: the loss, and those of the task."""
        found = self._model.evaluate(
            self._batches, steps=self._steps, callbacks=self._callbacks, verbose=0, return_dict=True
        )
        return found | {"loss": found.pop("mean")}


@contextlib.contextmanager
def saying_what_is_saved(out: Path, checkpoints: Checkpoints, plan: Plan) -> Iterator[None]:
    """Gives an interruption without a message one that says what the run folder holds."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        if str(stop) or not (out / "spec.json").is_file():
            raise
        raise type(stop)(_saved(out, checkpoints, plan)) from None


def _saved(out: Path, checkpoints: Checkpoints, plan: Plan) -> str:
    """What is on the disk after an interruption."""
    metrics, of = runs.open_run(out).metrics(), f"of {plan.steps} steps"
    if checkpoints.saved():
        step = checkpoints.newest_step()
        return f"{out} holds the state after {step} {of}; go on with resume=True"
    if metrics:
        step = metrics[-1]["step"]
        return f"{out} holds the weights after {step} {of}, but no state; resume=True begins again"
    return f"{out} holds only the initial weights; resume=True begins again"


@contextlib.contextmanager
def _releasing_the_input() -> Iterator[None]:
    """A context that frees the variables of the frames that an exception has left.

    One of them is Keras' iterator over the input, whose threads may call Python to read pictures.
    If the exception keeps it until Python ends, its destructor waits for these threads, and they
    wait for Python, for ever.
    """
    try:
        yield
    except BaseException as error:
        each: BaseException | None = error
        while each is not None:
            traceback.clear_frames(each.__traceback__)
            each = each.__context__
        gc.collect()
        raise


def _spans(plan: Plan) -> Iterator[tuple[int, int]]:
    """The calls of Keras' fit, as first and last steps: a resumed period is one of its own."""
    first, last = plan.first_step, plan.steps
    ends = min(-(-first // plan.period) * plan.period, last)  # of the period that was begun
    yield from (span for span in ((first, ends), (ends, last)) if span[0] < span[1])


def _places(count: int, batch_size: int, replicas: int) -> np.ndarray:
    """The places of `count` images in batches, (steps, size); those from `count` on are copies."""
    size = min(batch_size, -(-count // replicas) * replicas)
    steps = -(-count // size)
    return np.arange(steps * size).reshape(steps, size)  # (steps * size,) to (steps, size)


def _weighted(ready: Prepared, indices: np.ndarray, counted: np.ndarray) -> Any:
    """Images, targets and weights: 1 where a row is `counted`, (steps, size), else 0."""
    import tensorflow as tf

    begun, size = ready.begun, counted.shape[1]

    def joined(batch, weights):
        images, classes = batch
        whole = (images, ready.task.targets(images, classes))
        return (*(tf.ensure_shape(x, (size, *x.shape[1:])) for x in whole), weights)

    batches = data.evaluation_batches(ready.images, indices, begun.model.preprocessing, size)
    weights = tf.data.Dataset.from_tensor_slices(counted.astype(np.float32))
    return tf.data.Dataset.zip((batches, weights)).map(joined)
