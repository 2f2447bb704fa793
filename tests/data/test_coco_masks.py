"""Folders of pictures with the JSON files of COCO, as programs for annotation write them."""

import functools
import json
import sys
import time

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from keras_vit import Preprocessing, UsageError, data
from keras_vit._errors import MissingPackageError
from keras_vit.data import mask_shapes
from keras_vit.data.geometry import of_whole
from keras_vit.data.mask_folders import has_mask_folders, has_masks_beside

SIZE = (24, 32)
BOX = [2, 3, 20, 3, 20, 18, 2, 18]
SMALL = [5.5, 6, 12, 6, 12, 11.2, 5.5, 11.2]


@pytest.fixture
def folder(tmp_path, rng):
    """Writes pictures into a folder, and returns it."""

    def folder(*names, size=SIZE):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(file)
        return tmp_path

    return folder


def coco(pictures, annotations, categories=((1, "cat"), (7, "dog")), size=SIZE):
    """COCO's JSON of pictures by their ids, and of annotations (picture, category, shape)."""
    return {
        "info": {"description": "made by hand"},
        "licenses": [],
        "images": [
            {"id": i, "file_name": name, "height": size[0], "width": size[1]}
            for i, name in pictures.items()
        ],
        "annotations": [
            {"id": i, "image_id": image, "category_id": category, "segmentation": shape,
             "area": 1.5, "bbox": [0, 0, 1, 1], "iscrowd": int(isinstance(shape, dict))}
            for i, (image, category, shape) in enumerate(annotations, 1)
        ],
        "categories": [
            {"id": i, "name": name, "supercategory": "animal"} for i, name in categories
        ],
    }  # fmt: skip


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def opened(path):
    return data.open_source(f"masks:{path}")


def reasons(source):
    return {each.path: each.reason for each in source.skipped}


def rle(mask, compressed):
    """A mask as COCO's runs, made by pycocotools or by counting."""
    if compressed:
        found = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
        return {"size": list(found["size"]), "counts": found["counts"].decode()}
    counts, last = [0], False
    for pixel in mask.ravel(order="F"):
        if pixel != last:
            counts, last = [*counts, 0], pixel
        counts[-1] += 1
    return {"size": list(mask.shape), "counts": counts}


def by_pycocotools(file, image):
    """The mask of a picture by pycocotools alone: the smaller object is on top."""
    api = COCO(str(file))
    numbers = {category: i for i, category in enumerate(sorted(api.cats), 1)}
    expected = np.zeros(SIZE, np.uint8)
    found = [(api.annToMask(each), each) for each in api.imgToAnns[image]]
    for mask, each in sorted(found, key=lambda pair: -int(pair[0].sum())):
        expected[mask > 0] = numbers[each["category_id"]]
    return expected


def blobs(rng):
    mask = np.zeros(SIZE, bool)
    for _ in range(3):
        top, left = rng.integers(0, SIZE[0] - 4), rng.integers(0, SIZE[1] - 4)
        mask[top : top + rng.integers(1, 9), left : left + rng.integers(1, 9)] = True
    return mask


def star(rng):
    """A polygon that crosses itself and the borders."""
    points = rng.uniform((-6, -6), (SIZE[1] + 6, SIZE[0] + 6), (rng.integers(3, 12), 2))
    return np.round(points, 2).ravel().tolist()


def test_masks_equal_those_of_pycocotools(folder, rng, capsys):
    path, annotations = folder(*(f"images/{i}.png" for i in range(20))), []
    for image in range(20):
        for _ in range(rng.integers(1, 6)):
            shape = [
                [star(rng) for _ in range(rng.integers(1, 4))],
                rle(blobs(rng), compressed=True),
                rle(blobs(rng), compressed=False),
            ][rng.integers(3)]
            annotations.append((image, int(rng.choice([1, 7, 90])), shape))
    categories = ((90, "horse"), (1, "cat"), (7, "dog"))
    content = coco({i: f"{i}.png" for i in range(20)}, annotations, categories)
    file = write(path / "annotations" / "instances_default.json", content)
    source = opened(path)
    assert source.labels == ("background", "cat", "dog", "horse")
    assert not source.skipped
    for i, name in enumerate(source.ids):
        image = int(name.split("/")[1].split(".")[0])
        np.testing.assert_array_equal(source.annotations.mask(i), by_pycocotools(file, image))
        classes = {0, *({1: 1, 7: 2, 90: 3}[c] for n, c, _ in annotations if n == image)}
        assert {*np.flatnonzero(source.annotations.sets[i])} == classes
    assert data.open_source(source.locator).ids == source.ids
    assert has_mask_folders(path)


def test_long_runs_are_unpacked_as_pycocotools_packs_them(rng):
    for _ in range(200):
        density = rng.choice([0.001, 0.1, 0.5, 0.999])
        mask = rng.uniform(size=(rng.integers(1, 400), rng.integers(1, 400))) < density
        found = rle(mask, compressed=True)
        runs = mask_shapes.runs(found["size"], found["counts"], *mask.shape)
        np.testing.assert_array_equal(mask_shapes.drawn([(1, runs)], *mask.shape), mask)


def test_cocos_own_layout(folder):
    path = folder("train2017/000000000009.jpg", "train2017/000000000025.jpg", "val2017/1.jpg")
    names = {9: "000000000009.jpg", 25: "000000000025.jpg"}
    train, val = coco(names, [(9, 7, [BOX])]), coco({1: "1.jpg"}, [(1, 1, [BOX])])
    write(path / "annotations" / "instances_train2017.json", train)
    write(path / "annotations" / "instances_val2017.json", val)
    write(path / "annotations" / "captions_val2017.json", coco({1: "1.jpg"}, []))
    write(path / "annotations" / "stuff_val2017.json", coco({1: "1.jpg"}, [(1, 1, [SMALL])]))
    source = opened(path)
    assert source.ids == (*(f"train2017/{name}" for name in names.values()), "val2017/1.jpg")
    assert {name: each.tolist() for name, each in source.splits.items()} == {
        "train": [0, 1],
        "validation": [2],
    }
    assert source.counts == {"background": 3, "cat": 1, "dog": 1}
    assert not source.annotations.mask(1).any()  # a picture without annotations
    assert reasons(source) == {
        "annotations/captions_val2017.json": "JSON without objects",
        "annotations/stuff_val2017.json": "JSON beside instances, which are read instead",
    }


def test_roboflows_export(folder):
    path = folder(*(f"{split}/a_jpg.rf.1.jpg" for split in ("train", "valid", "test")))
    for i, split in enumerate(("train", "valid", "test")):
        content = coco({0: "a_jpg.rf.1.jpg"}, [(0, 1 + i % 2, [BOX])], ((1, "cat"), (2, "dog")))
        content["categories"].insert(0, {"id": 0, "name": "animal", "supercategory": "none"})
        write(path / split / "_annotations.coco.json", content)
    write(path / "README.roboflow.txt", "a project")
    source = opened(path)
    assert source.labels == ("background", "cat", "dog")
    assert {name: [source.ids[i] for i in each] for name, each in source.splits.items()} == {
        "train": ["train/a_jpg.rf.1.jpg"],
        "validation": ["valid/a_jpg.rf.1.jpg"],
        "test": ["test/a_jpg.rf.1.jpg"],
    }
    assert [source.annotations.mask(i).max() for i in range(3)] == [1, 1, 2]  # test, train, valid
    assert reasons(source) == {"README.roboflow.txt": "text"}


@pytest.mark.parametrize(
    ("json_file", "stated", "picture"),
    [
        ("result.json", "images/a.jpg", "images/a.jpg"),  # Label Studio
        ("result.json", "images\\1\\a.jpg", "images/1/a.jpg"),
        ("result.json", "/data/upload/1/5f-a.jpg", "images/5f-a.jpg"),
        ("coco.json", "C:\\Users\\me\\pictures\\a.jpg", "a.jpg"),
        ("trainval.json", "JPEGImages/a.jpg", "JPEGImages/a.jpg"),  # labelme2coco
        ("annotations/instances_default.json", "sub/a.jpg", "images/sub/a.jpg"),  # CVAT
        ("annotations/instances_train.json", "a.jpg", "images/train/a.jpg"),
        ("labels.json", "a.jpg", "data/a.jpg"),  # FiftyOne
    ],
)
def test_a_picture_is_found_by_its_stated_path(folder, json_file, stated, picture):
    path = folder(picture)
    write(path / json_file, coco({"5f": stated}, [("5f", 1, [BOX])]))
    source = opened(path)
    assert source.ids == (picture,)
    assert source.annotations.mask(0).any()
    assert not source.skipped
    assert has_mask_folders(path) or has_masks_beside(path)


def test_pictures_of_one_name_are_told_apart_by_their_folders(folder):
    path = folder("images/a.jpg", "images/x/a.jpg", "images/y/a.jpg", "images/x/b.jpg",
                  "images/y/b.jpg", "images/c.jpg")  # fmt: skip
    names = dict(
        enumerate(["a.jpg", "C:\\set\\x\\a.jpg", "y/a.jpg", "b.jpg", "c.jpg", "old/c.jpg"])
    )
    content = coco(names, [(0, 1, [BOX]), (1, 7, [BOX])])
    write(path / "result.json", content)
    source = opened(path)
    assert source.ids == ("images/a.jpg", "images/x/a.jpg", "images/y/a.jpg")
    assert [source.annotations.mask(i).max() for i in range(3)] == [1, 2, 0]
    assert reasons(source) == {
        "b.jpg": "several pictures of this name",
        "images/c.jpg": "twice in the JSON",
        "images/x/b.jpg": "not in the JSON",
        "images/y/b.jpg": "not in the JSON",
    }


def test_pictures_elsewhere_are_found_although_some_are_beside_the_json(folder):
    path = folder("images/a.jpg", "annotations/preview.png")
    write(path / "annotations" / "coco.json", coco({0: "a.jpg", 1: "\x1b[2J" * 99}, []))
    source = opened(path)
    assert source.ids == ("images/a.jpg",)
    (absent,) = {*reasons(source)} - {"annotations/preview.png"}
    assert absent.isprintable()
    assert len(absent) < 250


def test_the_smaller_object_is_on_top_whatever_their_order(folder):
    path = folder("a.jpg")
    for order in (1, -1):
        shapes = [(0, 1, [BOX]), (0, 7, [SMALL])][::order]
        write(path / "a.json", coco({0: "a.jpg"}, shapes))
        mask = opened(path).annotations.mask(0)
        assert (mask[8, 8], mask[4, 4], mask[0, 0]) == (2, 1, 0)


def test_categories_are_known_by_their_names(folder):
    path = folder("train/a.jpg", "val/b.jpg")
    train = coco({0: "a.jpg"}, [(0, 3, [BOX])], ((3, "dog"), (4, "_background_"), (5, "dog")))
    val = coco({0: "b.jpg"}, [(0, 1, [BOX])], ((1, "dog"), (9, "ant")))
    write(path / "train" / "_annotations.coco.json", train)
    write(path / "val" / "_annotations.coco.json", val)
    source = opened(path)
    assert source.labels == ("background", "dog", "ant")
    assert source.counts == {"background": 2, "dog": 2, "ant": 0}


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([[1, 1, 5, 5]], "a polygon of fewer than 3 points"),
        ([BOX, []], "a polygon of fewer than 3 points"),
        ([[1, 1, 5, 5, 9, 1, 4]], "a polygon with an odd number of coordinates"),
        ([], "an annotation without an outline, such as a box"),
        (None, "an annotation without an outline, such as a box"),
        ("text", "an annotation that is neither polygons nor RLE"),
        ([["1", "2"]], "an annotation that is neither polygons nor RLE"),
        (BOX, "an annotation that is neither polygons nor RLE"),
        ({"size": [24, 33], "counts": [24 * 33]}, "an RLE of another size than the picture"),
        ({"size": [24], "counts": [24]}, "an RLE of another size than the picture"),
        (
            {"size": [24, 32], "counts": [767]},
            "an RLE of another number of pixels than the picture",
        ),
        ({"size": [24, 32], "counts": [1, -2, 769]}, "an RLE with runs outside of the picture"),
        ({"size": [24, 32], "counts": [2**63]}, "an RLE with runs outside of the picture"),
        ({"size": [24, 32], "counts": [2**62] * 4}, "an RLE with runs outside of the picture"),
        ({"size": [24, 32], "counts": [0] * 9999}, "an RLE with more runs than pixels"),
        ({"size": [24, 32], "counts": "ooooooooo0"}, "an RLE with runs outside of the picture"),
        ({"size": [24, 32], "counts": "o"}, "an RLE with characters that are not its own"),
        ({"size": [24, 32], "counts": "\u00e4 0"}, "an RLE with characters that are not its own"),
        ({"size": [24, 32], "counts": ""}, "an RLE of another number of pixels than the picture"),
        ([[0, 0, 5, 0, 5, 5]] * 9_000, "objects that are too many or too large to draw"),
        ([[0, 0, 900, 900] * 50_000], "a polygon with too long an outline"),
    ],
)
def test_an_annotation_that_cannot_be_used_skips_its_picture(folder, shape, reason):
    path = folder("a.jpg", "b.jpg")
    content = coco({0: "a.jpg", 1: "b.jpg"}, [(0, 1, [BOX]), (1, 1, [BOX]), (1, 7, shape)])
    write(path / "a.json", content)
    start = time.monotonic()
    source = opened(path)
    assert time.monotonic() - start < 5
    assert source.ids == ("a.jpg",)
    assert reasons(source) == {"b.jpg": reason}
    with pytest.raises(UsageError, match=f"b.jpg: {reason}"):
        data.mask_folder(path, strict=True)


def test_an_annotation_without_segmentation_is_a_box(folder):
    path = folder("a.jpg", "b.jpg")
    content = coco({0: "a.jpg", 1: "b.jpg"}, [(0, 1, [BOX])])
    del content["annotations"][0]["segmentation"]
    write(path / "a.json", content)
    assert reasons(opened(path)) == {"a.jpg": "an annotation without an outline, such as a box"}


def test_what_a_json_does_not_list_is_named(folder):
    path = folder("images/a.jpg", "images/b.jpg", "images/extra.jpg")
    names = {0: "a.jpg", 1: "b.jpg", 2: "absent.jpg"}
    annotations = [(0, 1, [BOX]), (1, 99, [BOX]), (5, 1, [BOX]), (6, 1, [BOX])]
    write(path / "result.json", coco(names, annotations))
    source = opened(path)
    assert source.ids == ("images/a.jpg",)
    assert reasons(source) == {
        "images/b.jpg": "an annotation of a category that the JSON does not list",
        "absent.jpg": "in the JSON, not in the folder",
        "images/extra.jpg": "not in the JSON",
        "result.json": "2 annotations of pictures that the JSON does not list",
    }


def test_coordinates_outside_of_the_picture_are_cut(folder):
    path = folder("a.jpg")
    outside = [-1e300, -50, 1e9, -50, 1e9, 12, -1e300, 12]
    write(path / "a.json", coco({0: "a.jpg"}, [(0, 1, [outside]), (0, 7, [[40, 1, 50, 1, 50, 9]])]))
    mask = opened(path).annotations.mask(0)
    assert mask[:12].all()
    assert not mask[12:].any()


def test_a_picture_of_another_size_is_skipped(folder):
    path = folder("a.jpg", "b.jpg", "c.jpg")
    content = coco({0: "a.jpg", 1: "b.jpg", 2: "c.jpg"}, [])
    content["images"][1].update(height=12)
    content["images"][2].update(height=32, width=24)
    write(path / "a.json", content)
    assert reasons(opened(path)) == {
        "b.jpg": "mask of another size than its picture",
        "c.jpg": "mask of the picture before it was turned upright (EXIF); turn it too",
    }


def test_too_many_annotations_of_a_picture_are_refused_in_seconds(folder):
    path = folder("a.jpg", "b.jpg")
    write(path / "a.json", coco({0: "a.jpg", 1: "b.jpg"}, [(1, 1, [BOX])] * 100_000))
    start = time.monotonic()
    assert reasons(opened(path)) == {"b.jpg": "more than 10,000 objects"}
    assert time.monotonic() - start < 20


def test_many_objects_are_drawn_in_seconds(folder):
    size = (1000, 1500)
    path = folder("a.jpg", "b.jpg", size=size)
    whole = [[0, 0, 1500, 0, 1500, 1000, 0, 1000]]
    annotations = [(0, 1, whole)] * 1000 + [(1, 7, whole)] * 9_999
    write(path / "a.json", coco({0: "a.jpg", 1: "b.jpg"}, annotations, size=size))
    start = time.monotonic()
    source = opened(path)
    assert source.annotations.mask(0).all()
    assert time.monotonic() - start < 30
    assert reasons(source) == {"b.jpg": "objects that are too many or too large to draw"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.pop("categories"), "lacks `categories`"),
        (lambda c: c["images"].append(c["images"][0]), "images with the same id"),
        (lambda c: c["categories"].append(c["categories"][0]), "categories with the same id"),
        (lambda c: c["images"].clear(), "not in the folder"),
        (lambda c: c["images"][0].update(file_name="else.jpg"), "not in the folder"),
        (lambda c: c["images"][0].pop("width"), "width"),
        (lambda c: c["images"][0].update(file_name=["a.jpg"]), "file_name"),
        (lambda c: c["annotations"][0].update(category_id=1.5), "category_id"),
        (lambda c: c["annotations"][0].update(segmentation=[[float("nan")] * 6]), "malformed"),
    ],
)
def test_a_json_that_cannot_be_read_is_one_line(folder, change, reason):
    path = folder("a.jpg")
    content = coco({0: "a.jpg"}, [(0, 1, [BOX])])
    change(content)
    write(path / "a.json", content)
    with pytest.raises(UsageError, match="JSON file in the format of COCO") as error:
        opened(path)
    assert reason in str(error.value) or "missing required field" in str(error.value)
    assert "a.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ['{"images": [' + "[" * 100_000, '{"images": [{"id": 1', "\ufeff{'images': ["]
)
def test_a_damaged_json_beside_a_good_one_is_named(folder, text):
    path = folder("a.jpg")
    write(path / "a.json", coco({0: "a.jpg"}, [(0, 1, [BOX])]))
    write(path / "b.json", text)
    source = opened(path)
    assert source.ids == ("a.jpg",)
    (path_of, reason), *others = reasons(source).items()
    assert not others
    assert path_of == "b.json"
    assert reason == "text" or reason.startswith("JSON of another kind than COCO's")


def test_a_json_that_is_too_large_is_not_read(folder, monkeypatch):
    monkeypatch.setattr("keras_vit.data.coco_masks._MOST_BYTES", 1000)
    path = folder("a.jpg")
    write(path / "a.json", coco({0: "a.jpg"}, [(0, 1, [BOX])] * 50))
    with pytest.raises(UsageError, match=r"a.json: expected at most 1,000 bytes"):
        opened(path)


def test_other_jsons_are_no_masks(folder):
    path = folder("images/a.jpg", "masks/a.png")
    Image.fromarray(np.zeros(SIZE, np.uint8)).save(path / "masks" / "a.png")
    write(path / "images" / "a.json", {"version": "5.0", "shapes": [], "imagePath": "a.jpg"})
    assert opened(path).ids == ("images/a.jpg",)
    assert opened(path).labels == ("background",)


def test_a_damaged_picture_is_skipped(folder):
    path = folder("a.png", "b.png")
    (path / "b.png").write_bytes((path / "b.png").read_bytes()[:60])
    write(path / "a.json", coco({0: "a.png", 1: "b.png"}, [(0, 1, [BOX]), (1, 1, [BOX])]))
    source = opened(path)
    assert source.ids == ("a.png",)
    assert reasons(source) == {"b.png": "truncated PNG"}


def test_without_pycocotools_the_install_command_is_named(folder, monkeypatch):
    path = folder("a.jpg")
    write(path / "a.json", coco({0: "a.jpg"}, [(0, 1, [BOX])]))
    monkeypatch.setitem(sys.modules, "pycocotools.mask", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'keras_vit\[train\]'"):
        opened(path)


def test_masks_reach_the_pipeline(folder):
    path = folder("a.jpg")
    write(path / "a.json", coco({0: "a.jpg"}, [(0, 1, [BOX])]))
    source = opened(path)
    whole = functools.partial(of_whole, preprocessing=Preprocessing(*SIZE))
    moved = source.annotations.moved(np.int64(0), whole, SIZE).numpy()
    np.testing.assert_array_equal(moved, source.annotations.mask(0))
