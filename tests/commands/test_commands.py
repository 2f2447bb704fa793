"""The commands as a user runs them: other folders, real files, one-line errors, Ctrl-C."""

from __future__ import annotations

import importlib
import json
import re
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_vit import _files, data, deploy, evaluation, runs
from keras_vit.cli import evaluate, main
from keras_vit.cli._printing import class_table
from keras_vit.evaluation.classification import Mistake

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(p.relative_to(ROOT) for d in ("train", "export") for p in (ROOT / d).glob("*.py"))
QUICK = ("--image-size", "16", "--duration", "2 steps", "--batch-size", "4", "--no-jit")


def one_line(code, error):
    """The one line of a command that refused."""
    assert code == 2, error
    (line,) = error.strip().splitlines()
    return line


@pytest.mark.parametrize("script", COMMANDS, ids=str)
def test_help_shows_every_option_with_its_default(invoke, script, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    code, out, error = invoke(script, "--help", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert max(map(len, out.splitlines())) <= max(90, len(str(ROOT)) + 60)  # "usage:" is one line
    assert "\x1b" not in out
    assert "options:" in out
    _, *described = re.split(r"\n  (?=--)", out)
    assert len(described) >= 5
    for option in described:
        _, *value = option.split("  ")[0].split()
        assert not value or "efault: " in " ".join(option.split()), option


def test_help_shows_the_defaults_of_the_recipe(invoke, tmp_path):
    _, text, _ = invoke("train/fit.py", "--recipe", "finetune-pets", "--help", cwd=tmp_path)
    assert "The defaults are those of the recipe finetune-pets for tfds:oxford_iiit_pet." in text
    assert "(default: 500 steps)" in text
    assert "(default: sgd)" in text
    _, text, _ = invoke(
        "train/fit.py", "--data", "photos", "--weights", "w.npz", "--help", cwd=tmp_path
    )
    assert "The defaults are those of the recipe finetune for photos." in text


def test_pictures_to_bundle_to_report(invoke, image_folder, tiny_model, tmp_path):
    (image_folder / "red" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "runs").mkdir()
    code, out, error = invoke(
        "train/fit.py", "--data", image_folder, "--model", tiny_model, "--out", "runs/mine",
        *QUICK, "--augment", "none", cwd=tmp_path,
    )  # fmt: skip
    assert code == 0
    assert "skipped red/torn.jpg: broken JPEG" in error
    assert out.startswith("from random weights; for comparison, ")
    assert "\ncompiling the first step\n" in out
    assert "held-out accuracy" in out
    assert out.endswith("train/evaluate.py --run runs/mine\n")
    arguments = ("--quantize", "none", "int8")  # without --run: the newest
    code, exported, error = invoke("export/to_tflite.py", *arguments, cwd=tmp_path)
    assert code == 0, error
    assert error == "skipped 1 file, as before\n"
    assert re.search(r"export/run\.py --bundle runs/mine/export/\w+ --verify\n$", exported)
    for precision in ("float32", "int8"):
        description, golden = deploy.read_bundle(tmp_path / "runs/mine/export" / precision)
        assert description["model"] == tiny_model
        assert description["parity"]["images"] == 2
        assert precision in exported
        runner = deploy.Runner(tmp_path / "runs/mine/export" / precision / "model.tflite")
        np.testing.assert_allclose(runner(golden["tensor"][None])[0], golden["scores"], atol=1e-4)
    code, out, error = invoke("train/evaluate.py", "--run", "runs/mine", cwd=tmp_path)
    assert code == 0, error
    assert "macro mean" in out
    assert out.endswith("export/to_tflite.py --run runs/mine --quantize float16 int8\n")
    assert "Exports" in (tmp_path / "runs/mine/report/index.html").read_text()


def test_mistakes_come_before_the_pictures_are_read(invoke, tiny_model, tmp_path, monkeypatch):
    def read(*arguments):
        raise AssertionError("the pictures were read")

    for label in ("a", "b"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
    monkeypatch.setattr(data, "open_source", read)
    for arguments, message in (
        (("--model", "ViT_B61"), "unknown model"),
        (("--image-size", "30"), "must be a multiple of"),
        (("--duration", "soon"), "must be a number and a unit"),
        (("--warmup", "soon"), "must be a number and a unit"),
        (("--warmup", "100%"), "--warmup must be shorter than training, --duration"),
        (("--model", "BiT_R50x1", "--drop-path", "0.1"), "a setting of Vision Transformers"),
        (("--checkpoint-every", "soon"), "--checkpoint-every must be a number and a unit"),
        (("--recipe", "finetune"), "--recipe finetune starts from weights"),
        (("--distillation", "soft"), "--distillation soft needs a teacher: name its run folder"),
        (("--weights", "gone.npz"), "gone.npz: there is no such file of weights"),
        (("--out", "pictures/run"), "lies inside the data"),
        (("--out", tmp_path / "file"), "is a file"),
    ):
        (tmp_path / "file").write_text("")
        given = ("--data", "pictures", "--model", tiny_model, *QUICK, *arguments)
        code, out, error = invoke("train/fit.py", *given, cwd=tmp_path)
        assert message in one_line(code, error)
        assert out == ""


@pytest.mark.slow
def test_fit_reports_the_last_weights_and_their_average(invoke, image_folder, tiny_model, tmp_path):
    words = ("--data", "pictures", "--model", tiny_model, "--out", "run", *QUICK)
    code, out, error = invoke("train/fit.py", *words, "--ema", "0.5", cwd=tmp_path)
    assert code == 0, error
    *_, last, average, _ = out.splitlines()
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    right, of_average = round(2 * metrics["val_accuracy"]), round(2 * metrics["ema_val_accuracy"])
    accuracy = f"held-out accuracy {metrics['val_accuracy']:.2%} ({right} of 2)"
    assert last == f"{accuracy} after 2 steps: run"
    average_accuracy = f"held-out accuracy {metrics['ema_val_accuracy']:.2%} ({of_average} of 2)"
    assert average == f"{average_accuracy} with the average of the weights: run/weights_ema.npz"
    _, out, _ = invoke("train/evaluate.py", "--run", "run", cwd=tmp_path)
    assert "the run also has an average of its weights, which --average judges\n" in out
    _, out, _ = invoke("train/evaluate.py", "--run", "run", "--average", cwd=tmp_path)
    assert f"\n{average_accuracy} with the average of the weights;" in out


@pytest.mark.slow
def test_as_many_checkpoints_are_kept_as_asked(invoke, image_folder, tiny_model, tmp_path):
    words = ("--data", "pictures", "--model", tiny_model, "--out", "run", *QUICK)
    words += ("--duration", "9 steps", "--checkpoint-every", "2 steps", "--keep-checkpoints", "3")
    code, _, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert code == 0, error
    steps = sorted(int(path.stem[-9:]) for path in (tmp_path / "run/checkpoints").iterdir())
    assert steps == [6, 8, 9]


@pytest.mark.slow
def test_rare_and_unrecognised_classes_are_reported(invoke, image_folder, tiny_model, tmp_path):
    (image_folder / "red" / "5.png").unlink()
    for i in range(6, 50):
        shutil.copy(image_folder / "blue" / "0.jpg", image_folder / "blue" / f"{i}.jpg")
    # No learning rate: the head stays zero, so the first class is always the answer.
    still = ("--learning-rate", "0", "--warmup", "0 steps", "--augment", "none")
    arguments = ("--data", "pictures", "--model", tiny_model, "--out", "run", *QUICK, *still)
    code, out, error = invoke("train/fit.py", *arguments, cwd=tmp_path)
    assert code == 0, error
    assert "55 images of 2 classes:\n  blue  50\n  red    5\n" in out
    few, imbalance, recall = error.strip().splitlines()
    assert few.startswith("warning: 1 of 2 classes have fewer than 10 images, red has 5.")
    assert imbalance.startswith("warning: the classes are strongly imbalanced: blue has 50 images")
    expected = "warning: 1 of 2 classes was never recognised among the held-out images: red (0 of"
    assert recall.startswith(expected)
    assert recall.endswith("or train with --class-weights balanced.")
    code, out, error = invoke("train/evaluate.py", "--run", "run", cwd=tmp_path)
    first = out.splitlines()[0]
    assert first.startswith(f"run run: {tiny_model}, 16 x 16 pixels, 2 classes, trained on ")
    assert error.strip() == recall.replace("--class", f"python {ROOT / 'train/fit.py'} --class")
    arguments += ("--overwrite", "--class-weights", "balanced")
    code, _, error = invoke("train/fit.py", *arguments, cwd=tmp_path)
    _, recall = error.strip().splitlines()  # what can be done about the imbalance is done
    assert recall.endswith("or train longer.")


def test_many_classes_are_summarised():
    labels = [f"class{i}" for i in range(1000)]
    lines = class_table(labels, range(1000)).splitlines()
    assert len(lines) == 21
    assert lines[0].split() == ["class999", "999"]
    assert lines[10].split() == ["...", "980", "more", "..."]
    assert lines[20].split() == ["class0", "0"]


def test_strict_stops_at_an_unreadable_picture(invoke, image_folder, tmp_path):
    (image_folder / "red" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    code, _, error = invoke("train/fit.py", "--data", image_folder, "--strict", cwd=tmp_path)
    assert "torn.jpg" in one_line(code, error)


def test_accuracy_below_what_is_asked_exits_with_3(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    arguments = ("--run", run, "--min-accuracy", "0.999")
    code, out, error = invoke("train/evaluate.py", *arguments, cwd=tmp_path)
    assert "macro mean" in out
    assert code == 3
    *warnings, line = error.splitlines()  # a class may never be recognised by so short a training
    assert all(w.startswith("warning: ") for w in warnings)
    assert "expected a held-out accuracy of 99.90% or more. Received:" in line


def test_wrong_pictures_are_lines_that_a_shell_reads(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    code, out, _ = invoke("train/evaluate.py", "--run", run, "--wrong", cwd=tmp_path)
    wrong = json.loads((run / "report" / "report.json").read_text())["wrong"]
    assert code == 0
    assert wrong
    line = "{path}\t{label}\t{prediction}\t{probability:.4f}\n"
    assert out == "".join(line.format(**each) for each in wrong)


def test_a_name_with_a_tab_stays_in_its_column(monkeypatch, capsys, trained_run):
    mistakes = [Mistake("a/b\tc\n.png", "a", "b", 0.5)]
    report = SimpleNamespace(wrong=mistakes, accuracy=0.5)
    monkeypatch.setattr(evaluation, "evaluate", lambda *arguments: (report, None))
    evaluate.run(evaluate.Arguments(run=trained_run.path, wrong=True))
    assert capsys.readouterr().out == "a/b\\tc\\n.png\ta\tb\t0.5000\n"


def test_a_split_that_the_data_does_not_declare_is_one_line(invoke, trained_run, tmp_path):
    words = ("--run", trained_run.path, "--split", "test")
    code, _, error = invoke("train/evaluate.py", *words, cwd=tmp_path)
    line = one_line(code, error)
    assert "digits declares no splits. Received: --split test; the images that" in line
    assert line.endswith("are --split held_out.")


def test_a_missing_run_is_one_line_with_the_command_to_make_one(invoke, tmp_path):
    code, _, error = invoke("export/to_tflite.py", cwd=tmp_path)
    line = one_line(code, error)
    assert line.startswith("to_tflite.py: no run under ")
    assert f"make one with: python {ROOT / 'train/fit.py'} --data digits --out runs/d" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere: expected a folder"),
        (["--data", "empty"], "empty: expected two subfolders or more"),
        (["--data", "half"], "half: no readable picture in without, add pictures or remove"),
        (["--model", "ViT_B61"], "unknown model 'ViT_B61'; did you mean ViT-B_16?"),
        (["--image-size", "30"], "must be a multiple of patch_size=4. Received: 30 x 30"),
        (["--duration", "soon"], "must be a number and a unit"),
        (
            ["--batch-size", "0"],
            "--batch-size must be a positive integer. Received: --b",
        ),
        (["--batch-size", "many"], "--batch-size: expected an integer. Received: 'many'"),
        (["--epochs", "3"], "unknown option --epochs; did you mean --duration?"),
        (["--duraton", "3"], "unknown option --duraton; did you mean --duration?"),
        (["--batch", "8"], "unknown option --batch; in Python, keras_vit.export_tflite(..., batch"),
        (["--wd", "0.1"], "unknown option --wd; did you mean --weight-decay?"),
        (["--image-size", "8", "8", "8"], "--image-size takes 1 value or 2. Received: 8 8 8."),
        (["--recipe", "finetun"], "--recipe: unknown value 'finetun'; did you mean finetune?"),
        (["--weights", "none.npz"], "none.npz: there is no such file of weights."),
        (["--out", "half", "--model", "ViT_Pico4"], "half is not empty and is not a run"),
        (["--data", "pictures", "--out", "pictures/run"], "lies inside the data"),
        (["--seed", "8589934592"], "--seed must be below 2**32. Received: --seed=8589934592."),
    ],
)
def test_mistakes_are_one_line(invoke, image_folder, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    shutil.copytree(image_folder, tmp_path / "half")
    (tmp_path / "half" / "without").mkdir()
    code, _, error = invoke("train/fit.py", *arguments, cwd=tmp_path)
    assert message in one_line(code, error)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("export/to_tflite.py", ["--images", "0"], "--images must be a positive integer"),
        ("export/to_tflite.py", ["--threads", "0"], "--threads must be a positive integer"),
        ("export/to_tflite.py", ["--quantize"], "--quantize: expected at least one argument"),
        ("train/fit.py", ["--keep-checkpoints", "0"], "--keep-checkpoints must be a positive inte"),
        ("train/fit.py", ["--checkpoint-every", "0 steps"], "Received: --checkpoint-every '0 st"),
        ("train/evaluate.py", ["--batch-size", "0"], "--batch-size must be a positive integer"),
        ("train/evaluate.py", ["--min-accuracy", "97.5"], "--min-accuracy must lie in [0, 1]."),
    ],
)
def test_mistakes_with_options_of_models_are_one_line(invoke, tmp_path, script, arguments, message):
    code, _, error = invoke(script, *arguments, cwd=tmp_path)
    assert message in one_line(code, error)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit --model ViT_B17", "unknown model 'ViT_B17'; did you mean ViT-B_16"),
        ("fit --weights run", "run is a run; use run/weights.npz."),
        (
            "fit --recipe finetune",
            "--recipe finetune is for any images; give yours: --data FOLDER.",
        ),
        (
            "fit --recipe finetune --data digits",
            "--recipe finetune starts from weights. Received: no --weights",
        ),
        ("fit --recipe finetun", "--recipe: unknown value 'finetun'; did you mean finetune"),
        ("fit --data digit", "there is no such folder, did you mean digits?"),
        ("fit --duration soon", "--duration must be a number and a unit, such as '5 epochs'"),
        ("fit --warmup soon", "--warmup must be a number and a unit"),
        ("fit --warmup 100%", "--warmup must be shorter than training, --duration '40 epochs'"),
        ("fit --image-size 30", "must be a multiple of patch_size=4. Received: 30 x 30"),
        ("fit --checkpoint-every soon", "--checkpoint-every must be a number and a unit"),
        (
            "fit --model BiT_R50x1 --drop-path 0.1",
            "BiT-R50x1 is a ResNet, --drop-path is",
        ),
        ("compare --models ViT_B17", "unknown model 'ViT_B17'; did you mean ViT-B_16"),
        ("sweep --warmup 100%", "--warmup must be shorter than training"),
        ("export --run nope", "nope: expected a run folder; there is no such folder."),
        ("evaluate --run nope", "nope: expected a run folder; there is no such folder."),
        ("evaluate --run .", ". holds runs; give one of them: run, trials/a."),
        ("export --run .", ". holds runs; give one of them: run, trials/a."),
        ("predict a.png --run .", ". holds runs; give one of them: run, trials/a."),
        ("predict a.png --run nope", "nope: expected a run folder; there is no such folder."),
        ("export --min-runtime soon", "--min-runtime must be a version of TFLite"),
        ("export --weights run --out o", "run is a run; use --run run."),
        ("export --weights gone --out o", "gone: there is no such file; published weights need"),
        ("saved-model --weights a --model B --out o", "unknown model 'B'; choose one of "),
        ("fit --out gone --resume", "gone: expected a run folder; there is no such folder."),
        ("fit --out run/spec.json --dry-run", "spec.json is a file; choose another folder."),
        ("sweep --out run/spec.json", "run/spec.json is a file; choose another folder."),
        ("compare --out run/spec.json/x", "spec.json is a file; choose another folder."),
        ("compare --out run", "run is the folder of a run; choose another folder."),
        ("transfer --weights augreg --out run", "run is the folder of a run; choose another fol"),
        (
            "evaluate --run bundle",
            "bundle: expected a run folder. Received: a folder without spec.",
        ),
        ("inspect --run run gone.jpg", "gone.jpg: there is no such picture."),
        ("inspect --run run --out run", "run is not empty and holds no inspection; choose"),
        ("saved-model --run run --out run", "run is not empty and holds no SavedModel; choose"),
        (
            "card --run run --out run",
            "run has other files than those of a card, such as 'spec.json'",
        ),
        ("web --bundle bundle --out run", "run is not empty and holds no site; choose another"),
        ("web --bundle bundle --page gone", "gone: expected the folder web_demo of a clone; there"),
        ("android --bundle bundle --app gone", "gone: expected the folder android_demo of a clone"),
        ("compress --run run --duration soon", "--duration must be a number and a unit"),
        ("convert-checkpoint gone.npz out.npz", "gone.npz: expected a file of weights or a run"),
        ("convert-checkpoint --inspect gone.npz", "gone.npz: expected a file of weights or a run"),
    ],
)
def test_mistakes_come_before_anything_slow_is_imported(
    monkeypatch, capsys, tmp_path, line, message
):
    def load(*modules):
        raise AssertionError("the modules of the command were imported")

    name = line.split()[0]
    for run in ("run", "trials/a"):  # trials/ as compare writes it
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "spec.json").touch()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "model.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["keras-vit", *line.split()])
    command = importlib.import_module(f"keras_vit.cli.{name.replace('-', '_')}")
    monkeypatch.setattr(command, "load", load)
    with pytest.raises(SystemExit) as stop:
        main()
    assert message in one_line(stop.value.code, capsys.readouterr().err)


@pytest.mark.slow
def test_pictures_that_moved_are_named_and_found_again(invoke, image_folder, tiny_model, tmp_path):
    arguments = ("--data", image_folder, "--model", tiny_model, "--out", "run", *QUICK)
    assert invoke("train/fit.py", *arguments, cwd=tmp_path)[0] == 0
    moved = image_folder.rename(tmp_path / "moved")
    code, _, error = invoke("train/evaluate.py", "--run", "run", cwd=tmp_path)
    assert "is gone; name their current folder with --data=FOLDER." in one_line(code, error)
    arguments = ("--run", "run", "--data", moved)
    assert invoke("train/evaluate.py", *arguments, cwd=tmp_path)[0] == 0
    shutil.copytree(moved / "red", moved / "aaa")
    code, _, error = invoke("export/to_tflite.py", *arguments, cwd=tmp_path)
    assert "expected the 2 classes of run. Received: 3, added ['aaa']" in one_line(code, error)


def test_weights_that_do_not_fit_are_one_line(invoke, image_folder, fixtures, tmp_path):
    weights = fixtures / "vit_token.weights.npz"
    arguments = ("--data", image_folder, "--weights", weights, "--image-size", "32")
    line = one_line(*invoke("train/fit.py", *arguments, cwd=tmp_path)[::2])
    assert "does not fit the model in" in line
    assert "this file is another architecture: hidden_dim 48, not 192; depth 2, not 12" in line


@pytest.mark.soak(of="kills")
def test_a_full_disk_is_one_line_and_leaves_the_old_bundle(invoke, command, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    assert invoke("export/to_tflite.py", "--run", run, cwd=tmp_path)[0] == 0
    bundle = run / "export" / "float32"
    before = (bundle / "model.json").read_bytes()
    size = (bundle / "model.tflite").stat().st_size
    for limit in (10_000, size - 1_000):  # while converting, and while writing the bundle

        def no_file_beyond(limit=limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        result = command(
            "export/to_tflite.py", "--run", run, cwd=tmp_path, preexec_fn=no_file_beyond
        )
        line = one_line(result.returncode, result.stderr)
        path = line.removeprefix("to_tflite.py: ").partition(" could not be written: File too ")[0]
        assert path in (str(bundle), f"a temporary file in {tempfile.gettempdir()}")
        assert (bundle / "model.json").read_bytes() == before
        deploy.read_bundle(bundle)
    assert sorted(p.name for p in bundle.parent.iterdir()) == [
        "card.md",
        "float32",
        "plot.png",
        "table.json",
    ]


@pytest.mark.slow
@pytest.mark.flavours
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 75, "terminated")],
)
def test_interrupted_training_leaves_a_loadable_run(tmp_path, number, code, word):
    process = subprocess.Popen(
        [sys.executable, ROOT / "train/fit.py", "--out", "run", "--model", "ViT_Pico4",
         "--image-size", "8", "--no-jit", "--duration", "1000 epochs"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in a background suite
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert re.fullmatch(
        rf"{word}; run holds the state after \d+ of \d+ steps; go on with --resume.",
        error.strip(),
    )
    run = runs.open_run(tmp_path / "run")
    assert len(run.metrics()) >= 1
    head = np.asarray(run.model().get_layer("head").kernel)
    assert head.any()  # no longer the fresh weights
    leftovers = {p.name for p in (tmp_path / "run").iterdir() if p.name.startswith(".")}
    assert not leftovers


def test_the_check_of_ctrl_c_accepts_tracebacks_only_while_python_starts():
    program = runpy.run_path(str(Path(__file__).parent / "interrupt_commands.py"))
    judged, together = program["judged"], program["judged_together"]
    python = 'File "<frozen site>", line 226, in addsitedir\nKeyboardInterrupt\n'
    library = f'File "{ROOT}/keras_vit/cli/_program.py", line 9, in run\nKeyboardInterrupt\n'
    assert judged(130, "\ninterrupted.\n", 3) == "one line"
    assert judged(0, "", 3) == "had ended"
    for code in (1, -signal.SIGINT):
        assert judged(code, python, 0.05) == "Python itself"
        assert judged(code, python, 0.3).startswith("wrong")
        assert judged(code, library, 0.05).startswith("wrong")
    assert together({"one line": 1, "Python itself": 3}) is None
    assert together({"had ended": 9}) == "no interrupt was answered in one line"
    assert together({"one line": 9, "Python itself": 5}).startswith("expected at most 4")


@pytest.mark.slow
def test_resume_needs_only_the_run(invoke, image_folder, tiny_model, tmp_path):
    words = (
        "--model",
        tiny_model,
        "--checkpoint-every",
        "1step",
        *QUICK,
        "--learning-rate",
        "0.01",
    )
    arguments = ("--data", image_folder.name, "--out", "run", "--recipe", "digits", *words)
    code, _, error = invoke("train/fit.py", *arguments, cwd=tmp_path)
    assert code == 0, error
    again = ("--out", "run", "--resume", "--duration", "3 steps")
    code, out, error = invoke("train/fit.py", *again, cwd=tmp_path)
    assert code == 0, error
    assert "after 3 steps: run" in out
    assert f"recipe digits; reading {image_folder}\n" in out
    run = runs.open_run(tmp_path / "run")
    assert (run.setting("learning_rate"), run.setting("image_size")) == (0.01, 16)
    code, _, error = invoke("train/fit.py", *again, "--batch-size", "2", cwd=tmp_path)
    message = "Received: --batch-size=2, was 4; leave them out to go on."
    assert message in one_line(code, error)


@pytest.mark.parametrize("word", ["--overwrite", "--resume"])
def test_a_run_that_another_process_writes_is_refused_before_the_pictures_are_read(
    invoke, trained_run, tmp_path, monkeypatch, word
):
    monkeypatch.setattr(data, "open_source", lambda *a: pytest.fail("the pictures were read"))
    words = ("--data", "digits", "--out", trained_run.path, word)
    with _files.locked(trained_run.path):
        code, _, error = invoke("train/fit.py", *words, cwd=tmp_path)
    assert "another process is writing" in one_line(code, error)


def test_a_newer_run_is_refused_by_every_command(invoke, trained_run, tmp_path):
    run = shutil.copytree(trained_run.path, tmp_path / "run")
    spec = json.loads((run / "spec.json").read_text())
    (run / "spec.json").write_text(json.dumps(spec | {"format": 2}))
    for script in ("export/to_tflite.py", "train/evaluate.py"):
        code, _, error = invoke(script, "--run", run, cwd=tmp_path)
        assert "upgrade keras_vit" in one_line(code, error)
