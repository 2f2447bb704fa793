"""Several threads export at the same time, in a process that is not ours."""

import os
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from ai_edge_quantizer import model_modifier

import keras_vit
from keras_vit import _quiet
from keras_vit.evaluation import plots

PRECISIONS = ("none", "float16", "dynamic", "int8", "int16x8", "int4", "int8", "dynamic")


def streams():
    return sys.stdout, sys.stderr, os.fstat(1).st_ino, os.fstat(2).st_ino, dict(os.environ)


@pytest.mark.slow
def test_eight_threads_give_the_bytes_of_one_and_leave_the_process_as_it_was(sample, tmp_path):
    data = np.concatenate([sample.images, sample.converter.calibration])

    def export(i, name):
        path = tmp_path / f"{name}-{i}.tflite"
        keras_vit.export_tflite(sample.model, path, PRECISIONS[i], data)
        return path.read_bytes()

    one = [export(i, "one") for i in range(8)]
    before, filters = streams(), list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        eight = list(pool.map(export, range(8), ["eight"] * 8))
    assert [a == b for a, b in zip(one, eight, strict=True)] == [True] * 8
    assert streams() == before
    assert warnings.filters == filters


@pytest.mark.parametrize("precision", ["dynamic", "int8"])
def test_quantising_neither_prints_nor_redirects_what_others_print(
    sample, monkeypatch, capfd, precision
):
    seen = []
    whole = model_modifier.ModelModifier.modify_model

    def watched(*arguments, **keywords):
        seen.append(streams())
        return whole(*arguments, **keywords)

    # Another test in this process may have called a command.
    monkeypatch.setattr(_quiet, "_is_own_process", False)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    before, images = streams(), sample.converter.calibration
    monkeypatch.setattr(model_modifier.ModelModifier, "modify_model", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        keras_vit.deploy.to_tflite(sample.model, precision, images)
    assert seen == [before]
    assert capfd.readouterr().out == ""


def test_a_plot_leaves_the_settings_of_the_process_as_they_were():
    before = dict(matplotlib.rcParams)
    metrics = [{"step": i, "loss": 1 / i, "accuracy": 0.5} for i in (1, 2)]
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: plots.curve(metrics, "loss"), range(8)))) == 1
    assert dict(matplotlib.rcParams) == before
