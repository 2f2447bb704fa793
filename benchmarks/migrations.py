"""Runs the recipes of docs/guide-coming-from.md, and compares logits with the other library's.

Each library is installed from PyPI in its own environment. It makes a small model with random
weights and computes the logits of a few images; the guide's first program writes the model's file
there, its second program reads the file here. The exit code is 3 if logits differ by more than 1e-5
of their range, or if a library could not be installed.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from environments import FOLDER, Environment, installed

from keras_vit._errors import RefusedError
from keras_vit.cli._printing import table
from keras_vit.cli._program import run

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide-coming-from.md"
# Random norms, biases and heads, because zeros and ones would hide errors.
_OF_KERAS = """
import numpy as np
rng = np.random.default_rng(0)
images = rng.uniform(-1, 1, (4, 48, 48, 3)).astype("float32")
def randomise(model):
    for variable in model.weights:
        noise = rng.normal(0, 0.1, variable.shape).astype("float32")
        variable.assign(np.asarray(variable) + noise)
"""
_OF_TORCH = """
import numpy as np, torch
torch.manual_seed(0)
images = np.random.default_rng(0).uniform(-1, 1, (4, 48, 48, 3)).astype("float32")
def randomise(model):
    with torch.no_grad():
        for weights in model.parameters():
            weights += 0.1 * torch.randn_like(weights)
    return model.eval()
pixels = torch.tensor(images.transpose(0, 3, 1, 2))
"""
_CONFIG = """
config = ViTConfig(image_size=48, patch_size=8, hidden_size=48, num_hidden_layers=2, num_labels=5,
                   num_attention_heads=3, intermediate_size=112)
"""


class Library(NamedTuple):
    """A library: what is installed, and the programs around the guide's first one.

    Attributes:
        section: the heading in the guide.
        environment: what is installed.
        before: makes the model and `images`, float32 (4, 48, 48, 3).
        after: computes `logits`, (4, 5).
    """

    section: str
    environment: Environment
    before: str
    after: str


LIBRARIES = (
    Library(
        "vit-keras",
        Environment("vit-keras", ("vit-keras==0.2.0", "tensorflow-cpu", "opencv-python-headless")),
        _OF_KERAS
        + "from vit_keras import vit\n"
        + "model = vit.build_model(image_size=48, patch_size=8, num_layers=2, hidden_size=48,"
        + " num_heads=12, name='small', mlp_dim=112, classes=5)\nrandomise(model)\n",
        "logits = model.predict(images, verbose=0)",
    ),
    Library(
        "KerasHub",
        Environment("keras-hub", ("keras-hub==0.32.0", "tensorflow-cpu")),
        _OF_KERAS
        + "import keras_hub\n"
        + "backbone = keras_hub.models.ViTBackbone(image_shape=(48, 48, 3), patch_size=8,"
        + " num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=112)\n"
        + "classifier = keras_hub.models.ViTImageClassifier(backbone, num_classes=5)\n"
        + "randomise(classifier)\n",
        "logits = classifier.predict(images, verbose=0)",
    ),
    Library(
        "timm",
        Environment("timm", ("timm==1.0.31", "torch")),
        _OF_TORCH
        + "import timm\n"
        + "model = randomise(timm.create_model('vit_base_patch16_224', num_classes=5, img_size=48,"
        + " patch_size=8, embed_dim=48, depth=2, num_heads=3, mlp_ratio=112.5 / 48))\n"
        + "model.pretrained_cfg['input_size'] = (3, 48, 48)\n",
        "logits = model(pixels).detach().numpy()",
    ),
    Library(
        "transformers",
        Environment("transformers", ("transformers==5.24.0", "torch")),
        _OF_TORCH
        + "from transformers import ViTConfig, ViTForImageClassification\n"
        + _CONFIG
        + "model = randomise(ViTForImageClassification(config))\n",
        "logits = model(pixels).logits.detach().numpy()",
    ),
    Library(
        "TFViT",
        Environment(
            "transformers 4",
            ("transformers==4.57.6", "tensorflow-cpu", "tf_keras"),
        ),
        _OF_KERAS
        + "from transformers import TFViTForImageClassification, ViTConfig\n"
        + _CONFIG
        + "old = TFViTForImageClassification(config)\n"
        + "pixels = images.transpose(0, 3, 1, 2)\nold(pixels)\nrandomise(old)\n"
        + "old.save_pretrained('tf_model')\n",
        "logits = old(pixels).logits.numpy()",
    ),
)


@dataclasses.dataclass(frozen=True)
class Arguments:
    libraries: tuple[str, ...] = tuple(library.section for library in LIBRARIES)
    """Those to compare with, by their headings in the guide."""
    environments: Path = FOLDER
    """The folder where libraries are installed; installed ones are reused."""
    python: str = sys.executable
    """The Python to install them for."""


def main(arguments: Arguments) -> None:
    rows, failed = [], []
    for library in LIBRARIES:
        if library.section not in arguments.libraries:
            continue
        python = installed(library.environment, arguments.environments, arguments.python)
        difference = None if python is None else _difference(library, python)
        cell = "not installed" if difference is None else f"{difference:.1e}"
        rows.append((library.section, library.environment.packages[0], cell))
        if difference is None or difference > 1e-5:
            failed.append(f"{library.section}: {cell}")
    header = ("section", "package", "largest difference of a logit / their range")
    print(f"\n{table(header, rows)}")
    if failed:
        raise RefusedError("\n".join(failed))


def _difference(library: Library, python: str) -> float:
    """The largest difference of a logit, as a fraction of the range of the logits."""
    first, second = _programs(library.section)
    end = f"\n{library.after}\nimport numpy\nnumpy.savez('answer.npz', i=images, l=logits)\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(f"{library.before}\n{first}\n{end}")
        subprocess.run([python, program], cwd=folder, check=True)
        answer = np.load(Path(folder) / "answer.npz")
        names: dict = {}
        exec(second.replace('from_weights("', f'from_weights("{folder}/'), names)
        model = names["model"]
        logits = model.predict(answer["i"], verbose=0)
    return float(np.abs(logits - answer["l"]).max() / np.ptp(answer["l"]))


def _programs(section: str) -> tuple[str, str]:
    """The guide's programs in a section: in the other library's environment, and here."""
    text = re.split(rf"^###? {section}\n", GUIDE.read_text(), flags=re.MULTILINE)[1]
    text = re.split(r"^###? ", text, flags=re.MULTILINE)[0]
    (first,) = re.findall(r"```python title=[^\n]*\n(.*?)```", text, re.DOTALL)
    (here,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return first, here


if __name__ == "__main__":
    run(main, Arguments)
