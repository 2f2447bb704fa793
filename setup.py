"""Packaging. Minimum versions are set here; requirements.lock pins the versions that are tested."""

from pathlib import Path

from setuptools import find_packages, setup

EXTRAS = {
    "tensorflow": ["tensorflow>=2.18", "tf_keras>=2.18"],
    "train": [
        "scikit-learn>=1.5",
        "matplotlib>=3.9",
        "jinja2>=3.1",
        "tensorboard>=2.18",
        "tensorflow-datasets>=4.9.7",
        "pycocotools>=2.0.10",
        "importlib-resources>=6.4",  # tensorflow-datasets 4.9.10 imports it and does not require it
    ],
    "export": ["ai-edge-litert>=2.1", "ai-edge-quantizer>=0.10", "matplotlib>=3.9", "jinja2>=3.1"],
    "compress": ["tensorflow-model-optimization>=0.8.1"],
    "hub": ["huggingface_hub>=0.34"],
    "text": ["sentencepiece>=0.2", "tokenizers>=0.21"],
    "jax": ["jax>=0.6"],
    "docs": ["mkdocs-material>=9.6", "mkdocstrings[python]>=1.0"],
    "test": [
        "ipykernel>=6.29",
        "markdown-it-py>=3.0",
        "nbclient>=0.10",
        "pytest>=8.3",
        "pytest-xdist>=3.6",
        "ruff>=0.12",
    ],
}
# All that users need, without the tools of developers.
EXTRAS["all"] = sorted(
    {r for name, extra in EXTRAS.items() if name not in ("docs", "test") for r in extra}
)

setup(
    name="keras_vit",
    version="0.1.0",
    description="Vision Transformers for Keras, from pre-training to the phone",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.10",
    # Makes an editable install add a plain path. Otherwise a script next to a clone called
    # keras_vit would import the clone's folder as an empty package.
    package_dir={"": "."},
    packages=find_packages(include=["keras_vit", "keras_vit.*"]),
    package_data={"": ["*.j2", "*.css"], "keras_vit": ["imagenet2012*.txt"]},
    install_requires=[
        "google-crc32c>=1.6",
        "keras>=3.9",
        "msgspec>=0.19",
        "numpy>=1.26",
        "pillow>=10.4",
        "safetensors>=0.5",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["keras-vit = keras_vit.cli:main"]},
)
