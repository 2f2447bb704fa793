"""Optional packages: which are installed, and which command installs the others."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from keras_vit._errors import MissingPackageError

# module: (its name in messages, the extras of keras_vit that install it).
PACKAGES = {
    "tensorflow": ("TensorFlow", ("tensorflow",)),
    "tf_keras": ("tf_keras", ("tensorflow",)),
    "jax": ("JAX", ("jax",)),
    "sklearn": ("scikit-learn", ("train",)),
    "matplotlib": ("matplotlib", ("train", "export")),
    "jinja2": ("Jinja2", ("train", "export")),
    "tensorboard": ("TensorBoard", ("train",)),
    "tensorflow_datasets": ("TensorFlow Datasets", ("train",)),
    "ai_edge_litert": ("LiteRT", ("export",)),
    "ai_edge_quantizer": ("AI Edge Quantizer", ("export",)),
    "tensorflow_model_optimization": ("tensorflow-model-optimization", ("compress",)),
}


def is_installed(module: str) -> bool:
    """Whether a package is installed; it is not imported."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # a plain folder has a spec, but no origin


def check_installed(modules: Iterable[str]) -> None:
    """Checks that the packages a command needs are installed.

    Raises:
        MissingPackageError: the message has one command that installs all missing packages.
    """
    missing = [PACKAGES[module] for module in modules if not is_installed(module)]
    if not missing:
        return
    needed: list[str] = []
    for _, extras in missing:
        if not set(extras) & set(needed):
            needed.append(extras[0])
    names = ", ".join(name for name, _ in missing)
    raise MissingPackageError(
        f"this command needs {names}: pip install 'keras_vit[{','.join(needed)}]'"
    )
