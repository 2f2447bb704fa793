"""Prints the largest difference from each reference implementation, on the test fixtures."""

from __future__ import annotations

import logging
import runpy
import tempfile
from pathlib import Path

import numpy as np

import keras_vit
from keras_vit._keras import backend
from keras_vit.weights import open_checkpoint

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
STAGES = keras_vit.ViTSpec(2, 48, 2, 3, 96, stem=keras_vit.ResNetStem((2, 1)))
# A file (or the spec of seeded weights), the reference outputs, arguments of model_from_weights.
CASES = (
    ("vit_token.weights.npz", "vit_token", {}),
    ("vit_token_linen.weights.npz", "vit_token", {}),
    ("vit_token.weights.npz", "vit_resolution_token_3to5", {"image_size": 80}),
    ("vit_token.weights.npz", "vit_token_unpooled", {"pooling": "none"}),
    ("vit_token_prelogits.weights.npz", "vit_token_prelogits", {}),
    (
        "vit_token_prelogits.weights.npz",
        "vit_finetune_drophead",
        {"num_classes": 5, "image_size": 48},
    ),
    ("hybrid_stem.weights.npz", "hybrid_stem", {}),
    ("hybrid_stem_linen.weights.npz", "hybrid_stem", {}),
    (STAGES, "hybrid_stages", {"num_heads": 3, "image_size": (64, 96)}),
    (keras_vit.ResNetSpec((2, 1, 1, 1)), "bit", {"image_size": (70, 97)}),
    ("timm_token.safetensors", "timm_token", {}),
    ("timm_map.safetensors", "timm_map", {}),
    ("timm_distilled.safetensors", "timm_distilled", {}),
    ("timm_deit3.safetensors", "timm_deit3", {}),
    ("timm_registers.safetensors", "timm_registers", {}),
    ("timm_sbb_reg4_gap.safetensors", "timm_sbb_reg4_gap", {}),
    ("timm_qk_norm.safetensors", "timm_qk_norm", {}),
    ("hf_classifier.safetensors", "hf_classifier", {}),
    ("hf_base.safetensors", "hf_base", {}),
    ("hf_dinov2.safetensors", "hf_dinov2", {}),
    ("hf_dinov2_registers.safetensors", "hf_dinov2_registers", {}),
    ("hf_dinov2_gated.safetensors", "hf_dinov2_gated", {}),
    ("hf_dinov2_gated.safetensors", "hf_dinov2_gated_4to5x6", {"image_size": (40, 48)}),
    ("hf_dinov3.safetensors", "hf_dinov3", {}),
    ("hf_dinov3_gated.safetensors", "hf_dinov3_gated", {}),
    ("timm_dinov3.safetensors", "timm_dinov3", {}),
    ("timm_rope_gap.safetensors", "timm_rope_gap", {}),
    ("timm_eva02.safetensors", "timm_eva02", {}),
    ("timm_eva02.safetensors", "timm_eva02_40x32", {"image_size": (40, 32)}),
    ("hf_clip.safetensors", "hf_clip", {}),
    ("hf_clip.safetensors", "hf_clip_4to6", {"image_size": 48}),
    ("timm_clip.safetensors", "timm_clip", {}),
    ("hf_siglip.safetensors", "hf_siglip", {}),
    ("hf_siglip_classifier.safetensors", "hf_siglip_classifier", {}),
    ("hf_deit.safetensors", "hf_deit", {}),
    ("dinov2_linear.safetensors", "dinov2_linear", {"image_size": (32, 48)}),
    ("eomt/transformers", "eomt/transformers", {}),
    ("eomt/transformers_dinov3", "eomt/transformers_dinov3", {}),
    ("eomt/own", "eomt/own", {"num_heads": 2}),
    ("eomt/own_dinov3", "eomt/own_dinov3", {"num_heads": 2, "image_size": 32}),
)
# Arrays of PyTorch's models by our names; EoMT's without masked attention.
NAMES = {
    "images": "pixel_values", "scores": "low_logits", "masks": "none/mask_logits",
    "classes": "none/class_logits", "encoded": "none/last_hidden_state",
}  # fmt: skip


def main() -> None:
    # Hides a warning about one compilation per model, which is intended here.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    header = f"{'outputs':27}{'layout of the file':82}{'logits':>9}{'encoded':>9}"
    print(f"Keras on {backend()}", header, "-" * len(header), sep="\n")
    for source, name, arguments in CASES:
        outputs = FIXTURES / name / "io.npz"
        expected = _outputs(outputs if outputs.exists() else FIXTURES / f"{name}.io.npz")
        with tempfile.TemporaryDirectory() as folder:
            file = _file(source, expected, Path(folder))
            with open_checkpoint(file) as checkpoint:
                dialect = checkpoint.dialect
            model = keras_vit.model_from_weights(file, **arguments)
        if "head_kernel" in expected:
            model.get_layer("head").set_weights([expected["head_kernel"], expected["head_bias"]])
        found = model.predict(expected["images"], verbose=0)
        found = found if isinstance(found, dict) else {"logits": found}
        encoded = {}
        if "encoded" in expected:
            encoded = model.intermediates("encoded").predict(expected["images"], verbose=0)
        cells = "".join(f"{_difference(each, expected):>9}" for each in (found, encoded))
        print(f"{name:27}{dialect:82}{cells}", flush=True)


def _outputs(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file, images and maps last in channels."""
    arrays = dict(np.load(path))
    named = {new: arrays[old] for new, old in NAMES.items() if old in arrays}
    maps = {name: each.transpose(0, 2, 3, 1) for name, each in named.items() if each.ndim == 4}
    return named | maps if named else arrays


def _file(source, expected, folder: Path) -> Path:
    if isinstance(source, str):
        return FIXTURES / source
    write = runpy.run_path(str(FIXTURES / "seeded_weights.py"))["write"]
    return write(folder, source, expected["logits"].shape[1], expected["images"].shape[1:3])


def _difference(found, expected) -> str:
    same = found.keys() & expected.keys()
    return (
        f"{max(np.abs(found[name] - expected[name]).max() for name in same):.1e}" if same else "-"
    )


if __name__ == "__main__":
    main()
