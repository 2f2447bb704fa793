"""AugReg's index, with the columns and names of the real file."""

import dataclasses

import pytest

from keras_vit import UsageError
from keras_vit.weights.augreg import IndexRow, best, read_index

HEADER = (
    "name,ds,epochs,lr,aug,wd,do,sd,best_val,final_val,final_test,adapt_ds,adapt_lr,adapt_steps,"
    "adapt_resolution,adapt_final_val,adapt_final_test,params,infer_samples_per_sec,filename,"
    "adapt_filename"
)
LIGHT = "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.03-do_0.0-sd_0.0"
NONE = "S_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0"
SMALL = "S_16-i1k-300ep-lr_0.001-aug_medium2-wd_0.1-do_0.0-sd_0.0"
HYBRID = "R26_S_32-i21k-300ep-lr_0.001-aug_light1-wd_0.1-do_0.0-sd_0.0"
TUNED = "imagenet2012-steps_20k-lr_0.03-res_224"


def line(filename, final_val, tuned, val, test):
    model, ds = filename.split("-")[:2]
    name = model.replace("_S_", "+S_").replace("_", "/")
    aug = filename.partition("aug_")[2].partition("-")[0]
    dataset, *settings = tuned.split("-")
    steps, lr, resolution = (setting.partition("_")[2] for setting in settings)
    steps = {"0k": 500, "20k": 20000}[steps]
    return (
        f"{name},{ds},300.0,0.001,{aug},0.03,0.0,0.0,{final_val},{final_val},{final_val},{dataset},"
        f"{lr},{steps},{resolution},{val},{test},22050664,300.12,{filename},{filename}--{tuned}"
    )


LINES = [
    line(LIGHT, 0.46, "imagenet2012-steps_20k-lr_0.01-res_224", 0.830, 0.8100),
    line(LIGHT, 0.46, TUNED, 0.831, 0.8090),
    line(LIGHT, 0.46, "imagenet2012-steps_20k-lr_0.03-res_384", 0.850, 0.83728),
    line(LIGHT, 0.46, "oxford_iiit_pet-steps_0k-lr_0.003-res_224", 0.967, 0.93),
    line(NONE, 0.45, TUNED, 0.832, 0.8080),
    line(SMALL, 0.79, "imagenet2012-steps_20k-lr_0.01-res_224", 0.790, 0.7880),
    line(HYBRID, 0.47, "imagenet2012-steps_20k-lr_0.01-res_384", 0.852, 0.83846),
]


@pytest.fixture
def index(tmp_path):
    """Writes an index."""

    def write(lines=LINES, header=HEADER):
        (tmp_path / "index.csv").write_text("\n".join([header, *lines]) + "\n")
        return tmp_path / "index.csv"

    return write


def test_rows_are_read_as_numbers(index):
    rows = read_index(index())
    assert len(rows) == 7
    assert rows[2] == IndexRow(
        "S/16", "i21k", 300, 0.001, "light1", 0.03, 0.0, 0.0, 0.46, 0.46, 0.46,
        "imagenet2012", 0.03, 20000, 384, 0.85, 0.83728, 22050664, 300.12,
        LIGHT, f"{LIGHT}--imagenet2012-steps_20k-lr_0.03-res_384",
    )  # fmt: skip
    assert rows[6].name == "R26+S/32"


def test_columns_may_come_in_any_order_and_with_others(index):
    header = ",".join(["", *reversed(HEADER.split(",")), "later"])
    lines = [",".join(["0", *reversed(text.split(",")), "x"]) for text in LINES]
    assert read_index(index(lines, header)) == read_index(index())


def test_empty_cells_are_no_values(index):
    text = LINES[0].replace(",300.12,", ",,").replace("0.81,", "nan,")
    (row,) = read_index(index([text]))
    assert (row.infer_samples_per_sec, row.adapt_final_test) == (None, None)
    assert best([row], "S/16").top1 is None


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (LINES, HEADER.replace("adapt_final_val,", ""), "lacks adapt_final_val"),
        ([], "", "lacks name, ds, epochs"),
        ([LINES[0].replace("20000", "many")], HEADER, "line 2: adapt_steps must be a number.*many"),
        ([LINES[0].replace("20000", "0.5")], HEADER, "adapt_steps must be a number"),
        ([LINES[0].replace("0.83,", "inf,")], HEADER, "adapt_final_val must be a number"),
        ([LINES[0].rpartition(",")[0]], HEADER, "line 2: the row ends before adapt_filename"),
        (['"' + LINES[0]], HEADER, "cannot be read: it is not a CSV file"),
        (["x" * 200_000], HEADER, "cannot be read: it is not a CSV file"),
    ],
)
def test_another_file_is_refused(index, lines, header, message):
    with pytest.raises(UsageError, match=message) as error:
        read_index(index(lines, header))
    assert "\n" not in str(error.value)


def test_an_absent_or_binary_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_index(tmp_path / "index.csv")
    (tmp_path / "index.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="it is not a CSV file"):
        read_index(tmp_path / "index.csv")


@pytest.mark.parametrize(
    ("arguments", "file", "tuned", "top1"),
    [
        # The best file by validation accuracy; another file has the best test accuracy.
        (("S/16", "imagenet2012", 224), NONE, TUNED, 80.80),
        # Pre-training is compared on ImageNet-21k only.
        (("S/16", "imagenet2012", 224, "final_val"), LIGHT, TUNED, 80.90),
        (("ViT-S_16",), LIGHT, "imagenet2012-steps_20k-lr_0.03-res_384", 83.728),
        (("ViT_S16", "oxford_iiit_pet"), LIGHT, "oxford_iiit_pet-steps_0k-lr_0.003-res_224", None),
        (("R26+ViT-S_32",), HYBRID, "imagenet2012-steps_20k-lr_0.01-res_384", 83.846),
    ],
)
def test_the_best_file_is_found(index, arguments, file, tuned, top1):
    entry = best(read_index(index()), *arguments)
    assert (entry.name, entry.top1) == (f"augreg/{file}--{tuned}", pytest.approx(top1))
    assert entry.url.endswith(f"/vit_models/{entry.name}.npz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("S/61",), "unknown model 'S/61'"),
        (("S/16", "mnist"), "no ViT-S_16 for mnist; it has imagenet2012 at 224, imagenet2012 at"),
        (("S/16", "oxford_iiit_pet", 384), "no ViT-S_16 for oxford_iiit_pet at 384; it has"),
        (("B/16",), "no ViT-B_16 for imagenet2012; it has no row for this model"),
        (("S/16", "imagenet2012", 224, "test"), "by must be .* Received: by='test'"),
    ],
)
def test_errors_for_rows_that_the_index_does_not_have(index, arguments, message):
    with pytest.raises(UsageError, match=message) as error:
        best(read_index(index()), *arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["../../evil", "", HYBRID])
def test_a_row_with_an_invalid_file_name_is_refused(index, name):
    row = dataclasses.replace(read_index(index())[0], adapt_filename=name)
    with pytest.raises(UsageError, match="the index names a file that is not for ViT-S_16"):
        best([row], "S/16")
