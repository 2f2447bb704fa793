"""Optional packages: what is installed, and what installs the rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from keras_vit._errors import MissingPackageError

# module: what it is called, and the extra of keras_vit that installs it.
PACKAGES = {
    "tensorflow": ("TensorFlow", "tensorflow"),
    "tf_keras": ("tf_keras", "tensorflow"),
    "jax": ("JAX", "jax"),
    "sklearn": ("scikit-learn", "train"),
    "matplotlib": ("matplotlib", "train"),
    "tensorboard": ("TensorBoard", "train"),
    "ai_edge_litert": ("LiteRT", "export"),
    "ai_edge_quantizer": ("AI Edge Quantizer", "export"),
    "tensorflow_model_optimization": ("tensorflow-model-optimization", "compress"),
}


def is_installed(module: str) -> bool:
    """Whether a package can be imported; it is not imported."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # any folder of that name has a spec


def check_installed(what: str, modules: Iterable[str]) -> None:
    """Checks that what `what` needs is installed.

    Raises:
        MissingPackageError: with one command that installs all that is missing.
    """
    missing = [PACKAGES[module] for module in modules if not is_installed(module)]
    if missing:
        names, extras = zip(*missing, strict=True)
        raise MissingPackageError(
            f"{what} needs {', '.join(names)}: "
            f"pip install 'keras_vit[{','.join(dict.fromkeys(extras))}]'"
        )
