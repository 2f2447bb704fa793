"""compare, sweep, fit --dry-run and fit --recipes, as a user runs them."""

import dataclasses
import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

import keras_vit
from keras_vit import UsageError, runs, training
from keras_vit._interrupts import Terminated
from keras_vit.cli import _arguments, _trials, compare, fit, sweep
from keras_vit.data import open_source
from keras_vit.training import Engine, Recipe, Trial, loop, trials
from keras_vit.training import run as run_module
from keras_vit.training.recipes import PRESETS
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights import parameter_count

QUICK = (
    "--duration", "11 steps", "--image-size", "16", "--batch-size", "4", "--no-jit",
    "--augment", "none", "--warmup", "1 step",
)  # fmt: skip
RECIPE = Recipe(image_size=16, duration="11 steps", batch_size=4, warmup="1 step", jit=False)
TIME = r"(\d+ min )?\d+ s"
FIGURES = {"accuracy": 0.5, "judged_weights": "last", "seconds": 1.0, "curve": [{"val_loss": 1}]}


@pytest.fixture
def results(tmp_path):
    """What `compare` stored."""
    return lambda: json.loads((tmp_path / "out" / "compare.json").read_text())["results"]


@pytest.fixture
def runner(tmp_path):
    """Runs trials of no images, where `training.run_trial` is replaced."""
    arguments = SimpleNamespace(checkpoint_every="1 epoch")
    return _trials.TrialRunner(None, tmp_path, arguments, "scratch")


@pytest.mark.slow
def test_models_are_compared_and_a_second_call_trains_only_what_is_new(
    done, image_folder, tiny_model, tmp_path, monkeypatch, results
):
    stem = keras_vit.ResNetStem((), 0.5)
    monkeypatch.setitem(VARIANTS, "R+Test_4", keras_vit.ViTSpec(1, 32, 1, 2, 48, stem=stem))
    words = ("train/compare.py", "--data", image_folder, "--out", "out", *QUICK, "--models")
    out, _ = done(*words, tiny_model, "R+Test_4")
    assert "[2 of 2] R+Test_4-1-seed0" in out
    left = rf"^about {TIME} to go for 1 run, if the others take as long$"
    assert re.search(left, out, re.MULTILINE)
    assert re.search(rf"^2 runs in {TIME}$", out, re.MULTILINE)
    best = max(results(), key=_trials.quality)
    assert out.endswith(f"train/evaluate.py --run out/trials/{best['model']}-1-seed0\n")
    monkeypatch.setattr(trials, "train", None)  # from now on, training fails the test
    done(*words, tiny_model)
    (only,) = results()
    assert only["parameters"] == parameter_count(VARIANTS[tiny_model], 2, 16)
    assert only["accuracy"] == pytest.approx(only["curve"][-1]["val_accuracy"])
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.slow
def test_a_model_that_diverges_is_named_and_the_others_are_trained(
    done, refused, image_folder, tiny_model, monkeypatch, results
):
    monkeypatch.setitem(VARIANTS, "ViT-Other_8", VARIANTS[tiny_model])
    train = trials.train

    def diverging(model, source, recipe, *arguments, **options):
        if model == "ViT-Other_8":
            recipe = dataclasses.replace(recipe, learning_rate=1e30, clip_norm=0.0)
        return train(model, source, recipe, *arguments, **options)

    monkeypatch.setattr(trials, "train", diverging)
    words = ("train/compare.py", "--data", image_folder, "--out", "out", *QUICK, "--models")
    out, _ = done(*words, "ViT-Other_8", tiny_model)
    assert "training diverged before step" in out
    assert re.search(r"^ViT-Other_8 +\d+ +1 +diverged *$", out, re.MULTILINE)
    other, tiny = results()
    assert "lower the learning rate" in other["diverged"]
    assert tiny["steps"] == 11
    monkeypatch.setattr(trials, "train", None)
    assert "every run diverged" in refused(*words, "ViT-Other_8", code=3)


@pytest.mark.parametrize(
    ("checkpoints", "metrics", "saved", "advice"),
    [
        ([7], [], "the state after 7 of 11 steps", "go on"),
        ([], [{"step": 10}], "the weights after 10 of 11 steps", "repeat this run"),
        ([], [], "only the initial weights", "repeat this run"),
    ],
)
def test_whatever_was_saved_the_same_command_goes_on(
    runner, monkeypatch, capsys, checkpoints, metrics, saved, advice
):
    plan = SimpleNamespace(parameters=9, steps=11, batch_size=4, examples=10, first_step=5)
    states = SimpleNamespace(saved=lambda: checkpoints, newest_step=lambda: checkpoints[-1])

    def stopped(*arguments, hooks, **options):
        hooks.started(plan)
        raise Terminated(loop._saved("out", states, plan))

    monkeypatch.setattr(training, "run_trial", stopped)
    monkeypatch.setattr(runs, "open_run", lambda path: SimpleNamespace(metrics=lambda: metrics))
    with pytest.raises(Terminated) as raised:
        runner.run(Trial("a", "ViT_Ti16", RECIPE, None))
    assert str(raised.value) == f"out holds {saved}; start the same command again to {advice}"
    assert capsys.readouterr().out == "9 parameters, 11 steps of 4 of 10 images, from step 5\n"


@pytest.mark.slow
def test_a_trial_with_an_average_of_the_weights_is_judged_by_it(
    image_folder, tiny_model, tmp_path, capsys
):
    settings = dataclasses.replace(RECIPE, ema=0.99)
    arguments = compare.Arguments(data=str(image_folder), models=(tiny_model,), settings=settings)
    source, split = arguments.images()
    (trial,) = compare._trials_of(arguments, source, split)
    result = _trials.TrialRunner(source, tmp_path, arguments, "scratch").run(trial)
    run = runs.open_run(tmp_path / trial.name)
    report = keras_vit.evaluation.held_out_report(run, source, average=True)
    assert (result["judged_weights"], result["accuracy"]) == ("average", report.accuracy)
    assert result["accuracy"] == pytest.approx(result["curve"][-1]["ema_val_accuracy"])
    assert "% with the average of the weights\n" in capsys.readouterr().out


def test_the_time_of_all_trainings_is_said_first(tmp_path, capsys, monkeypatch):
    recipe = Recipe(learning_rate=0.1)
    trials = [
        Trial(str(i), name, dataclasses.replace(recipe, seed=i, learning_rate=i / 10), None)
        for i, name in enumerate(("ViT_Ti16", "BiT_R50x1", "ViT_Ti16", "ViT_Ti16"))
    ]
    plans = [SimpleNamespace(too_large="", seconds=seconds) for seconds in (61.0, 62.0)]
    dry_run = mock.Mock(side_effect=[(plan, None) for plan in plans])
    monkeypatch.setattr(training, "dry_run", dry_run)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "result.json").touch()
    _trials.print_total_time(trials, None, tmp_path)
    *timing, total = capsys.readouterr().out.splitlines()
    # Each model is timed once.
    assert [call.args[0] for call in dry_run.call_args_list] == ["ViT-Ti_16", "BiT-R50x1"]
    assert timing == [
        "compiling and timing some steps of ViT-Ti_16",
        "compiling and timing some steps of BiT-R50x1",
    ]
    assert total == "about 3 min 4 s for 3 runs, measured with some steps"
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


def test_a_sweep_compares_the_averages_and_shows_what_diverged():
    def tried(loss, average):
        curve = [{"val_loss": loss, "ema_val_loss": average}]
        return {**FIGURES, "judged_weights": "average", "curve": curve}

    results = {0.1: tried(1.0, 3.0), 0.2: tried(2.0, 1.5)}
    assert max(results, key=lambda rate: _trials.quality(results[rate])) == 0.2
    header, _, line, *_ = sweep._table(results, 0.2, results[0.2]).splitlines()
    assert "accuracy of the average" in header
    assert "loss of the average" in header
    assert "3.0000" in line
    diverged = {"diverged": "x", "seconds": 1.0}
    table = sweep._table({0.1: FIGURES, 0.2: diverged}, 0.1, FIGURES)
    assert "average" not in table
    assert re.search(r"^0\.2 +development +diverged *$", table, re.MULTILINE)


def test_several_trainings_bring_no_warning_that_functions_are_compiled_again(
    runner, monkeypatch, caplog
):
    monkeypatch.setattr(training, "run_trial", lambda *a, **k: {"diverged": "the loss is nan"})
    runner.run(Trial("a", "ViT_Ti16", RECIPE, None))
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
    arguments = compare.Arguments(
        data=str(shared_folder), models=("ViT_Pico4",), fractions=(1.0, 0.5), seeds=(1, 2),
        settings=RECIPE,
    )  # fmt: skip
    tags = [trial.tags for trial in compare._trials_of(arguments, *arguments.images())]
    assert [(each["fraction"], each["seed"]) for each in tags] == [(0.5, 0), (1.0, 0), (0.5, 1)]


@pytest.mark.slow
def test_a_sweep_trains_with_the_best_learning_rate_on_all_training_images(
    done, image_folder, tiny_model, tmp_path
):
    words = ("--data", image_folder, "--model", tiny_model, "--out", "out", *QUICK)
    for rates in (["1e-9"], ["1e-9", "0.03"]):  # the second call adds one, which is better
        out, error = done("train/sweep.py", *words, "--learning-rates", *rates)
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
    monkeypatch.setattr(trials, "train", None)
    (tmp_path / "out" / name).mkdir(parents=True)
    earlier = {"format": 1, "settings": {"batch_size": 5}, "result": {}}
    (tmp_path / "out" / name / "result.json").write_text(json.dumps(earlier))
    words = ("--data", image_folder, "--model", tiny_model, "--out", "out", *QUICK)
    words += ("--learning-rates", "1e-9", "0.03")
    code, _, error = invoke("train/sweep.py", *words, cwd=tmp_path)
    assert code == 2
    assert f"out/{name} holds a finished trial with other settings" in error


@pytest.mark.parametrize("file", ["trials/x/spec.json", "compare.json"])
def test_a_folder_of_the_same_command_is_used_again(tmp_path, file):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    assert compare.Arguments(out=tmp_path).folder("compare") == tmp_path


def test_a_dry_run_says_what_training_needs_and_writes_nothing(
    done, image_folder, tiny_model, tmp_path
):
    before = sorted(tmp_path.rglob("*"))
    words = ("--data", image_folder, "--model", tiny_model, *QUICK, "--dry-run")
    out, _ = done("train/fit.py", *words)
    count = parameter_count(VARIANTS[tiny_model], 2, 16)
    assert f"training ViT-Test_8 at 16 x 16 pixels, {count:,} parameters, to runs/" in out
    assert "11 steps of 4 images" in out
    last = r"\nof the memory: .*\ncompiling and timing some steps\ntime: about \d+ s, measured with"
    assert re.search(last, out)
    assert "rises to 0.003 in 1 step, then falls to 0 as a cosine" in out
    assert f"parameters {4 * count / 2**20:.1f} MiB" in out
    # AdamW keeps two values for each parameter, and a few counters.
    assert f"adamw {8 * count / 2**20:.1f} MiB" in out
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_needs_no_weights_but_says_that_training_does(
    done, image_folder, tiny_model, tmp_path
):
    words = ("--recipe", "finetune", "--data", image_folder, "--model", tiny_model, *QUICK)
    out, _ = done("train/fit.py", *words, "--dry-run")
    line = "weights: none given; needed for training, such as --weights augreg\n"
    assert line in out
    count = parameter_count(VARIANTS[tiny_model], 2, 16)
    assert f"training ViT-Test_8 at 16 x 16 pixels, {count:,} " in out
    keras_vit.save_weights(keras_vit.create_model(tiny_model, 2, 16), tmp_path / "start.npz")
    with_weights, _ = done("train/fit.py", *words, "--weights", "start.npz", "--dry-run")
    measured = re.compile(r"(memory|time): .*")
    assert measured.sub("", with_weights) == measured.sub("", out.replace(line, ""))


@pytest.fixture
def dry_run(shared_folder, tiny_model):
    """`training.dry_run` of the small model, which chooses whether to compile."""
    source = open_source(shared_folder)

    def run(recipe=RECIPE, **more):
        return training.dry_run(tiny_model, source, dataclasses.replace(recipe, jit=None), **more)

    return run


def test_a_dry_run_counts_the_teacher_and_the_devices(dry_run, tiny_model):
    _, alone = dry_run()
    taught = dataclasses.replace(RECIPE, distillation="hard")
    teacher = training.build(tiny_model, ["blue", "red"], RECIPE)
    _, costs = dry_run(taught, teacher=teacher)
    assert costs.parameters == 2 * alone.parameters
    assert costs.step_flops == alone.step_flops + 4 * alone.forward_flops
    plan, costs = dry_run(engine=Engine(replicas=2))
    assert plan.devices == 2
    assert costs.parameters == alone.parameters
    assert costs.activations == alone.activations // 2


def test_a_dry_run_refuses_a_teacher_without_its_setting(dry_run, tiny_model):
    message = "a teacher needs distillation='soft' or distillation='hard'"
    with pytest.raises(UsageError, match=message):
        dry_run(teacher=keras_vit.create_model(tiny_model, 2, 16))


@pytest.mark.parametrize(
    ("parts", "flops", "timed"),
    [(1, 1e15, 1), (2, 1e15, 2), (64, 1e15, 2), (64, 8e12, 8), (64, 1e9, 64)],
)
def test_of_many_parts_that_take_long_some_are_timed(parts, flops, timed):
    assert run_module.parts_to_time(parts, flops) == timed


def test_the_time_of_some_parts_is_multiplied(dry_run, monkeypatch):
    def time_of(plan, learner, batches):
        assert (learner.accumulate, len(next(iter(batches))[0])) == (2, 4)
        return 3.0

    monkeypatch.setattr(run_module, "parts_to_time", lambda parts, flops: 2)
    monkeypatch.setattr(run_module, "time_of", time_of)
    plan, _ = dry_run(dataclasses.replace(RECIPE, batch_size=8, accumulate=4))
    assert (plan.batch_size, plan.accumulate, plan.seconds) == (8, 4, 6.0)


def test_the_table_of_recipes_names_every_recipe(done):
    out, error = done("train/fit.py", "--recipes")
    assert error == ""
    for name in PRESETS:
        assert name.startswith("augreg-") or f"\n{name} " in out
    assert "aug_light1,aug_light2" in out
    *lines, _ = [line for line in out.splitlines() if not line.startswith("  command ")]
    assert max(map(len, lines)) <= 100
    entry = next(entry for entry in out.split("\n\n") if entry.startswith("finetune-pets"))
    for text in (
        "fit.py --recipe finetune-pets --weights imagenet21k\n", "500 steps of 512",
        "384 px, from imagenet21k", "cost      256,000 images", "94.43%", "published", "table 4",
    ):  # fmt: skip
        assert text in entry


def test_the_commands_of_the_recipes_pass_the_checks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = "runs/imagenet2012/weights.npz"
    for name in ("FOLDER/a/1.jpg", "FOLDER/b/2.jpg", "RUN/spec.json", weights):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for name, preset in PRESETS.items():
        read = _arguments.read(fit.Arguments, preset.options(name).split(), fit.defaults)
        assert (read.recipe, read.settings) == (name, preset.recipe)
        assert (read.weights or "") == preset.weights


@pytest.mark.parametrize(
    ("model", "suggested"),
    [("ViT_B16", "ViT_B16"), ("BiT_R50x1", "ViT_S16"), ("ViT_Pico4", "ViT_S16")],
)
def test_the_command_that_fit_suggests_has_weights_and_another_folder(model, suggested):
    words = ["--model", model, "--out", "runs/mine"]
    text = fit._from_random_weights(_arguments.read(fit.Arguments, words, fit.defaults))
    end = f" --data digits --weights augreg --model {suggested} --out runs/mine-augreg"
    assert text.endswith(end)
