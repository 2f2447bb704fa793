"""The table of published weights: names, defaults, and errors for wrong names."""

import re

import pytest

from keras_vit import UsageError
from keras_vit.specs import Preprocessing
from keras_vit.variant_specs import VARIANTS
from keras_vit.weights.cache import cached_path
from keras_vit.weights.catalogue import PUBLISHED, find_weights, list_weights, named_weights
from keras_vit.weights.google_files import augreg_weights

VIT = "https://storage.googleapis.com/vit_models"
BIT = "https://storage.googleapis.com/bit_models"
HUB = "hf://"
B8 = "B_8-i21k-300ep-lr_0.001-aug_medium2-wd_0.1-do_0.0-sd_0.0"
B16 = "B_16-i21k-300ep-lr_0.001-aug_medium1-wd_0.1-do_0.0-sd_0.0"
S16 = "S_16-i21k-300ep-lr_0.001-aug_light1-wd_0.03-do_0.0-sd_0.0"
R_TI16 = "R_Ti_16-i21k-300ep-lr_0.001-aug_none-wd_0.03-do_0.0-sd_0.0"
TUNED = "imagenet2012-steps_20k-lr_0.03"


@pytest.mark.parametrize(
    ("model", "name", "url", "image_size", "num_classes", "top1"),
    [
        ("ViT-B_16", "imagenet21k/ViT-B_16", VIT, 224, 21843, None),
        ("ViT-H_14", "imagenet21k/ViT-H_14", VIT, 224, 21843, None),
        ("R50+ViT-B_16", "imagenet21k+imagenet2012/R50+ViT-B_16", VIT, 384, 1000, None),
        ("ViT-S_16", f"augreg/{S16}--{TUNED}-res_384", VIT, 384, 1000, 83.73),
        ("ViT-B_8", f"augreg/{B8}--{TUNED}-res_224", VIT, 224, 1000, 85.58),
        ("R+ViT-Ti_16", f"augreg/{R_TI16}--{TUNED}-res_384", VIT, 384, 1000, 75.40),
        ("ViT-S_16", "sam/ViT-S_16", VIT, 224, 1000, None),
        ("ViT-B_32-gap", "gsam/ViT-B_32", VIT, 224, 1000, None),
        ("BiT-R50x1", "bit-s/BiT-S-R50x1", BIT, 224, 1000, None),
        ("BiT-R152x4", "bit-m/BiT-M-R152x4", BIT, 224, 21843, None),
        ("BiT-R101x3", "bit-m+imagenet2012/BiT-M-R101x3-ILSVRC2012", BIT, 480, 1000, 84.38),
        ("DINOv2-S_14", "facebook/dinov2-small", HUB, 224, 0, None),
        ("DINOv3-B_16", "timm/vit_base_patch16_dinov3.lvd1689m", HUB, 256, 0, None),
        ("EVA02-Ti_14", "timm/eva02_tiny_patch14_336.mim_in22k_ft_in1k", HUB, 336, 1000, 80.648),
        ("SigLIP-B_16", "google/siglip-base-patch16-224", HUB, 224, 0, None),
        ("CLIP-L_14", "openai/clip-vit-large-patch14", HUB, 224, 0, None),
    ],
)
def test_a_directory_means_the_variants_default(model, name, url, image_size, num_classes, top1):
    directory, file = name.split("/")
    entry = find_weights(model, directory)
    assert entry == find_weights(model, name) == named_weights(name)
    assert entry.url == {HUB: HUB + name, VIT: f"{VIT}/{name}.npz"}.get(url, f"{url}/{file}.npz")
    assert (entry.model, entry.directory) == (model, directory)
    assert (entry.image_size, entry.num_classes, entry.top1) == (image_size, num_classes, top1)
    assert entry.default
    assert entry in list_weights(model)


@pytest.mark.parametrize("model", ["ViT_B16", "vit-b/16", "B/16"])
@pytest.mark.parametrize("weights", ["imagenet21k", "ImageNet-21k"])
def test_names_are_accepted_in_several_spellings(model, weights):
    assert find_weights(model, weights).name == "imagenet21k/ViT-B_16"


@pytest.mark.parametrize("suffix", ["", ".npz"])
@pytest.mark.parametrize("directory", ["", "imagenet21k+imagenet2012/"])
@pytest.mark.parametrize(("model", "top1"), [("ViT-B_16", 81.2), ("ViT-L_16", 82.7)])
def test_a_full_name_needs_no_directory_and_no_suffix(model, top1, directory, suffix):
    entry = find_weights(model, f"{directory}{model}-224{suffix}")
    assert entry.url == f"{VIT}/imagenet21k+imagenet2012/{model}-224.npz"
    assert (entry.image_size, entry.num_classes, entry.top1) == (224, 1000, top1)
    assert not entry.default


def test_an_augreg_name_need_not_be_listed():
    name = f"{S16}--oxford_iiit_pet-steps_0k-lr_0.003-res_224"
    for spelled in (name, f"{name}.npz", f"augreg/{name}.npz"):
        entry = find_weights("ViT-S_16", spelled)
        assert entry not in PUBLISHED
        assert (entry.name, entry.url) == (f"augreg/{name}", f"{VIT}/augreg/{name}.npz")
        assert (entry.image_size, entry.num_classes) == (224, 37)
        assert (entry.top1, entry.default) == (None, False)


@pytest.mark.parametrize(
    ("name", "model", "image_size", "num_classes"),
    [
        (S16, "ViT-S_16", 224, 21843),
        (S16.replace("i21k", "i1k"), "ViT-S_16", 224, 1000),
        (S16.replace("i21k", "i21k_30"), "ViT-S_16", 224, 21843),
        (f"{B16}--cifar100-steps_10k-lr_0.003-res_384", "ViT-B_16", 384, 100),
        (f"{B16}--resisc45-steps_2k-lr_0.03-res_224", "ViT-B_16", 224, 45),
        (f"{B16}--kitti-steps_0k-lr_0.001-res_384", "ViT-B_16", 384, 4),
        (B16.replace("B_16", "R50_L_32"), "R50+ViT-L_32", 224, 21843),
        (B16.replace("B_16", "R26_S_32"), "R26+ViT-S_32", 224, 21843),
        (B16.replace("medium1", "strong2"), "ViT-B_16", 224, 21843),
        (B16.replace("medium1", "light0"), "ViT-B_16", 224, 21843),
    ],
)
def test_an_augreg_name_describes_its_file(name, model, image_size, num_classes):
    entry = augreg_weights(name)
    assert (entry.model, entry.image_size, entry.num_classes) == (model, image_size, num_classes)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ViT-B_16",
        B16.replace("B_16", "H_14"),
        B16.replace("medium1", "medium3"),
        B16.replace("i21k", "jft"),
        f"{B16}--imagenet2012",
        f"{B16}--mnist-steps_10k-lr_0.003-res_384",
        f"{B16}--cifar100-steps_10k-lr_0.003-res_512",
        f"../{B16}",
        f"{B16}/..",
        f"{B16}\n",
    ],
)
def test_names_outside_the_augreg_pattern_are_not_parsed(name):
    assert augreg_weights(name) is None


SEVERAL = "imagenet21k/ViT-B_16, imagenet21k\\+imagenet2012/ViT-B_16, sam/ViT-B_16"


@pytest.mark.parametrize(
    ("model", "weights", "message"),
    [
        ("ViT-B_61", "sam", "unknown model 'ViT-B_61'; did you mean"),
        ("ViT-B_16", "imagnet21k", "for ViT-B_16; did you mean imagenet21k?"),
        ("ViT-B_16", "nothing", "choose one of imagenet21k, imagenet21k\\+imagenet2012, sam"),
        ("ViT-H_14", "sam", "only for .*ViT-B_16.*; ViT-H_14 has imagenet21k, timm, google\\.$"),
        ("ViT-B_16", "gsam", "only for .*ViT-B_16-gap.*; ViT-B_16 has imagenet21k, "),
        ("ViT-Pico_4", "imagenet21k", "no published weights for ViT-Pico_4"),
        ("ViT-B_16", "ViT-B_16", f"several directories; choose one of {SEVERAL}\\.$"),
        ("ViT-B_16", S16, "is for ViT-S_16. Received: model='ViT-B_16'"),
        ("ViT-B_16", "BiT-M-R50x1.npz", "is for BiT-R50x1. Received: model='ViT-B_16'"),
        ("ViT-B_16", f"{B16}--mnist-steps_10k-lr_0.003-res_384", "there are no weights"),
    ],
)
def test_the_error_of_a_wrong_name_lists_the_known_names(model, weights, message):
    with pytest.raises(UsageError, match=message) as error:
        find_weights(model, weights)
    assert "\n" not in str(error.value)


def test_every_entry_belongs_to_a_variant_as_it_is_and_has_its_own_path_in_the_cache():
    for entry in PUBLISHED:
        spec = VARIANTS[entry.model]
        assert entry.sha256 is None or re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.top1 is None or (entry.num_classes == 1000 and 72 < entry.top1 < 91)
        if entry.url == f"hf://{entry.name}":
            assert re.fullmatch(r"[a-z]+/[\w.-]+", entry.name)
            assert entry.image_size % spec.patch_size == 0
            assert entry.preprocessing is None  # its own files state it
        else:
            assert entry.licence == "Apache-2.0"
            assert not entry.gated
            assert cached_path(entry.url).name == f"{entry.name.split('/')[1]}.npz"
    assert len({entry.url for entry in PUBLISHED}) == len(PUBLISHED)
    hashes = [entry.sha256 for entry in PUBLISHED if entry.sha256]
    assert len({*hashes}) == len(hashes) == 33


def test_licences_that_must_be_accepted_are_said():
    gated = {entry.model for entry in PUBLISHED if entry.gated}
    assert gated == {
        entry.model for entry in PUBLISHED if entry.url.startswith("hf://facebook/dinov3")
    }
    assert "  DINOv3, gated  " in repr(list_weights("DINOv3-L_16"))


@pytest.mark.parametrize("name", ["augreg", "ViT-B_16", "facebook/dinov2-smal", "hf://a/b"])
def test_a_name_without_a_variant_must_be_complete(name):
    with pytest.raises(UsageError, match=f"no published weights are called '{name}'"):
        named_weights(name)
    assert named_weights(f"augreg/{B16}.npz").model == "ViT-B_16"


def test_every_published_variant_has_one_default_in_each_directory():
    defaults = [(entry.model, entry.directory) for entry in PUBLISHED if entry.default]
    assert len(defaults) == len(set(defaults))
    assert set(defaults) == {(entry.model, entry.directory) for entry in PUBLISHED}
    unpublished = set(VARIANTS) - {entry.model for entry in PUBLISHED}
    assert unpublished == {"ViT-Pico_4", "R+ViT-Pico_4", "BiT-R8x1"}


def test_preprocessing_is_that_of_the_published_evaluation():
    assert find_weights("ViT-B_16", "augreg").preprocessing == Preprocessing(384, 384)
    assert find_weights("ViT-B_16", B16).preprocessing == Preprocessing(224, 224, crop=0.875)
    assert find_weights("BiT-R50x1", "bit-m+imagenet2012").preprocessing == Preprocessing(480, 480)


def test_the_list_is_a_table():
    lines = repr(list_weights("ViT-S_32-gap")).splitlines()
    assert lines == [
        "model         weights        resolution  classes  top-1  licence     default of",
        "ViT-S_32-gap  gsam/ViT-S_32         224     1000         Apache-2.0  gsam",
    ]
    whole = repr(list_weights()).splitlines()
    assert len(whole) == len(PUBLISHED) + 1
    licences = {line[whole[0].index("licence") :][:3] for line in whole[1:]}
    assert licences == {"Apa", "MIT", "DIN", "not"}
    assert "85.99" in whole[next(i for i, line in enumerate(whole) if "R50_L_32" in line)]
    page = list_weights("R50+ViT-B_16")._repr_html_()  # in notebooks
    assert page.count("<tr>") == 3
    assert "<td>imagenet21k+imagenet2012/R50+ViT-B_16</td><td>384</td>" in page
    assert list_weights("ViT-Pico_4") == ()
    assert repr(list_weights("ViT-Pico_4")).startswith("model  weights")
