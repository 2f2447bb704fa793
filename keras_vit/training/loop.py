"""The loop over the steps of a training."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_vit import runs
from keras_vit._errors import RefusedError
from keras_vit._interrupts import Terminated, deferred_interrupts
from keras_vit._keras import backend, keras
from keras_vit.data import Source, Split, evaluation_batches, training_batches
from keras_vit.data.reading import naming_unreadable
from keras_vit.models.image_model import ImageModel
from keras_vit.training.callbacks import AfterEachStep, Evaluation, RunWriter, Steps
from keras_vit.training.checkpoints import Checkpoints
from keras_vit.training.engines import Engine
from keras_vit.training.held_out import HeldOut
from keras_vit.training.learner import Learner
from keras_vit.training.plan import Plan
from keras_vit.training.progress import Progress, Reporter
from keras_vit.training.recipes import Recipe
from keras_vit.training.tasks import Task


@dataclasses.dataclass(frozen=True)
class Loop:
    """Everything that the steps of a training need."""

    out: Path
    model: ImageModel
    learner: Learner
    task: Task
    source: Source
    split: Split
    recipe: Recipe
    plan: Plan
    checkpoints: Checkpoints
    report: Callable[[Progress], None]
    engine: Engine

    def run(
        self,
        extra: list[Any],
        saving: Callable[[int], None],
        stuck: Callable[[str], None] | None,
    ) -> None:
        """Makes the steps. Whatever ends them, the state of the last complete step is saved."""
        steps = Steps(self.plan.first_step, self.plan.steps)
        if not self.engine.is_chief:
            self._follow(steps)
            return
        epochs = len(runs.open_run(self.out).metrics())
        writer = RunWriter(
            self.out, self.model, steps, self.checkpoints.seconds, self.recipe.batch_size, epochs
        )
        writer.set_model(self.learner)  # a signal may come before Keras does it
        evaluation = Evaluation(lambda: held_out.evaluate())

        def tell() -> None:
            # JAX takes the weights out of the variables while it evaluates.
            if evaluation.is_steady and backend() == "tensorflow":
                saving(steps.done)
                self.checkpoints.save(steps.done)
            stuck(self._saved())

        with deferred_interrupts(stuck and tell, terminate=True) as check:

            def after_step() -> None:
                check()
                if not self._ends_period(steps.done):
                    self.checkpoints.maybe_save(steps.done)

            each = AfterEachStep(after_step, check)
            reporter = Reporter(self.plan, steps, self.report)
            held_out = self._held_out([each, reporter])
            # What is resumed at the end of an epoch has its metrics and weights already.
            last = keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: self.checkpoints.maybe_save(steps.done)
            )
            callbacks = [steps, each, evaluation, *extra, reporter, writer, last]
            try:
                self._fit_and_save(callbacks, steps, writer, saving)
            except RefusedError as error:
                raise RefusedError(f"{error} {self._kept()}") from None
            self.checkpoints.end(steps.done)

    def _fit_and_save(
        self,
        callbacks: list[Any],
        steps: Steps,
        writer: RunWriter,
        saving: Callable[[int], None],
    ) -> None:
        try:
            self._fit(callbacks)
        except (KeyboardInterrupt, Terminated) as stop:
            saving(steps.done)
            self.checkpoints.save(steps.done)  # a second Ctrl-C ends it
            writer.save()
            raise type(stop)(self._saved()) from None
        except BaseException:
            self.checkpoints.wait()
            raise
        self.checkpoints.wait()

    def _follow(self, steps: Steps) -> None:
        """Makes the steps in a process that writes nothing.

        After a signal it goes on until the chief, which saves the state, has stopped.
        """
        with deferred_interrupts(terminate=True) as check:
            try:
                self._fit([steps, Evaluation(self._held_out([]).evaluate)])
            except Exception:
                check()
                raise

    def _fit(self, callbacks: list[Any]) -> None:
        plan, stopped = self.plan, "training stopped after the last saved epoch: "
        with naming_unreadable(self.source, stopped), _releasing_the_input():
            if self._was_stopped_before_its_evaluation():
                self._end_epoch(callbacks)
            for first, last in _spans(plan):
                self.learner.fit(
                    self._training(first),
                    initial_epoch=first // plan.period,
                    epochs=-(-last // plan.period),
                    steps_per_epoch=min(plan.period, last - first),
                    callbacks=callbacks,
                    verbose=0,
                    shuffle=False,
                )

    def _ends_period(self, step: int) -> bool:
        return step % self.plan.period == 0 or step == self.plan.steps

    def _was_stopped_before_its_evaluation(self) -> bool:
        """Whether a resumed training has made the last step of an epoch, but no metrics of it."""
        first = self.plan.first_step
        if not first or not self._ends_period(first):
            return False
        return all(record["step"] != first for record in runs.open_run(self.out).metrics())

    def _end_epoch(self, callbacks: list[Any]) -> None:
        """Evaluates and writes the epoch that ended before the training was resumed."""
        epoch = -(-self.plan.first_step // self.plan.period) - 1
        logs: dict[str, float] = {}
        kinds = keras.callbacks
        others = (Steps, AfterEachStep, Reporter, kinds.LambdaCallback, kinds.TensorBoard)
        for callback in callbacks:
            if not isinstance(callback, others):
                callback.set_model(self.learner)
                callback.on_epoch_end(epoch, logs)

    def _training(self, first: int) -> Any:
        steps = self.plan.steps - first
        return batches_of(
            self.source, self.split, self.recipe, self.model, self.task, self.engine, steps, first
        )

    def _held_out(self, callbacks: list[Any]) -> HeldOut:
        def batches(indices: np.ndarray, size: int) -> Any:
            found = evaluation_batches(self.source, indices, self.model.preprocessing, size)
            return found.map(lambda images, classes: (images, self.task.targets(images, classes)))

        return HeldOut(
            self.learner, self.task, self.engine, batches, self.split.held_out,
            self.recipe.batch_size, callbacks, self.recipe.jit and self.engine.can_jit,
        )  # fmt: skip

    def _kept(self) -> str:
        """What is on the disk after a training diverged."""
        found = [self.out / "weights.npz", *self.checkpoints.saved()[-1:]]
        return f"{' and '.join(map(str, found))} {'are' if len(found) > 1 else 'is'} from before."

    def _saved(self) -> str:
        return _saved(self.out, self.checkpoints, self.plan)


def batches_of(
    source: Source,
    split: Split,
    recipe: Recipe,
    model: ImageModel,
    task: Task,
    engine: Engine,
    steps: int,
    first: int = 0,
) -> Any:
    """The batches of `steps` steps of a training from step `first` on, for Keras' fit."""
    batches = training_batches(
        source, split.train, model.preprocessing, recipe.batch_size, steps, recipe.augment,
        recipe.seed, first, recipe.sampling, (engine.process, engine.processes),
        targets=task.targets, mixup=recipe.mixup, cutmix=recipe.cutmix, erase=recipe.erase,
    )  # fmt: skip
    return engine.distribute(batches)


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
    first = plan.first_step
    if first % plan.period and first < plan.steps:
        last = min(first + plan.period - first % plan.period, plan.steps)
        yield first, last
        first = last
    if first < plan.steps:
        yield first, plan.steps
