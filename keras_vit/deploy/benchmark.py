"""Latency of several files, in turn, so that a machine's moods hit all of them alike."""

from __future__ import annotations

import time

import numpy as np

from keras_vit.deploy.runner import Runner


def latencies(
    models: dict[str, bytes], threads: int = 2, rounds: int = 30, budget_s: float = 10.0
) -> dict[str, float]:
    """The median time of one image through each model, in milliseconds.

    Args:
        models: names and `.tflite` contents.
        threads: of each interpreter.
        rounds: how often each is run, after one run to warm up.
        budget_s: stop after this time and at least three rounds.
    """
    runners = {name: Runner(content, threads) for name, content in models.items()}
    inputs = {name: np.zeros(runner.input["shape"], np.float32) for name, runner in runners.items()}
    times: dict[str, list[float]] = {name: [] for name in runners}
    start = time.perf_counter()
    for done in range(rounds + 1):
        for name, runner in runners.items():
            before = time.perf_counter()
            runner(inputs[name])
            times[name].append((time.perf_counter() - before) * 1e3)
        if done >= 3 and time.perf_counter() - start > budget_s:
            break
    return {name: float(np.median(values[1:])) for name, values in times.items()}
