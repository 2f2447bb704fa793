"""Trials are trained once, go on where they stopped, and refuse other settings."""

import dataclasses
from types import SimpleNamespace

import pytest

from keras_vit import UsageError, _files
from keras_vit.data import development_split, split_source
from keras_vit.models.profile import profile
from keras_vit.training import Hooks, Recipe, Trial, fixed_budget, run_trial, trials, with_seed
from keras_vit.variant_specs import VARIANTS

RECIPE = Recipe(
    image_size=16, duration="12 steps", warmup="1 step", batch_size=4, augment="none", jit=False
)


def judge(run):
    return {"accuracy": run.metrics()[-1]["val_accuracy"]}


@pytest.mark.soak(of="resumes")
def test_a_trial_is_trained_once_and_goes_on_where_it_stopped(
    source, tiny_model, tmp_path, monkeypatch
):
    def run(out="parts", trial=None, **changes):
        trial = trial or dataclasses.replace(one, recipe=dataclasses.replace(RECIPE, **changes))
        return run_trial(trial, source, tmp_path / out, judge, hooks=hooks)

    hooks, split = Hooks(), split_source(source, 0.2)
    one = Trial("one", tiny_model, RECIPE, split, tags={"seed": 7})
    whole = run("whole")
    assert (whole["steps"], whole["seed"], whole["images"]) == (12, 7, len(split.train))
    assert [record["step"] for record in whole["curve"]] == [10, 12]
    layers = profile(VARIANTS[tiny_model], len(source.labels), 16)
    assert whole["parameters"] == sum(layer.parameters for layer in layers)
    flops = sum(layer.flops for layer in layers)
    assert (whole["forward_flops"], whole["training_flops"]) == (flops, 3 * flops * 4 * 12)

    clock = SimpleNamespace(seconds=0.0, monotonic=lambda: clock.seconds)
    monkeypatch.setattr("keras_vit.training.checkpoints.time", clock)

    def stop(progress):
        if progress.step == 4:
            clock.seconds = 1000.0
            raise KeyboardInterrupt

    hooks = Hooks(report=stop)
    with pytest.raises(KeyboardInterrupt):
        run()
    for changes, difference in (
        ({"duration": "20 steps"}, "duration='20 steps', was '12 steps'"),
        ({"seed": 3}, "seed=3, was 0"),
    ):
        with pytest.raises(UsageError, match=f"an unfinished trial with .* Received: {difference}"):
            run(**changes)
    with pytest.raises(UsageError, match=r"Received: weights='a\.npz', was None;"):
        run(trial=dataclasses.replace(one, weights="a.npz"))
    development = development_split(source, split, 0.3)
    with pytest.raises(UsageError, match="an unfinished trial with other train images"):
        run(trial=dataclasses.replace(one, split=development))
    starts = []
    hooks = Hooks(started=lambda plan: starts.append(plan.first_step))
    parts = run()
    assert starts == [4]
    assert parts["curve"][-1]["val_loss"] == whole["curve"][-1]["val_loss"]
    assert parts["seconds"] == 1000.0
    assert not (tmp_path / "parts" / "one" / "checkpoints").exists()

    assert run() == parts
    assert starts == [4]  # it was not trained again
    with pytest.raises(UsageError, match=r"other settings. Received: learning_rate=0.5, was 0.001"):
        run(learning_rate=0.5)


def test_a_budget_is_the_same_number_of_steps_on_fewer_images():
    recipe = dataclasses.replace(RECIPE, duration="3 epochs", warmup="10%", batch_size=10)
    fixed = fixed_budget(recipe, 200)
    assert (fixed.duration, fixed.warmup) == ("60 steps", "6 steps")
    assert fixed_budget(fixed, 20) == fixed


def test_a_trial_has_the_settings_and_the_name_of_its_model():
    recipe = dataclasses.replace(RECIPE, drop_path=0.1, overrides="depth=2")
    of_a_resnet = dataclasses.replace(recipe, drop_path=0.0, overrides="", seed=3)
    assert with_seed(recipe, "BiT_R50x1", 3) == of_a_resnet
    assert with_seed(recipe, "ViT_Ti16", 3) == dataclasses.replace(recipe, seed=3)
    names = {Trial("one", name, RECIPE, split=None).model for name in ("ViT_Ti16", "ViT-Ti_16")}
    assert names == {"ViT-Ti_16"}


def test_what_was_chosen_for_a_machine_is_no_other_trial(source, tmp_path):
    trial = Trial("one", "ViT_Ti16", RECIPE, split_source(source, 0.2))
    settings = trials._settings(trial, source)
    (tmp_path / "one").mkdir()
    content = {"format": trials.FORMAT, "settings": settings, "result": {}}
    _files.write_json(tmp_path / "one" / "result.json", content)

    def check(**changes):
        other = dataclasses.replace(trial, recipe=dataclasses.replace(RECIPE, **changes))
        trials.check_trial(other, source, tmp_path)

    check(accumulate=2, jit=True)
    with pytest.raises(UsageError):
        check(seed=1)
