"""The commands as a user runs them: other folders, real files, one-line errors, Ctrl-C."""

import functools
import json
import re
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_vit import _files, cli, data, deploy, evaluation, runs
from keras_vit.cli import evaluate
from keras_vit.cli._arguments import command_module, options_of
from keras_vit.cli._printing import class_table
from keras_vit.evaluation.classification import Mistake

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(p.relative_to(ROOT) for d in ("train", "export") for p in (ROOT / d).glob("*.py"))
QUICK = ("--image-size", "16", "--duration", "2 steps", "--batch-size", "4", "--no-jit")


@pytest.mark.parametrize("script", COMMANDS, ids=str)
def test_help_shows_every_option_with_its_default(invoke, script, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    code, out, error = invoke(script, "--help", cwd=tmp_path)
    assert (code, error) == (0, "")
    assert max(map(len, out.splitlines())) <= max(90, len(str(ROOT)) + 60)  # "usage:" is one line
    assert "\x1b" not in out
    assert "options:" in out
    _, *described = re.split(r"\n  (?=--)", out)
    names = {path: name for name, path in cli.COMMANDS.items()}
    if script.as_posix() in names:
        options = options_of(command_module(names[script.as_posix()]).Arguments)
        assert len(described) == sum(bool(each.flag) for each in options) + 1  # --traceback
    for option in described:
        _, *value = option.split("  ")[0].split()
        assert not value or "efault: " in " ".join(option.split()), option


def test_help_shows_the_defaults_of_the_recipe(done):
    text, _ = done("train/fit.py", "--recipe", "finetune-pets", "--help")
    assert "The defaults are those of the recipe finetune-pets for tfds:oxford_iiit_pet." in text
    assert "(default: 500 steps)" in text
    assert "(default: sgd)" in text
    text, _ = done("train/fit.py", "--data", "photos", "--weights", "w.npz", "--help")
    assert "The defaults are those of the recipe finetune for photos." in text


def test_pictures_to_bundle_to_report(done, image_folder, tiny_model, tmp_path):
    (image_folder / "red" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "runs").mkdir()
    words = ("--data", image_folder, "--model", tiny_model, "--out", "runs/mine")
    out, error = done("train/fit.py", *words, *QUICK, "--augment", "none")
    assert "skipped red/torn.jpg: broken JPEG" in error
    assert out.startswith("from random weights; for comparison, ")
    assert "\ncompiling the first step\n" in out
    assert "held-out accuracy" in out
    assert out.endswith("train/evaluate.py --run runs/mine\n")
    # Without --run: the newest.
    exported, error = done("export/to_tflite.py", "--quantize", "none", "int8")
    assert error == "skipped 1 file, as before\n"
    assert re.search(r"export/run\.py --bundle runs/mine/export/\w+ --verify\n$", exported)
    for precision in ("float32", "int8"):
        bundle = tmp_path / "runs/mine/export" / precision
        description, _ = deploy.read_bundle(bundle)
        assert (description["model"], description["parity"]["images"]) == (tiny_model, 2)
        assert precision in exported
        assert deploy.check_golden(bundle).passed
    out, _ = done("train/evaluate.py", "--run", "runs/mine")
    assert "macro mean" in out
    assert out.endswith("export/to_tflite.py --run runs/mine --quantize float16 int8\n")
    assert "Exports" in (tmp_path / "runs/mine/report/index.html").read_text()


@pytest.mark.slow
def test_fit_reports_the_last_weights_and_their_average(done, image_folder, tiny_model, tmp_path):
    words = ("--data", "pictures", "--model", tiny_model, "--out", "run", *QUICK)
    out, _ = done("train/fit.py", *words, "--ema", "0.5")
    *_, last, average, _ = out.splitlines()
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    right, of_average = round(2 * metrics["val_accuracy"]), round(2 * metrics["ema_val_accuracy"])
    accuracy = f"held-out accuracy {metrics['val_accuracy']:.2%} ({right} of 2)"
    assert last == f"{accuracy} after 2 steps: run"
    average_accuracy = f"held-out accuracy {metrics['ema_val_accuracy']:.2%} ({of_average} of 2)"
    assert average == f"{average_accuracy} with the average of the weights: run/weights_ema.npz"
    out, _ = done("train/evaluate.py", "--run", "run")
    assert "the run also has an average of its weights, which --average judges\n" in out
    out, _ = done("train/evaluate.py", "--run", "run", "--average")
    assert f"\n{average_accuracy} with the average of the weights;" in out


@pytest.mark.slow
def test_rare_and_unrecognised_classes_are_reported(done, image_folder, tiny_model):
    (image_folder / "red" / "5.png").unlink()
    for i in range(6, 50):
        shutil.copy(image_folder / "blue" / "0.jpg", image_folder / "blue" / f"{i}.jpg")
    # No learning rate: the head stays zero, so the first class is always the answer.
    still = ("--learning-rate", "0", "--warmup", "0 steps", "--augment", "none")
    arguments = ("--data", "pictures", "--model", tiny_model, "--out", "run", *QUICK, *still)
    out, error = done("train/fit.py", *arguments)
    assert "55 images of 2 classes:\n  blue  50\n  red    5\n" in out
    few, imbalance, recall = error.strip().splitlines()
    assert few.startswith("warning: 1 of 2 classes have fewer than 10 images, red has 5.")
    assert imbalance.startswith("warning: the classes are strongly imbalanced: blue has 50 images")
    expected = "warning: 1 of 2 classes was never recognised among the held-out images: red (0 of"
    assert recall.startswith(expected)
    assert recall.endswith("or train with --class-weights balanced.")
    out, error = done("train/evaluate.py", "--run", "run")
    first = out.splitlines()[0]
    assert first.startswith(f"run run: {tiny_model}, 16 x 16 pixels, 2 classes, trained on ")
    assert error.strip() == recall.replace("--class", f"python {ROOT / 'train/fit.py'} --class")
    _, error = done("train/fit.py", *arguments, "--overwrite", "--class-weights", "balanced")
    _, recall = error.strip().splitlines()  # what can be done about the imbalance is done
    assert recall.endswith("or train longer.")


def test_many_classes_are_summarised():
    labels = [f"class{i}" for i in range(1000)]
    lines = class_table(labels, range(1000)).splitlines()
    assert len(lines) == 21
    assert lines[0].split() == ["class999", "999"]
    assert lines[10].split() == ["...", "980", "more", "..."]
    assert lines[20].split() == ["class0", "0"]


def test_strict_stops_at_an_unreadable_picture(refused, image_folder):
    (image_folder / "red" / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    assert "torn.jpg" in refused("train/fit.py", "--data", image_folder, "--strict")


def test_wrong_pictures_are_lines_for_a_shell_and_a_low_accuracy_exits_with_3(
    invoke, run, tmp_path
):
    words = ("--run", run, "--wrong", "--min-accuracy", "0.999")
    code, out, error = invoke("train/evaluate.py", *words, cwd=tmp_path)
    wrong = json.loads((run / "report" / "report.json").read_text())["wrong"]
    assert wrong
    line = "{path}\t{label}\t{prediction}\t{probability:.4f}\n"
    assert out == "".join(line.format(**each) for each in wrong)
    assert code == 3
    about, _, line = error.splitlines()
    assert about.startswith(f"run {run}: ")
    assert "expected a held-out accuracy of 99.90% or more. Received:" in line


def test_a_name_with_a_tab_stays_in_its_column(monkeypatch, capsys, trained_run):
    mistakes = [Mistake("a/b\tc\n.png", "a", "b", 0.5)]
    report = SimpleNamespace(wrong=mistakes, score=("accuracy", 0.5))
    monkeypatch.setattr(evaluation, "evaluate", lambda *arguments: (report, None))
    evaluate.run(evaluate.Arguments(run=trained_run.path, wrong=True))
    assert capsys.readouterr().out == "a/b\\tc\\n.png\ta\tb\t0.5000\n"


@pytest.mark.slow
def test_pictures_that_moved_are_named_and_found_again(
    done, refused, image_folder, tiny_model, tmp_path
):
    done("train/fit.py", "--data", image_folder, "--model", tiny_model, "--out", "run", *QUICK)
    moved = image_folder.rename(tmp_path / "moved")
    line = refused("train/evaluate.py", "--run", "run")
    assert "a folder that is not there; name their current folder with --data=FOLDER." in line
    arguments = ("--run", "run", "--data", moved)
    done("train/evaluate.py", *arguments)
    shutil.copytree(moved / "red", moved / "aaa")
    line = refused("export/to_tflite.py", *arguments)
    assert "expected the 2 classes of run. Received: 3, added ['aaa']" in line


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
    for line in process.stdout:
        if line.startswith("step") and "held-out" in line:  # an epoch has ended
            break
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    saved = r"run holds the state after \d+ of \d+ steps; go on with --resume."
    assert re.fullmatch(f"{word}; {saved}", error.strip())
    run = runs.open_run(tmp_path / "run")
    assert len(run.metrics()) >= 1
    assert np.asarray(run.model().get_layer("head").kernel).any()  # no longer the fresh weights
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


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
def test_resume_needs_only_the_run_and_as_many_checkpoints_are_kept_as_asked(
    done, refused, image_folder, tiny_model, tmp_path
):
    words = ("--data", image_folder.name, "--out", "run", "--recipe", "digits", *QUICK)
    words += ("--model", tiny_model, "--learning-rate", "0.01", "--duration", "9 steps")
    done("train/fit.py", *words, "--checkpoint-every", "2steps", "--keep-checkpoints", "3")
    steps = sorted(int(path.stem[-9:]) for path in (tmp_path / "run/checkpoints").iterdir())
    assert steps == [6, 8, 9]
    again = ("train/fit.py", "--out", "run", "--resume", "--duration", "10 steps")
    out, _ = done(*again)
    assert "after 10 steps: run" in out
    assert f"recipe digits; reading {image_folder}\n" in out
    run = runs.open_run(tmp_path / "run")
    assert (run.setting("learning_rate"), run.setting("image_size")) == (0.01, 16)
    message = "Received: --batch-size=2, was 4; leave them out to go on."
    assert message in refused(*again, "--batch-size", "2")


@pytest.mark.parametrize("word", ["--overwrite", "--resume"])
def test_a_run_that_another_process_writes_is_refused_before_the_pictures_are_read(
    refused, trained_run, monkeypatch, word
):
    monkeypatch.setattr(data, "open_source", lambda *a: pytest.fail("the pictures were read"))
    with _files.locked(trained_run.path):
        line = refused("train/fit.py", "--data", "digits", "--out", trained_run.path, word)
    assert "another process is writing" in line


@pytest.mark.soak(of="kills")
def test_a_full_disk_is_one_line_and_leaves_the_old_bundle(done, command, run, tmp_path):
    done("export/to_tflite.py", "--run", run)
    bundle = run / "export" / "float32"
    before = (bundle / "model.json").read_bytes()
    size = (bundle / "model.tflite").stat().st_size
    for limit in (10_000, size - 1_000):  # while converting, and while writing the bundle
        limited = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        words = ("export/to_tflite.py", "--run", run)
        result = command(*words, cwd=tmp_path, check=2, preexec_fn=limited)
        (line,) = result.stderr.splitlines()
        path = line.removeprefix("to_tflite.py: ").partition(" could not be written: File too ")[0]
        assert path in (str(bundle), f"a temporary file in {tempfile.gettempdir()}")
        assert (bundle / "model.json").read_bytes() == before
        deploy.read_bundle(bundle)
    names = ["card.md", "float32", "plot.png", "table.json"]
    assert sorted(path.name for path in bundle.parent.iterdir()) == names
