"""The official layouts; `dialects.py` reads their spellings, among them big_vision's."""

from keras_vit.weights.families.family import Family

OFFICIAL = Family(
    "official",
    "official",
    r"(|opt/target/|target/|params/|params/img/)embedding/kernel",
    numerics={"activation": "tanh", "layer_norm_eps": 1e-6},
)
BIT = Family(
    "BiT",
    "official",
    r"(|opt/target/|target/|params/)resnet/root_block/standardized_conv2d(?:_\d+)?/kernel",
    bit=True,
)
