"""Optional packages: what is installed, and what installs the rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from keras_vit._errors import MissingPackageError

# module: what it is called, and the extras of keras_vit that install it.
PACKAGES = {
    "tensorflow": ("TensorFlow", ("tensorflow",)),
    "tf_keras": ("tf_keras", ("tensorflow",)),
    "jax": ("JAX", ("jax",)),
    "sklearn": ("scikit-learn", ("train",)),
    "matplotlib": ("matplotlib", ("train", "export")),
    "tensorboard": ("TensorBoard", ("train",)),
    "ai_edge_litert": ("LiteRT", ("export",)),
    "ai_edge_quantizer": ("AI Edge Quantizer", ("export",)),
    "tensorflow_model_optimization": ("tensorflow-model-optimization", ("compress",)),
}


def is_installed(module: str) -> bool:
    """Whether a package can be imported; it is not imported."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # any folder of that name has a spec


def check_installed(modules: Iterable[str]) -> None:
    """Checks that what a command needs is installed.

    Raises:
        MissingPackageError: with one command that installs all that is missing.
    """
    missing = [PACKAGES[module] for module in modules if not is_installed(module)]
    if not missing:
        return
    chosen: list[str] = []
    for _, extras in missing:
        if not set(extras) & set(chosen):
            chosen.append(extras[0])
    names = ", ".join(name for name, _ in missing)
    raise MissingPackageError(
        f"this command needs {names}: pip install 'keras_vit[{','.join(chosen)}]'"
    )
