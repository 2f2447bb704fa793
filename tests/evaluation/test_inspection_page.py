"""The page of an inspection stands alone, says what is missing, and its figures are files."""

import dataclasses
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import keras_vit
from keras_vit import UsageError, evaluation
from keras_vit.evaluation import inspection_plots as plots

SECTIONS = (
    "Embedding filters", "Positions", "Attention distance", "Attention rollout",
    "Heads of block 2", "Features", "Errors by class",
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    spec = keras_vit.ViTSpec(8, 24, 2, 3, 32)
    return keras_vit.ViT(spec, 2, (16, 24), labels=("a", "b"))


@pytest.fixture(scope="module")
def found(model):
    photos = np.random.default_rng(0).integers(0, 255, (2, 20, 30, 3), np.uint8)
    return evaluation.inspect_model(model, photos)


def test_the_page_has_every_section_and_stands_alone(model, found, parsed, tmp_path):
    targets = np.array([0, 0, 1, 1])
    errors = evaluation.classification_report(np.array([0, 1, 1, 1]), targets, ("a", "b"))
    captions = ("<script>alert(1)</script>", "$2$ & 'more'")
    out = tmp_path / "new" / "inspection"
    path = evaluation.write_inspection(out, model, found, captions, errors, {"Images": "two"})
    page = parsed(path.read_text())
    assert tuple(page.titles) == SECTIONS
    assert all(each["src"].startswith("data:image/svg+xml;base64,") for each in page.images)
    assert "75.00% of 4 images" in page.text
    files = {file.name for file in out.iterdir()}
    each = {f"{kind}-{i}.svg" for kind in ("rollout", "heads", "features") for i in (1, 2)}
    figures = {"filters.svg", "positions.svg", "distance.svg", "errors.svg"} | each
    assert files == figures | {"index.html", "inspection.json"}
    assert len(page.images) == len(figures)
    for name in figures:
        root = ElementTree.parse(out / name).getroot()
        assert "fill: #ffffff" not in (out / name).read_text()  # no white box on a dark page
        links = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
        assert all(link.startswith(("#", "data:")) for link in links)
    numbers = json.loads((out / "inspection.json").read_text())
    assert numbers["format"] == 1
    assert numbers["attention_distance"]["blocks"] == found.distance.tolist()
    assert numbers["errors"]["accuracy"] == 0.75
    assert "1 of 2, most as b" in (out / "errors.svg").read_text()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (keras_vit.ResNetSpec((1,)), "A ResNet has no attention."),
        (
            keras_vit.ViTSpec(8, 24, 1, 3, 32, position_embedding="none"),
            "it sees its patches without their order",
        ),
        (
            keras_vit.ViTSpec(1, 24, 1, 3, 32, stem=keras_vit.ResNetStem()),
            "so the filters of its embedding have no colours",
        ),
    ],
    ids=["attention", "positions", "colours"],
)
def test_the_page_says_which_part_a_model_does_not_have(parsed, tmp_path, spec, sentence):
    build = keras_vit.BiT if isinstance(spec, keras_vit.ResNetSpec) else keras_vit.ViT
    model = build(spec, 2, 16)
    path = evaluation.write_inspection(tmp_path / "page", model, evaluation.inspect_model(model))
    text = " ".join(parsed(path.read_text()).text.split())
    assert sentence in text
    assert "because no pictures were given" in text
    assert "they need images with this model's classes" in text


def test_only_an_inspection_is_replaced(model, found, tmp_path):
    out = tmp_path / "out"
    evaluation.write_inspection(out, model, found)
    (out / "old.svg").touch()
    evaluation.write_inspection(out, model, evaluation.inspect_model(model))
    assert {file.name for file in out.iterdir()} == {
        "filters.svg", "positions.svg", "index.html", "inspection.json"
    }  # fmt: skip
    (tmp_path / "holiday.jpg").touch()
    for path in (tmp_path, tmp_path / "holiday.jpg"):
        with pytest.raises(UsageError, match="is not empty and holds no inspection|is a file"):
            evaluation.write_inspection(path, model, found)
    assert (tmp_path / "holiday.jpg").exists()
    with pytest.raises(UsageError, match="expected 2 captions. Received: 1"):
        evaluation.write_inspection(out, model, found, ["one"])


def test_the_largest_errors_come_first_and_many_classes_are_cut(rng):
    targets = np.arange(60).repeat(2)
    predicted = targets.copy()
    predicted[[80, 81]] = 3
    report = evaluation.classification_report(predicted, targets, tuple(f"c{i}" for i in range(60)))
    svg = plots.errors(report).decode()
    assert "Errors by class, the 25 largest" in svg
    assert "2 of 2, most as c3" in svg
    assert svg.index(">c40<") < svg.index(">c0<")


@pytest.mark.parametrize(
    ("grid", "shown"),
    [
        ((4, 8), (4, 8)), ((8, 4), (8, 4)), ((14, 14), (14, 14)), ((4, 16), (4, 4)),
        ((16, 4), (4, 4)), ((60, 60), (20, 20)), ((2, 40), (2, 2)), ((1, 6), (1, 2)),
    ],
)  # fmt: skip
def test_positions_of_every_proportion_are_large_enough_to_see(grid, shown, monkeypatch):
    figures = []
    monkeypatch.setattr(plots, "as_svg", figures.append)
    plots.similarity(np.zeros((*grid, *grid), np.float32))
    (figure,) = figures
    figure.draw_without_rendering()  # lays it out
    axis, bar = figure.axes
    box = axis.get_window_extent()
    canvas = axis.images[0].get_array().shape
    maps = [-(-side // (of + 1)) for side, of in zip(canvas, grid, strict=True)]
    assert tuple(maps) == shown
    # The maps are as wide or as high as the figure, and larger than the colour bar.
    inches = [length / figure.dpi for length in (box.width, box.height)]
    assert max(inches) > 3.5
    assert box.width * box.height > 2 * bar.get_window_extent().width * bar.bbox.height
    # The numbers of the rows do not overlap.
    texts = [each.get_window_extent() for each in axis.get_yticklabels()]
    bottoms, tops = [each.y0 for each in texts], [each.y1 for each in texts]
    assert all(bottom >= top for bottom, top in zip(bottoms[:-1], tops[1:], strict=True))


def test_components_that_are_left_out_have_no_tile(model, found, parsed, tmp_path):
    features = found.features._replace(fractions=np.array([0.7, 0.2]))
    svg = plots.features(found.pictures[0], features.colours[0], features, "a").decode()
    assert ">2 components<" in svg
    assert ">component 2: 20%<" in svg
    assert "component 3" not in svg
    found = dataclasses.replace(found, features=features)
    text = evaluation.write_inspection(tmp_path / "two", model, found).read_text()
    assert "Components with less than 1% of the variance are left out" in parsed(text).text


def test_errors_of_images_with_several_classes_are_drawn():
    logits = np.array([[2.0, -1, -3], [1, 3, -2], [-2, 1, -1]])
    classes = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]], np.uint8)
    report = evaluation.multi_label_report(logits, classes, ("a", "b", "never"))
    svg = plots.errors(report).decode()
    assert ">0 of 2<" in svg
    assert "most as" not in svg
    assert "never" not in svg  # a class without images has no errors
