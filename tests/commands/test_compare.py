"""compare, sweep, fit --dry-run and fit --recipes, as a user runs them."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

import keras_vit
from keras_vit import UsageError, runs, training
from keras_vit._interrupts import Terminated
from keras_vit.cli import _arguments, _trials, compare, fit, sweep
from keras_vit.data import open_source
from keras_vit.specs import VARIANTS
from keras_vit.training import Engine, Recipe, Trial, loop, trials
from keras_vit.training import run as run_module
from keras_vit.training.recipes import PRESETS
from keras_vit.weights import parameter_count

QUICK = (
    "--duration", "11 steps", "--image-size", "16", "--batch-size", "4", "--no-jit",
    "--augment", "none", "--warmup", "1 step",
)  # fmt: skip
TIME = r"(\d+ min )?\d+ s"


@pytest.mark.slow
def test_models_are_compared_and_a_second_call_trains_only_what_is_new(
    invoke, image_folder, tiny_model, tmp_path, monkeypatch
):
    stem = keras_vit.ResNetStem((), 0.5)
    monkeypatch.setitem(VARIANTS, "R+Test_4", keras_vit.ViTSpec(1, 32, 1, 2, 48, stem=stem))
    words = ("--data", image_folder, "--out", "out", *QUICK)
    models = ("--models", tiny_model, "R+Test_4")
    code, out, error = invoke("train/compare.py", *words, *models, cwd=tmp_path)
    assert code == 0, error
    assert "[2 of 2] R+Test_4-1-seed0" in out
    left = rf"^about {TIME} to go for 1 run, if the others take as long$"
    assert re.search(left, out, re.MULTILINE)
    assert re.search(rf"^2 runs in {TIME}$", out, re.MULTILINE)
    best = max(
        json.loads((tmp_path / "out" / "compare.json").read_text())["results"], key=_trials.quality
    )
    assert out.endswith(f"train/evaluate.py --run out/trials/{best['model']}-1-seed0\n")
    monkeypatch.setattr(trials, "train", lambda *a, **k: pytest.fail("it was trained again"))
    code, out, error = invoke("train/compare.py", *words, "--models", tiny_model, cwd=tmp_path)
    assert code == 0, error
    (only,) = json.loads((tmp_path / "out" / "compare.json").read_text())["results"]
    assert only["parameters"] == parameter_count(VARIANTS[tiny_model], 2, 16)
    assert only["accuracy"] == pytest.approx(only["curve"][-1]["val_accuracy"])
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.slow
def test_a_model_that_diverges_is_named_and_the_others_are_trained(
    invoke, image_folder, tiny_model, tmp_path, monkeypatch
):
    monkeypatch.setitem(VARIANTS, "ViT-Other_8", VARIANTS[tiny_model])
    train = trials.train

    def diverging(model, source, recipe, *arguments, **options):
        if model == "ViT-Other_8":
            recipe = dataclasses.replace(recipe, learning_rate=1e30, clip_norm=0.0)
        return train(model, source, recipe, *arguments, **options)

    monkeypatch.setattr(trials, "train", diverging)
    words = ("--data", image_folder, "--out", "out", "--models", "ViT-Other_8", tiny_model, *QUICK)
    code, out, error = invoke("train/compare.py", *words, cwd=tmp_path)
    assert code == 0, error
    assert "training diverged before step" in out
    assert re.search(r"^ViT-Other_8 +\d+ +1 +diverged *$", out, re.MULTILINE)
    other, tiny = json.loads((tmp_path / "out" / "compare.json").read_text())["results"]
    assert "lower the learning rate" in other["diverged"]
    assert tiny["steps"] == 11

    monkeypatch.setattr(trials, "train", lambda *a, **k: pytest.fail("it was trained again"))
    code, out, error = invoke("train/compare.py", *words[:5], "ViT-Other_8", *QUICK, cwd=tmp_path)
    assert (code, "every training diverged" in error) == (3, True)


@pytest.mark.soak(of="resumes")
def test_a_comparison_that_is_stopped_says_how_it_goes_on(
    image_folder, tiny_model, tmp_path, monkeypatch, capsys
):
    settings = Recipe(image_size=16, duration="11 steps", batch_size=4, warmup="1 step", jit=False)
    arguments = compare.Arguments(
        data=str(image_folder), models=(tiny_model,), fractions=(1.0,), settings=settings
    )
    source, split = arguments.images()
    (trial,) = compare._trials_of(arguments, source, split)

    def stop_at_the_fifth_step(judged_on):
        return lambda progress: progress.step == 5 and os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Terminated) as stopped:
        patch.setattr(_trials, "ProgressPrinter", stop_at_the_fifth_step)
        _trials.TrialRunner(source, tmp_path, arguments, "scratch").run(trial)
    after = r"holds the state after ([56]) of 11 steps; start the same command again to go on$"
    step = re.search(after, str(stopped.value))[1]
    assert _trials.TrialRunner(source, tmp_path, arguments, "scratch").run(trial)["steps"] == 11
    assert f"from step {step}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("checkpoints", "metrics", "message"),
    [
        ([5], [], "out holds the state after 5 of 11 steps; {} to go on"),
        (
            [],
            [{"step": 10}],
            "out holds the weights after 10 of 11 steps; {} to repeat this training",
        ),
        ([], [], "out holds only the initial weights; {} to repeat this training"),
    ],
)
def test_whatever_was_saved_the_same_command_goes_on(monkeypatch, checkpoints, metrics, message):
    monkeypatch.setattr(runs, "open_run", lambda path: SimpleNamespace(metrics=lambda: metrics))
    saved = SimpleNamespace(saved=lambda: checkpoints, newest_step=lambda: checkpoints[-1])
    expected = message.format("start the same command again")
    assert _trials._for_trials(loop._saved("out", saved, SimpleNamespace(steps=11))) == expected


@pytest.mark.slow
def test_a_trial_with_an_average_of_the_weights_is_judged_by_it(
    image_folder, tiny_model, tmp_path, capsys
):
    settings = Recipe(
        image_size=16, duration="11 steps", batch_size=4, warmup="1 step", jit=False, ema=0.99
    )
    arguments = compare.Arguments(data=str(image_folder), models=(tiny_model,), settings=settings)
    source, split = arguments.images()
    (trial,) = compare._trials_of(arguments, source, split)
    result = _trials.TrialRunner(source, tmp_path, arguments, "scratch").run(trial)
    report = keras_vit.evaluation.held_out_report(
        runs.open_run(tmp_path / trial.name), source, average=True
    )
    assert (result["judged_weights"], result["accuracy"]) == ("average", report.accuracy)
    assert result["accuracy"] == pytest.approx(result["curve"][-1]["ema_val_accuracy"])
    assert "% with the average of the weights\n" in capsys.readouterr().out


def test_several_values_may_have_commas():
    words = "--models ViT_Ti16,BiT_R50x1 --fractions 0.1,0.3 --seeds 2,1 --data digits"
    read = _arguments.read(compare.Arguments, words.split(), compare.defaults)
    assert read.models == ("ViT_Ti16", "BiT_R50x1")
    assert (read.fractions, read.seeds) == ((0.1, 0.3), (2, 1))
    read = _arguments.read(sweep.Arguments, ["--learning-rates", "1e-3,3e-3"], sweep.defaults)
    assert read.learning_rates == (1e-3, 3e-3)


def test_the_time_of_all_trainings_is_said_first(tmp_path, capsys, monkeypatch):
    recipe = Recipe(learning_rate=0.1)
    trials = [
        Trial(str(i), name, dataclasses.replace(recipe, seed=i, learning_rate=i / 10), None)
        for i, name in enumerate(("ViT_Ti16", "BiT_R50x1", "ViT_Ti16", "ViT_Ti16"))
    ]
    timed = []

    def dry_run(model, source, recipe, split):
        timed.append(model)
        return SimpleNamespace(too_large="", seconds=60.0 + len(timed)), None

    monkeypatch.setattr("keras_vit.training.dry_run", dry_run)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "result.json").touch()
    _trials.print_total_time(trials, None, tmp_path)
    # Each model is timed once.
    assert timed == ["ViT-Ti_16", "BiT-R50x1"]
    out = capsys.readouterr().out
    *timing, total = out.splitlines()
    assert timing == [f"compiling and timing some steps of {name}" for name in timed]
    assert total == "about 3 min 4 s for 3 runs, measured with some steps"
    monkeypatch.setattr("keras_vit.training.dry_run", None)
    _trials.print_total_time(trials[3:], None, tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [sweep, compare])
def test_sweep_and_compare_begin_as_a_run_did(trained_run, tiny_model, command):
    found = command.defaults({"run": trained_run.path})
    stored = trained_run.recipe["recipe"] | {"accumulate": None, "jit": None}
    assert (found["data"], found["weights"]) == ("digits", None)
    assert found["settings"] == Recipe(**stored)
    assert (found.get("model") or found["models"][0]) == tiny_model
    arguments = command.Arguments(run=trained_run.path, **found)
    assert arguments.recipe == ""
    name = command.__name__.rpartition(".")[2]
    assert arguments.folder(name) == Path("runs", f"{name}-{trained_run.path.name}")
    with pytest.raises(UsageError, match="expected a run folder; there is no such folder"):
        command.Arguments(run=trained_run.path / "gone")


def test_the_time_left_is_that_of_the_trainings_that_are_not_finished(tmp_path, capsys):
    names = ("ViT_Ti16", "BiT_R50x1", "ViT_Ti16", "ViT_Ti16")
    to_come = [Trial(str(i), name, Recipe(), None) for i, name in enumerate(names)]
    results = [
        {"model": "ViT-Ti_16", "seconds": seconds, **more}
        for seconds, more in ((100.0, {}), (140.0, {}), (9.0, {"diverged": "the loss is nan"}))
    ]
    assert _trials.time_taken(results) == "3 runs in 4 min 9 s"

    def printed(results, trials):
        _trials.print_time_left(results, trials, tmp_path)
        return capsys.readouterr().out

    others = ", if the others take as long"
    assert printed(results, to_come) == f"about 8 min 0 s to go for 4 runs{others}\n"
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "result.json").touch()
    assert printed(results, to_come) == "about 6 min 0 s to go for 3 runs\n"
    assert printed(results, to_come[1:]) == ""  # the next one only has to be read
    assert printed(results[2:], to_come) == ""  # no time is known


def test_a_sweep_shows_a_learning_rate_that_diverged():
    good = {"accuracy": 0.5, "judged_weights": "last", "seconds": 1.0, "curve": [{"val_loss": 1}]}
    lines = sweep._table({0.1: good, 0.2: {"diverged": "x", "seconds": 1.0}}, 0.1, good)
    assert re.search(r"^0\.2 +development +diverged *$", lines, re.MULTILINE)


def test_a_sweep_compares_the_averages_and_says_so():
    def tried(loss, average):
        record = {"val_loss": loss, "ema_val_loss": average}
        figures = {"accuracy": 0.5, "judged_weights": "average", "seconds": 1.0}
        return {**figures, "curve": [record]}

    results = {0.1: tried(1.0, 3.0), 0.2: tried(2.0, 1.5)}
    assert max(results, key=lambda rate: _trials.quality(results[rate])) == 0.2
    header, _, line, *_ = sweep._table(results, 0.2, results[0.2]).splitlines()
    assert "accuracy of the average" in header
    assert "loss of the average" in header
    assert "3.0000" in line
    plain = {"accuracy": 0.5, "judged_weights": "last", "seconds": 1.0, "curve": [{"val_loss": 1}]}
    assert "average" not in sweep._table({0.1: plain}, 0.1, plain)


def test_several_trainings_bring_no_warning_that_functions_are_compiled_again(
    monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(training, "run_trial", lambda *a, **k: {"diverged": "the loss is nan"})
    arguments = SimpleNamespace(checkpoint_every="1 epoch")
    runner = _trials.TrialRunner(None, tmp_path, arguments, "scratch")
    runner.run(Trial("a", "ViT_Ti16", Recipe(), None))
    logger, text = logging.getLogger("tensorflow"), (
        "5 out of the last 13 calls to <function {} at 0x7f11a0> triggered tf.function retracing. "
        "Tracing is expensive and the excessive number of tracings could be due to (1) creating"
    )  # fmt: skip
    for kept in ("distances", "TensorFlowTrainer._make_function.<locals>.multi_step_on_iterator",
                 "Model.make_train_function.<locals>.train_function"):  # fmt: skip
        logger.warning(text.format(kept))
    logger.warning("another message")
    assert caplog.messages == [text.format("distances"), "another message"]


def test_each_fraction_has_its_number_of_seeds(shared_folder):
    settings = Recipe(image_size=16, duration="11 steps", batch_size=4)
    arguments = compare.Arguments(
        data=str(shared_folder), models=("ViT_Pico4",), fractions=(1.0, 0.5), seeds=(1, 2),
        settings=settings,
    )  # fmt: skip
    trials = compare._trials_of(arguments, *arguments.images())
    assert [(trial.tags["fraction"], trial.tags["seed"]) for trial in trials] == [
        (0.5, 0), (1.0, 0), (0.5, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_sweep_trains_with_the_best_learning_rate_on_all_training_images(
    invoke, image_folder, tiny_model, tmp_path
):
    words = ("--data", image_folder, "--model", tiny_model, "--out", "out", *QUICK)
    for rates in (["1e-9"], ["1e-9", "0.03"]):  # the second call adds one, which is better
        code, out, error = invoke(
            "train/sweep.py", *words, "--learning-rates", *rates, cwd=tmp_path
        )
        assert code == 0, error
        total = rf"^about {TIME} for 2 runs, measured with some steps$"
        assert re.search(total, out, re.MULTILINE)
        assert f"compiling and timing some steps of {tiny_model}\n" in out
        assert "compared on 2 images, of which each is 50 points of accuracy" in error
        assert re.search(r"^step .*  development \d+\.\d\d%", out, re.MULTILINE)
        assert re.search(r"^step .*  held-out \d+\.\d\d%", out, re.MULTILINE)
    found = json.loads((tmp_path / "out" / "sweep.json").read_text())
    losses = {
        each["learning_rate"]: each["result"]["curve"][-1]["val_loss"] for each in found["tried"]
    }
    assert losses[0.03] < losses[1e-9]
    assert found["best"] == 0.03  # the accuracies may be equal
    names = ("final-lr-0.03", "lr-0.03")
    final, tried = (runs.open_run(tmp_path / "out" / name) for name in names)
    assert final.recipe["recipe"]["learning_rate"] == found["best"]
    source = final.source()
    of_final, of_tried = final.split(source), tried.split(source)
    assert set(of_final.train) == {*of_tried.train, *of_tried.held_out}
    assert not set(of_final.held_out) & {*of_tried.train, *of_tried.held_out}
    assert "(best)" in out
    assert re.search(rf"^about {TIME} to go for 2 runs$", out, re.MULTILINE)
    assert re.search(rf"^3 runs in {TIME}$", out, re.MULTILINE)
    *_, run, following = out.splitlines()
    assert run == "run: out/final-lr-0.03"
    assert following.endswith("evaluate.py --run out/final-lr-0.03")


@pytest.mark.parametrize("name", ["lr-0.03", "final-lr-0.03"])
def test_a_sweep_refuses_a_folder_with_other_settings_before_it_trains(
    invoke, image_folder, tiny_model, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(trials, "train", lambda *a, **k: pytest.fail("it trained"))
    (tmp_path / "out" / name).mkdir(parents=True)
    earlier = {"format": 1, "settings": {"batch_size": 5}, "result": {}}
    (tmp_path / "out" / name / "result.json").write_text(json.dumps(earlier))
    words = ("--data", image_folder, "--model", tiny_model, "--out", "out", *QUICK)
    code, _, error = invoke(
        "train/sweep.py", *words, "--learning-rates", "1e-9", "0.03", cwd=tmp_path
    )
    assert code == 2
    assert f"out/{name} holds a finished trial with other settings" in error


@pytest.mark.parametrize(
    ("command", "file", "other"),
    [
        ("compare", "sweep.json", "sweep"),
        ("compare", "lr-0.001/spec.json", "sweep"),
        ("compare", "spec.json", "run"),
        ("sweep", "compare.json", "compare"),
        ("sweep", "trials/ViT-1-seed0/spec.json", "compare"),
    ],
)
def test_a_folder_of_another_command_is_refused(tmp_path, command, file, other):
    (tmp_path / "out" / file).parent.mkdir(parents=True)
    (tmp_path / "out" / file).write_text("")
    arguments = {"compare": compare, "sweep": sweep}[command].Arguments(out=tmp_path / "out")
    with pytest.raises(UsageError, match=f"out is the folder of a {other}; choose another"):
        arguments.folder(command)


@pytest.mark.parametrize("file", ["trials/x/spec.json", "compare.json"])
def test_a_folder_of_the_same_command_is_used_again(tmp_path, file):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("")
    assert compare.Arguments(out=tmp_path).folder("compare") == tmp_path


def test_a_dry_run_says_what_training_needs_and_writes_nothing(
    invoke, image_folder, tiny_model, tmp_path
):
    before = sorted(tmp_path.rglob("*"))
    words = ("--data", image_folder, "--model", tiny_model, *QUICK, "--dry-run")
    code, out, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert code == 0, error
    count = parameter_count(VARIANTS[tiny_model], 2, 16)
    assert f"training ViT-Test_8, {count:,} parameters, to runs/pictures" in out
    assert "11 steps of 4 images" in out
    last = r"\nof the memory: .*\ncompiling and timing some steps\ntime: about \d+ s, measured with"
    assert re.search(last, out)
    assert "rises to 0.003 in 1 step, then falls to 0 as a cosine" in out
    assert f"parameters {4 * count / 2**20:.1f} MiB" in out
    # AdamW keeps two values for each parameter, and a few counters.
    assert f"adamw {8 * count / 2**20:.1f} MiB" in out
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_needs_no_weights_but_says_that_training_does(
    invoke, image_folder, tiny_model, tmp_path
):
    words = ("--recipe", "finetune", "--data", image_folder, "--model", tiny_model, *QUICK)
    code, out, error = invoke("train/fit.py", *words, "--dry-run", cwd=tmp_path)
    assert code == 0, error
    line = "weights: none given; needed for the training, such as --weights augreg\n"
    assert line in out
    assert f"training ViT-Test_8, {parameter_count(VARIANTS[tiny_model], 2, 16):,} " in out
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 2, 16), tmp_path / "start.npz")
    given = (*words, "--weights", "start.npz", "--dry-run")
    code, with_weights, error = invoke("train/fit.py", *given, cwd=tmp_path)
    assert code == 0, error
    measured = re.compile(r"(memory|time): .*")
    assert measured.sub("", with_weights) == measured.sub("", out.replace(line, ""))


def test_a_dry_run_of_a_recipe_for_data_that_are_not_prepared_is_refused(
    invoke, tmp_path, monkeypatch
):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    words = ("--recipe", "finetune-pets", "--dry-run")
    code, _, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert code == 2
    (line,) = error.strip().splitlines()
    assert "oxford_iiit_pet" in line


def test_a_dry_run_counts_the_teacher(image_folder, tiny_model):
    source, recipe = open_source(image_folder), Recipe(image_size=16, batch_size=4)
    taught = dataclasses.replace(recipe, distillation="hard")
    teacher = training.build(tiny_model, source.labels, recipe)
    _, alone = training.dry_run(tiny_model, source, recipe)
    _, costs = training.dry_run(tiny_model, source, taught, teacher=teacher)
    assert costs.parameters == 2 * alone.parameters
    assert costs.step_flops == alone.step_flops + 4 * alone.forward_flops


def test_a_dry_run_refuses_what_training_refuses(image_folder, tiny_model):
    source, recipe = open_source(image_folder), Recipe(image_size=16, batch_size=4)
    teacher = keras_vit.create_model(tiny_model, 2, 16)
    with pytest.raises(
        UsageError, match="a teacher needs distillation='soft' or distillation='hard'"
    ):
        training.dry_run(tiny_model, source, recipe, teacher=teacher)
    recipe = dataclasses.replace(recipe, distillation="hard")
    with pytest.raises(UsageError, match="distillation='hard' needs a teacher"):
        training.dry_run(tiny_model, source, recipe)


@pytest.mark.parametrize(
    ("parts", "flops", "timed"),
    [(1, 1e15, 1), (2, 1e15, 2), (64, 1e15, 2), (64, 8e12, 8), (64, 1e9, 64)],
)
def test_of_many_parts_that_take_long_some_are_timed(parts, flops, timed):
    assert run_module.parts_to_time(parts, flops) == timed


def test_the_time_of_some_parts_is_multiplied(image_folder, tiny_model, monkeypatch):
    def time_of(plan, learner, batches):
        assert (learner.accumulate, len(next(iter(batches))[0])) == (2, 4)
        return 3.0

    monkeypatch.setattr(run_module, "parts_to_time", lambda parts, flops: 2)
    monkeypatch.setattr(run_module, "time_of", time_of)
    recipe = Recipe(image_size=16, batch_size=8, accumulate=4)
    plan, _ = training.dry_run(tiny_model, open_source(image_folder), recipe)
    assert (plan.batch_size, plan.accumulate, plan.seconds) == (8, 4, 6.0)


def test_a_dry_run_counts_the_devices(image_folder, tiny_model):
    source, recipe = open_source(image_folder), Recipe(image_size=16, batch_size=4)
    _, alone = training.dry_run(tiny_model, source, recipe)
    plan, costs = training.dry_run(tiny_model, source, recipe, engine=Engine(replicas=2))
    assert plan.devices == 2
    assert costs.parameters == alone.parameters
    assert costs.activations == alone.activations // 2


def test_the_table_of_recipes_names_every_recipe(invoke, tmp_path):
    code, out, error = invoke("train/fit.py", "--recipes", cwd=tmp_path)
    assert (code, error) == (0, "")
    for name in PRESETS:
        assert name.startswith("augreg-") or f"\n{name} " in out
    assert "aug_light1,aug_light2" in out
    *lines, _ = [line for line in out.splitlines() if not line.startswith("  command ")]
    assert max(map(len, lines)) <= 100
    entry = next(entry for entry in out.split("\n\n") if entry.startswith("finetune-pets"))
    texts = (
        "fit.py --recipe finetune-pets --weights imagenet21k\n", "500 steps of 512",
        "384 px, from imagenet21k", "cost      256,000 images", "94.43%", "published", "table 4",
    )  # fmt: skip
    assert all(text in entry for text in texts)


def test_the_commands_of_the_recipes_pass_the_checks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in (
        "FOLDER/a/1.jpg",
        "FOLDER/b/2.jpg",
        "RUN/spec.json",
        "runs/imagenet2012/weights.npz",
    ):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("")
    for name, preset in PRESETS.items():
        read = _arguments.read(fit.Arguments, preset.options(name).split(), fit.defaults)
        assert (read.recipe, read.settings, read.weights or "") == (
            name, preset.recipe, preset.weights,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "suggested"),
    [("ViT_B16", "ViT_B16"), ("BiT_R50x1", "ViT_S16"), ("ViT_Pico4", "ViT_S16")],
)
def test_the_command_that_fit_suggests_has_weights_and_another_folder(model, suggested):
    words = ["--model", model, "--out", "runs/mine"]
    text = fit._from_random_weights(_arguments.read(fit.Arguments, words, fit.defaults))
    end = f" --data digits --weights augreg --model {suggested} --out runs/mine-augreg"
    assert text.endswith(end)


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("compare", ["--models", "ViT_B17"], "unknown model 'ViT_B17'"),
        ("compare", ["--fractions", "0.1", "2"], "--fractions must lie in (0, 1]. Received: 2.0"),
        ("compare", ["--seeds", "0,1"], "--seeds is how many seeds to train with, 1 or more, not"),
        ("compare", ["--seeds", "3", "1"], "one for each of 1 --fractions. Received: 2 numbers"),
        ("compare", ["--models", "ViT_Ti16,ViT_B17"], "unknown model 'ViT_B17'"),
        ("compare", ["--lr", "1e-3"], "unknown option --lr; did you mean --learning-rate?"),
        ("sweep", ["--lr", "1e-3", "3e-3"], "unknown option --lr; did you mean --learning-rates?"),
        ("compare", ["--models", "ViT_Ti16", "--image-size", "30"], "multiple of patch_size=16"),
        ("compare", ["--recipe", "finetune"], "finetune is for any images; give yours: --data"),
        (
            "compare",
            ["--recipe", "finetune", "--data", "digits"],
            "--recipe finetune starts from weights",
        ),
        ("sweep", ["--distillation", "hard"], "distillation needs a teacher, which only fit has"),
        ("sweep", ["--learning-rates", "0"], "--learning-rates must be positive. Received: 0.0"),
        ("sweep", ["--development", "0"], "--development must lie in (0, 1)"),
        ("sweep", ["--data", "digit"], "did you mean digits?"),
    ],
)
def test_mistakes_are_one_line(invoke, tmp_path, script, words, message):
    code, out, error = invoke(f"train/{script}.py", *words, cwd=tmp_path)
    assert (code, out) == (2, "")
    (line,) = error.strip().splitlines()
    assert message in line
