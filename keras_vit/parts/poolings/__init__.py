"""The poolings that a ViT can have. To add one: a file here, its layer, and a row in this table."""

from keras_vit.parts.poolings.distilled import DISTILLED
from keras_vit.parts.poolings.gap import GAP
from keras_vit.parts.poolings.map import MAP
from keras_vit.parts.poolings.pooling import Pooling
from keras_vit.parts.poolings.token import TOKEN

POOLINGS: dict[str, Pooling] = {
    "token": TOKEN,
    "gap": GAP,
    "map": MAP,
    "distilled": DISTILLED,
    "none": Pooling(class_token=True, averages=True),
}
