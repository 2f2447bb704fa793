"""Accuracy with few labels: from scratch, after masked patch prediction, and after MAE.

ViT-Pico/4 is pre-trained on all training images of CIFAR-10 without their classes, in both ways for
the same number of images. The features of both, and those of random weights, are probed. Then it is
trained on a fraction of the images with classes, from random weights and from both, each with the
same settings and the same seeds. What is done already is not repeated, so that the command can be
stopped and started again.

    python benchmarks/few_labels.py --data cifar10:cifar
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from keras_vit import runs
from keras_vit.cli._printing import table
from keras_vit.training import Recipe
from keras_vit.training.plan import steps_of

ROOT = Path(__file__).parents[1]
# The recipe of each start, and its name in the table.
STARTS = {
    "scratch": (None, "random weights"),
    "masked": ("masked-patch-cifar10", "masked patch prediction"),
    "mae": ("mae-cifar10", "MAE"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="cifar10", help="as of fit (default: cifar10)")
    parser.add_argument("--out", type=Path, default=Path("runs/few-labels"))
    parser.add_argument("--fractions", nargs="+", default=["0.01", "0.1"])
    parser.add_argument("--seeds", default="3", help="runs of each row (default: 3)")
    parser.add_argument("--duration", default="600 steps", help="of each run with classes")
    parser.add_argument("--pretraining", default="20 epochs", help="without classes")
    options = parser.parse_args()
    for start, (recipe, _) in STARTS.items():
        if recipe is None:
            write_random(options.out / start)
        else:
            pretrain(recipe, options.out / start, options)
        probe(options.out / start, options)
    for start in STARTS:
        tune(start, options)
    print(f"\nfrozen features\n{table(*features(options.out, STARTS))}")
    print(f"\nfine-tuned\n{table(*summary(options.out, STARTS))}")


def write_random(out: Path) -> None:
    """Writes random weights, of which the probe needs a file."""
    import keras

    import keras_vit

    keras.utils.set_random_seed(0)
    out.mkdir(parents=True, exist_ok=True)
    keras_vit.save_weights(keras_vit.ViT_Pico4(num_classes=10, image_size=32), out / "weights.npz")


def pretrain(recipe: str, out: Path, options: Any) -> None:
    """Trains without classes, unless it is done."""
    words = ["--recipe", recipe, "--data", options.data, "--duration", options.pretraining]
    if not is_done(out):
        resume = ["--resume"] if (out / "spec.json").is_file() else []
        saved = ["--checkpoint-every", "5 minutes"]
        _run("train/fit.py", *words, "--out", str(out), *saved, *resume)


def probe(out: Path, options: Any) -> None:
    """Measures the features of weights, unless that is done."""
    if not (out / "fewshot/fewshot.json").is_file():
        _run(
            "train/fewshot.py", "--weights", str(out / "weights.npz"), "--model", "ViT_Pico4",
            "--data", options.data, "--l2", "1", "1024", "--out", str(out / "fewshot"),
        )  # fmt: skip


def tune(start: str, options: Any) -> None:
    """Trains with classes from a start."""
    weights = [] if start == "scratch" else ["--weights", str(options.out / start / "weights.npz")]
    _run(
        "train/compare.py", "--models", "ViT_Pico4", "--recipe", "cifar10", "--data", options.data,
        "--fractions", *options.fractions, "--seeds", options.seeds, "--duration", options.duration,
        "--batch-size", "64", "--learning-rate", "1e-3", *weights,
        "--out", str(options.out / f"few-{start}"),
    )  # fmt: skip


def is_done(out: Path) -> bool:
    """Whether a run without classes has made all its steps."""
    if not (out / "spec.json").is_file():
        return False
    run = runs.open_run(out)
    records, recipe = run.metrics(), Recipe(**run.recipe["recipe"])
    return bool(records) and records[-1]["step"] >= steps_of(recipe, run.training_images)


def features(out: Path, starts: Any) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the probes: the better regularisation for each number of images."""
    rows = []
    for start, (_, name) in starts.items():
        found = json.loads((out / start / "fewshot/fewshot.json").read_text())
        by_shots: dict[int, dict[float, list[float]]] = {}
        for each in found["fewshot"]:
            of_shots = by_shots.setdefault(each["shots"], {})
            of_shots.setdefault(each["l2"], []).append(each["accuracy"])
        best = [max(of_shots.values(), key=statistics.mean) for of_shots in by_shots.values()]
        nearest = found["nearest_neighbours"]
        rows.append([name, *map(_accuracy, best), _accuracy([nearest["accuracy"]])])
    header = [f"{shots} of each class" for shots in by_shots]
    return ["start", *header, f"{nearest['neighbours']} nearest neighbours"], rows


def summary(out: Path, starts: Any) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table, from the results of the comparisons."""
    found = {
        start: json.loads((out / f"few-{start}/compare.json").read_text())["results"]
        for start in starts
    }
    images = sorted({result["images"] for results in found.values() for result in results})
    rows = [
        [
            name,
            *(_accuracy([r["accuracy"] for r in found[start] if r["images"] == n]) for n in images),
        ]
        for start, (_, name) in starts.items()
    ]
    return ["start", *(f"{n:,} labels" for n in images)], rows


def _accuracy(values: list[float]) -> str:
    spread = f" \u00b1 {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}%{spread}"


def _run(*words: str) -> None:
    print(f"\n$ python {' '.join(words)}", flush=True)
    # Importing Keras may set the level of messages, which commands take for the user's wish.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")
    }
    done = subprocess.run([sys.executable, ROOT / words[0], *words[1:]], env=environment)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
