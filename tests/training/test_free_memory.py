"""A batch is computed in as few parts as fit into the free memory; what does not fit is refused."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit.models.profile import profile
from keras_vit.training import Hooks, Recipe, dry_run
from keras_vit.training import costs as costs_module
from keras_vit.training.engines import Engine
from keras_vit.variant_specs import VARIANTS

GIB = 2**30
VIT, RESNET = VARIANTS["ViT-Ti_16"], VARIANTS["BiT-R8x1"]
RECIPE = Recipe(image_size=16, duration="6 steps", warmup="1 step", batch_size=4, augment="none")


def costs(recipe):
    """4 GiB of variables, and for each image 1 GiB, a quarter with remat or a frozen body."""
    images = recipe.batch_size / (recipe.accumulate or 1)
    each = GIB / 4 if recipe.remat or recipe.freeze == "body" else GIB
    return costs_module.Costs(0, 0, GIB, GIB, 2 * GIB, round(images * each))


# 4 GiB of variables and 32, 16, 8 or 1 of images fit into three quarters of the free memory.
AS_FEW_AS_FIT = [(48, 1), (47, 2), (27, 2), (16, 4), (15, 8), (6.7, 32), (1, 32), (None, 1)]


@pytest.mark.parametrize(
    ("batch", "free", "parts"), [*((32, *case) for case in AS_FEW_AS_FIT), (30, 19, 3)]
)
def test_a_batch_has_as_few_parts_as_fit(batch, free, parts):
    free = free and int(free * GIB)
    recipe = Recipe(batch_size=batch)
    assert costs_module.accumulate_that_fits(recipe, costs, batch, free) == parts
    given = dataclasses.replace(recipe, accumulate=2)
    assert costs_module.accumulate_that_fits(given, costs, batch, free) == 2


WITH_PARTS = "accumulate=32 and remat=True (4.2 GiB), or accumulate=4 and freeze='body' (3.0 GiB)"


@pytest.mark.parametrize(
    ("free", "spec", "advice"),
    [
        (20, VIT, "accumulate=4 (12.0 GiB), or remat=True (12.0 GiB), or freeze='body' (9.0 GiB)"),
        (20, RESNET, "accumulate=4 (12.0 GiB), or freeze='body' (9.0 GiB)"),
        (4.5, VIT, WITH_PARTS),
        (1.1, VIT, "a smaller model or image_size."),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(free, spec, advice):
    recipe, free = Recipe(batch_size=32, accumulate=1), int(free * GIB)
    message = costs_module.why_too_large(recipe, spec, costs, 32, free)
    assert message.startswith("a step needs about 36.0 GiB of memory with accumulate=1, and ")
    assert f"; choose {advice}" in message
    for free in (36 * GIB, None):
        assert costs_module.why_too_large(recipe, spec, costs, 32, free) == ""


@pytest.mark.parametrize(
    ("folder", "limit", "usage", "cache"),
    [
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_free_is_what_linux_can_give_within_the_limit_of_the_container(
    monkeypatch, tmp_path, folder, limit, usage, cache
):
    meminfo, cgroup = tmp_path / "proc/meminfo", tmp_path / "sys/fs/cgroup" / folder
    for each in (meminfo.parent, cgroup):
        each.mkdir(parents=True)
    meminfo.write_text("MemTotal: 8000 kB\nMemAvailable:    3000 kB\n")
    monkeypatch.setattr(costs_module, "Path", lambda name: tmp_path / name.lstrip("/"))
    monkeypatch.setattr(costs_module, "_free_on_gpu", lambda: None)
    assert costs_module.free_memory(Engine(), 0) == 3000 * 1024
    (cgroup / usage).write_text("5000\n")
    (cgroup / "memory.stat").write_text(f"file 4000\nactive_file 3000\n{cache} 1000\n")
    for text, free in (("max\n", 3000 * 1024), ("6048\n", 2048)):
        (cgroup / limit).write_text(text)
        assert costs_module.free_memory(Engine(), 0) == free
    # What the training holds already is not missing.
    assert costs_module.free_memory(Engine("mirrored", replicas=2), 500) == 1024 + 500
    assert costs_module.free_memory(Engine("multiworker", replicas=2, processes=2), 0) is None
    monkeypatch.setattr(costs_module, "_free_on_gpu", lambda: 7)
    assert costs_module.free_memory(Engine(), 500) == 7  # the limit of the process


def test_parameters_and_state_that_are_there_count_as_free(source, tiny_model, monkeypatch):
    for name, free in (("_free_on_gpu", None), ("_free_here", 1000), ("_free_in_container", None)):
        monkeypatch.setattr(costs_module, name, lambda free=free: free)
    plan, costs = dry_run(tiny_model, source, RECIPE)
    assert plan.free == 1000 + costs.parameters + costs.optimizer


def test_xla_is_used_where_it_saves_time(monkeypatch):
    import tensorflow as tf

    def gains(spec, flops, name="one"):
        return Engine(name).gains_by_jit(spec, flops)

    assert gains(VIT, 1e13)
    assert not gains(VIT, 1e12)
    assert not gains(RESNET, 1e13)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    assert gains(RESNET, 1)
    assert not gains(VIT, 1e13, "mirrored")


def test_a_run_keeps_the_parts_that_were_chosen(train_tiny, monkeypatch):
    plans = []

    def fit(free, out="parts", **options):
        monkeypatch.setattr(costs_module, "free_memory", lambda *_: free)
        hooks = Hooks(started=plans.append)
        return train_tiny(RECIPE, out, checkpoint_every="3 steps", hooks=hooks, **options)

    whole = fit(GIB, out="whole")
    parts = fit(round(plans[-1].memory / 0.8))
    first, chosen = (plan.accumulate for plan in plans)
    assert first == 1 < chosen
    assert [run.setting("accumulate") for run in (whole, parts)] == [1, chosen]
    assert whole.setting("jit") is False
    assert parts.metrics()[-1]["loss"] == pytest.approx(whole.metrics()[-1]["loss"], rel=1e-4)
    # It goes on with them where more is free, and with others if they are given.
    for steps, given, expected in ((8, None, chosen), (9, 1, 1)):
        fit(GIB, duration=f"{steps} steps", accumulate=given, resume=True)
        assert plans[-1].accumulate == expected


def test_a_training_that_does_not_fit_writes_nothing(
    train_tiny, image_folder, tiny_model, tmp_path, monkeypatch, invoke
):
    monkeypatch.setattr(costs_module, "free_memory", lambda *_: 1000)
    with pytest.raises(UsageError, match="and 0.0 GiB are free; choose a smaller model"):
        train_tiny(RECIPE)
    words = ("--data", image_folder, "--model", tiny_model, "--image-size", "16", "--out", "run")
    code, _, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert code == 2
    *_, error = error.splitlines()  # after a warning of few images
    assert "with --accumulate=32, and 0.0 GiB are free" in error
    assert not (tmp_path / "run").exists()
    code, out, error = invoke("train/fit.py", *words, "--dry-run", cwd=tmp_path)
    assert code == 0
    assert "layer, for one image" in out
    assert "compiling" not in out
    assert "\nwarning: a step needs about" in error


def costs_with(**settings):
    """The costs of a step of a ViT of which one variable of ten values is trained."""
    model = SimpleNamespace(spec=VIT, num_classes=3, image_size=(224, 224), weights=[])
    trained, state = [np.zeros(10, np.float32)], SimpleNamespace(variables=[])
    learner = SimpleNamespace(trainable_variables=trained, optimizer=state)
    return costs_module.costs_of(Recipe(**settings), model, learner)


def test_the_estimate_counts_a_part_of_the_batch():
    """More parts need less memory, down to the variables."""
    whole, one, two, eight = (costs_with(batch_size=8, accumulate=n) for n in (None, 1, 2, 8))
    assert whole == one
    assert whole.activations == 2 * two.activations == 8 * eight.activations > 0
    assert (one.gradients, two.gradients) == (40, 80)


@pytest.mark.parametrize(
    ("settings", "blocks", "kept"),
    [({}, 12, 0), ({"remat": True}, 1, 12), ({"freeze": "body"}, 1, 0)],
)
def test_remat_and_a_frozen_body_hold_one_block_at_a_time(settings, blocks, kept):
    block = next(layer.held for layer in profile(VIT, 3) if layer.name == "encoderblock_0")
    # Remat keeps the input of each block.
    found = costs_with(batch_size=1, **settings).activations
    assert found == 4 * (3 * 224 * 224 + blocks * block + kept * 197 * 192)
