"""The benchmark of the hubs' pixels, without the libraries."""

import sys

import hub_pixels
import numpy as np
import pytest
from PIL import Image

from keras_vit._errors import RefusedError

# Answers with Pillow's pixels of one processor, and with others.
READ = """
import numpy as np
from PIL import Image
from pathlib import Path
pictures = [Image.open(path) for path in sorted(Path("pictures").iterdir())]
whole = [each.resize((224, each.height), 3).resize((224, 224), 3) for each in pictures]
pixels = np.stack([np.asarray(each) for each in whole]).astype(float)
np.savez("found.npz", Siglip=pixels, **{"timm 0.9": pixels + 9, "ViT": pixels + FAULT})
"""


@pytest.mark.parametrize("fault", [0, 9])
def test_pixels_are_compared_with_those_of_each_processor(
    fault, monkeypatch, tmp_path, rng, capsys
):
    for i in range(2):
        Image.fromarray(rng.integers(0, 256, (90, 120, 3), np.uint8)).save(tmp_path / f"{i}.png")
    monkeypatch.setattr(hub_pixels, "installed", lambda *arguments: sys.executable)
    monkeypatch.setattr(hub_pixels, "_READ", READ.replace("FAULT", str(fault)))
    monkeypatch.setitem(hub_pixels.PROCESSORS, "ViT", {"resample": 3})
    if fault:
        with pytest.raises(RefusedError, match=r"^ViT: 9.00$"):
            hub_pixels.main(hub_pixels.Arguments(tmp_path))
    else:
        hub_pixels.main(hub_pixels.Arguments(tmp_path))
    rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines()[3:])
    assert rows["Siglip"].split() == ["0.0000", "0"]
    assert "0.9 " in rows["timm"]
