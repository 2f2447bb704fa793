"""Runs in KerasHub's environment: the outputs of KerasHub's model with the weights of a folder.

    python keras_hub_runner.py FOLDER IMAGES.npz KEY OUTPUT.npy

KerasHub reads transformers' folders of ViT, DeiT, DINOv2 and DINOv3. Of CLIP and SigLIP it has the
image towers and reads no folders, so their weights are set here, layer by layer.
"""

import json
import sys
from pathlib import Path

import keras_hub
import numpy as np
from safetensors.numpy import load_file


def main(folder, images, key, output):
    config = json.loads((Path(folder) / "config.json").read_text())
    if config["model_type"] in TOWERS:
        kind, fill = TOWERS[config["model_type"]]
        size = (config["image_size"], config["image_size"], 3)
        model = kind(*(config[name] for name in SIZES), image_shape=size)
        arrays = load_file(Path(folder) / "model.safetensors")
        fill(model, Weights({k.removeprefix("vision_model."): a for k, a in arrays.items()}))
    else:
        model = keras_hub.models.Backbone.from_preset(folder)
    images = np.load(images)[key]
    inputs = dict.fromkeys(model.input, images) if isinstance(model.input, dict) else images
    np.save(output, np.asarray(model(inputs)))


class Weights:
    """transformers' arrays, put into layers of Keras."""

    def __init__(self, arrays):
        self.arrays = arrays

    def put(self, variable, key):
        variable.assign(self.arrays[key].reshape(variable.shape))

    def norm(self, layer, key):
        self.put(layer.gamma, f"{key}.weight")
        self.put(layer.beta, f"{key}.bias")

    def dense(self, layer, key):
        self.fill(layer, self.arrays[f"{key}.weight"], self.arrays[f"{key}.bias"])

    def fill(self, layer, weight, bias):
        layer.kernel.assign(weight.T.reshape(layer.kernel.shape))
        layer.bias.assign(bias.reshape(layer.bias.shape))

    def patches(self, embedding):
        key = "embeddings.patch_embedding"
        kernel = self.arrays[f"{key}.weight"].transpose(2, 3, 1, 0)
        embedding.patch_embedding.kernel.assign(kernel)
        if embedding.patch_embedding.use_bias:
            self.put(embedding.patch_embedding.bias, f"{key}.bias")
        positions = embedding.position_embedding.embeddings
        self.put(positions, "embeddings.position_embedding.weight")

    def block(self, i, attention, norms, layers):
        key = f"encoder.layers.{i}"
        for name in ("query", "key", "value"):
            self.dense(getattr(attention, f"_{name}_dense"), f"{key}.self_attn.{name[0]}_proj")
        self.dense(attention._output_dense, f"{key}.self_attn.out_proj")
        for j in (1, 2):
            self.norm(norms[j - 1], f"{key}.layer_norm{j}")
            self.dense(layers[j - 1], f"{key}.mlp.fc{j}")


def fill_clip(model, weights):
    weights.patches(model.embedding)
    weights.put(model.embedding.class_embedding, "embeddings.class_embedding")
    ids = model.embedding.position_ids  # zeros until weights are loaded
    ids.assign(np.arange(ids.shape[1])[None])
    weights.norm(model.pre_layer_norm, "pre_layrnorm")
    for i, block in enumerate(model.encoder_layers):
        norms, layers = (block.layer_norm_1, block.layer_norm_2), (block.dense_1, block.dense_2)
        weights.block(i, block.attention, norms, layers)
    weights.norm(model.layer_norm, "post_layernorm")


def fill_siglip(model, weights):
    weights.patches(model.embedding)
    for i, block in enumerate(model.encoder_layers):
        norms, layers = (block.layer_norm1, block.layer_norm2), (block.mlp.fc1, block.mlp.fc2)
        weights.block(i, block.self_attn, norms, layers)
    weights.norm(model.post_layer_norm, "post_layernorm")
    head, key = model.head, "head.attention"
    weights.put(head.probe, "head.probe")
    stacked = (np.split(weights.arrays[f"{key}.in_proj_{part}"], 3) for part in ("weight", "bias"))
    for name, weight, bias in zip(("query", "key", "value"), *stacked, strict=True):
        weights.fill(getattr(head.attention, f"_{name}_dense"), weight, bias)
    weights.dense(head.attention._output_dense, f"{key}.out_proj")
    weights.norm(head.layer_norm, "head.layernorm")
    weights.dense(head.mlp.fc1, "head.mlp.fc1")
    weights.dense(head.mlp.fc2, "head.mlp.fc2")


SIZES = (
    *("patch_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    "intermediate_size",
)
TOWERS = {
    "clip_vision_model": (keras_hub.models.CLIPVisionEncoder, fill_clip),
    "siglip_vision_model": (keras_hub.models.SigLIPVisionEncoder, fill_siglip),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
