"""The table of few labels is made of the results of the comparisons."""

import json

import few_labels


def test_a_row_is_the_mean_of_a_start_for_each_number_of_labels(tmp_path):
    for start, shift in (("scratch", 0.0), ("mae", 0.2)):
        results = [
            {"images": images, "accuracy": accuracy + shift}
            for images, accuracy in ((500, 0.2), (500, 0.3), (5000, 0.5))
        ]
        (tmp_path / f"few-{start}").mkdir()
        (tmp_path / f"few-{start}/compare.json").write_text(json.dumps({"results": results}))
    starts = {"scratch": (None, "random weights"), "mae": ("mae-cifar10", "MAE")}
    header, rows = few_labels.summary(tmp_path, starts)
    assert header == ["start", "500 labels", "5,000 labels"]
    assert rows == [
        ["random weights", "25.00% ± 7.07", "50.00%"],
        ["MAE", "45.00% ± 7.07", "70.00%"],
    ]


def test_features_have_the_better_regularisation_of_each_number_of_images(
    invoke, trained_run, tmp_path
):
    words = ("--run", trained_run.path, "--out", tmp_path / "mae/fewshot", "--shots", 1, 5)
    code, out, error = invoke("train/fewshot.py", *words, "--l2", "1", "1e9", cwd=tmp_path)
    assert code == 0, error
    header, rows = few_labels.features(tmp_path, {"mae": ("mae-cifar10", "MAE")})
    assert header == ["start", "1 of each class", "5 of each class", "20 nearest neighbours"]
    name, one, five, nearest = rows[0]
    assert name == "MAE"
    for accuracy in (one, five):
        assert accuracy.replace("%", "") in out
    assert f"20 nearest neighbours: {nearest}" in out


def test_a_run_is_done_after_its_last_step(trained_run, tmp_path):
    assert few_labels.is_done(trained_run.path)
    assert not few_labels.is_done(tmp_path)
