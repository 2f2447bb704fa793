"""Trials are trained once, go on where they stopped, and refuse other settings."""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from keras_vit import UsageError, _files
from keras_vit.data import development_split, open_source, split_source
from keras_vit.models.profile import profile
from keras_vit.specs import VARIANTS
from keras_vit.training import Hooks, Recipe, Trial, fixed_budget, run_trial, trials, with_seed

RECIPE = Recipe(
    image_size=16, duration="12 steps", warmup="1 step", batch_size=4, augment="none", jit=False
)


def never(*arguments, **options):
    raise AssertionError("the trial was trained again")


def judge(run):
    return {"accuracy": run.metrics()[-1]["val_accuracy"]}


@pytest.mark.soak(of="resumes")
def test_a_trial_is_trained_once_and_goes_on_where_it_stopped(
    image_folder, tiny_model, tmp_path, monkeypatch
):
    source = open_source(image_folder)
    split = split_source(source, 0.2)
    trial = Trial("one", tiny_model, RECIPE, split, tags={"seed": 7})
    whole = run_trial(trial, source, tmp_path / "whole", judge)
    assert (whole["steps"], whole["seed"], whole["images"]) == (12, 7, len(split.train))
    assert [record["step"] for record in whole["curve"]] == [10, 12]
    layers = profile(VARIANTS[trial.model], len(source.labels), 16)
    assert whole["parameters"] == sum(layer.parameters for layer in layers)
    flops = sum(layer.flops for layer in layers)
    assert (whole["forward_flops"], whole["training_flops"]) == (flops, 3 * flops * 4 * 12)

    clock = SimpleNamespace(seconds=0.0, monotonic=lambda: clock.seconds)
    monkeypatch.setattr("keras_vit.training.checkpoints.time", clock)

    def stop(progress):
        if progress.step == 4:
            clock.seconds = 1000.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(trial, source, tmp_path / "parts", judge, hooks=Hooks(report=stop))
    for changes, difference in (
        ({"duration": "20 steps"}, "duration='20 steps', was '12 steps'"),
        ({"seed": 3}, "seed=3, was 0"),
    ):
        other = dataclasses.replace(trial, recipe=dataclasses.replace(RECIPE, **changes))
        with pytest.raises(UsageError, match=f"an unfinished trial with .* Received: {difference}"):
            run_trial(other, source, tmp_path / "parts", judge)
    other = dataclasses.replace(trial, weights="a.npz")
    with pytest.raises(UsageError, match=r"Received: weights='a\.npz', was None;"):
        run_trial(other, source, tmp_path / "parts", judge)
    development = dataclasses.replace(trial, split=development_split(source, split, 0.3))
    with pytest.raises(UsageError, match="an unfinished trial with other train images"):
        run_trial(development, source, tmp_path / "parts", judge)
    starts = []
    parts = run_trial(
        trial,
        source,
        tmp_path / "parts",
        judge,
        hooks=Hooks(started=lambda plan: starts.append(plan.first_step)),
    )
    assert starts == [4]
    assert parts["curve"][-1]["val_loss"] == whole["curve"][-1]["val_loss"]
    assert parts["seconds"] == 1000.0
    assert not (tmp_path / "parts" / "one" / "checkpoints").exists()

    monkeypatch.setattr(trials, "train", never)
    assert run_trial(trial, source, tmp_path / "parts", judge) == parts
    other = dataclasses.replace(trial, recipe=dataclasses.replace(RECIPE, learning_rate=0.5))
    with pytest.raises(UsageError, match=r"other settings. Received: learning_rate=0.5, was 0.001"):
        run_trial(other, source, tmp_path / "parts", judge)


def test_a_budget_is_the_same_number_of_steps_on_fewer_images():
    recipe = dataclasses.replace(RECIPE, duration="3 epochs", warmup="10%", batch_size=10)
    fixed = fixed_budget(recipe, 200)
    assert (fixed.duration, fixed.warmup) == ("60 steps", "6 steps")
    assert fixed_budget(fixed, 20) == fixed


def test_a_resnet_gets_no_settings_of_transformers():
    recipe = dataclasses.replace(RECIPE, drop_path=0.1)
    assert with_seed(recipe, "BiT_R50x1", 3) == dataclasses.replace(recipe, drop_path=0.0, seed=3)
    assert with_seed(recipe, "ViT_Ti16", 3) == dataclasses.replace(recipe, seed=3)


def test_both_spellings_of_a_model_are_the_same_trial():
    names = {Trial("one", name, RECIPE, split=None).model for name in ("ViT_Ti16", "ViT-Ti_16")}
    assert names == {"ViT-Ti_16"}


def test_what_was_chosen_for_a_machine_is_no_other_trial(shared_folder, tmp_path):
    source = open_source(shared_folder)
    trial = Trial("one", "ViT_Ti16", RECIPE, split_source(source, 0.2))
    settings = trials._settings(trial, source)
    (tmp_path / "one").mkdir()
    content = {"format": trials.FORMAT, "settings": settings, "result": {}}
    _files.write_json(tmp_path / "one" / "result.json", content)
    for changes in ({"accumulate": 2, "jit": True}, {"seed": 1}):
        other = dataclasses.replace(trial, recipe=dataclasses.replace(RECIPE, **changes))
        refused = pytest.raises(UsageError) if "seed" in changes else contextlib.nullcontext()
        with refused:
            trials.check_trial(other, source, tmp_path)
