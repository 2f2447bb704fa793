"""The tokenizers give transformers' ids for 500 texts in a dozen scripts."""

import json
import shutil
import sys

import numpy as np
import pytest

from keras_vit import UsageError
from keras_vit._errors import MissingPackageError
from keras_vit.zero_shot.tokenizers import open_tokenizer

FAMILIES = {"clip": ("clip", 77), "siglip": ("siglip", 64), "siglip2": ("siglip", 64)}


@pytest.fixture(scope="module")
def texts(fixtures):
    lines = (fixtures / "zero_shot/texts.txt").read_bytes().decode().split("\n")
    return lines[:500]


@pytest.fixture
def copied(fixtures, tmp_path):
    """The tokenizer of a folder, to be changed."""

    def copy(name):
        for file in (fixtures / "zero_shot" / name).glob("*[!z]"):
            if file.suffix != ".safetensors":
                shutil.copy(file, tmp_path)
        return tmp_path

    return copy


@pytest.mark.parametrize("name", FAMILIES)
def test_the_ids_are_those_of_transformers(fixtures, texts, name):
    folder = fixtures / "zero_shot" / name
    tokenizer = open_tokenizer(folder, *FAMILIES[name])
    ids, ends, cut = tokenizer(texts)
    expected = np.load(folder / "reference.npz")["ids"]
    # Texts are words: transformers reads these two as tokens of SigLIP.
    special = [name == "siglip" and ("</s>" in t or "<unk>" in t) for t in texts]
    assert sum(special) == (19 if name == "siglip" else 0)
    kept = ~np.array(special)
    np.testing.assert_array_equal(ids[kept], expected[kept])
    assert 0 < cut < 100
    if name == "clip":
        first = [row.index(tokenizer.end) for row in expected.tolist()]
        np.testing.assert_array_equal(ends, first)
    else:
        assert set(ends) == {63}


def test_of_clip_texts_are_as_long_as_the_longest(fixtures):
    ids, ends, cut = open_tokenizer(fixtures / "zero_shot/clip", "clip", 77)(["a cat", "a"])
    assert ids.shape[1] == ends[0] + 1 > ends[1] + 1 == 3
    assert cut == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_are_filled_where_the_config_says(copied, side):
    folder = copied("siglip2")
    # A length that configurations state for "any", which is no 64-bit integer.
    config = {"padding_side": side, "model_max_length": 1000000000000000019884624838656}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    [ids], _, _ = open_tokenizer(folder, "siglip", 8)(["A cat"])
    used = ids[ids > 0]
    assert list(ids) == (
        [0] * (8 - len(used)) + [*used] if side == "left" else [*used, *[0] * (8 - len(used))]
    )
    assert used[-1] == 1


def test_without_a_config_texts_are_filled_as_in_training(copied):
    folder = copied("siglip2")
    (folder / "tokenizer_config.json").unlink()
    assert open_tokenizer(folder, "siglip", 8).pads == "right"


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("clip", "tokenizer.json", None, r"has no tokenizer: expected tokenizer\.json beside"),
        ("siglip", "spiece.model", None, r"expected tokenizer\.json or spiece\.model beside"),
        (
            "clip",
            "tokenizer.json",
            b"{",
            r"tokenizer\.json is not a tokenizer: .*download it again",
        ),
        ("siglip", "spiece.model", b"\x08", r"spiece\.model is not a tokenizer: "),
        ("siglip", "spiece.model", b"", r"spiece\.model is not a tokenizer: "),
        ("siglip2", "tokenizer_config.json", b'{"padding_side": "top"}', "'top'.*download it"),
        ("siglip2", "tokenizer_config.json", b"[", r"tokenizer_config\.json: .*download it"),
    ],
)
def test_a_damaged_or_missing_file_is_named(copied, name, file, content, message):
    folder = copied(name)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        open_tokenizer(folder, *FAMILIES[name])
    assert "\n" not in str(error.value)


def test_a_tokenizer_that_cannot_divide_a_text_is_damaged(copied):
    folder = copied("siglip2")
    words = {"type": "WordLevel", "vocab": {"<eos>": 0, "<pad>": 1}, "unk_token": "<unk>"}
    content = json.loads((folder / "tokenizer.json").read_text()) | {"model": words}
    content |= {"added_tokens": [], "post_processor": None}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = open_tokenizer(folder, "siglip", 8)
    with pytest.raises(
        UsageError, match=r"tokenizer\.json is not a tokenizer: .*download it again"
    ):
        tokenizer(["cat"])


def test_the_tokenizer_of_another_family_is_refused(fixtures):
    with pytest.raises(UsageError, match=r"no token <\|startoftext\|>, so it does not belong"):
        open_tokenizer(fixtures / "zero_shot/siglip2", "clip", 77)
    with pytest.raises(UsageError, match="no token <eos>"):
        open_tokenizer(fixtures / "zero_shot/clip", "siglip", 64)


@pytest.mark.parametrize(("name", "module"), [("clip", "tokenizers"), ("siglip", "sentencepiece")])
def test_a_missing_package_is_named_with_its_extra(fixtures, monkeypatch, name, module):
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(
        MissingPackageError, match=rf"this needs {module}: pip install 'keras_vit\[text\]'"
    ):
        open_tokenizer(fixtures / "zero_shot" / name, *FAMILIES[name])
