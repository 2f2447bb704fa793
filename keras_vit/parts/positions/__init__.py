"""The position embeddings that a ViT can have. To add one: a file here, and a row in this table."""

from keras_vit.parts.positions.learned import LEARNED
from keras_vit.parts.positions.learned2d import LEARNED2D
from keras_vit.parts.positions.position_embedding import PositionEmbedding
from keras_vit.parts.positions.relative import RELATIVE
from keras_vit.parts.positions.sincos2d import SINCOS2D

POSITION_EMBEDDINGS: dict[str, PositionEmbedding] = {
    "learned": LEARNED,
    "learned2d": LEARNED2D,
    "sincos2d": SINCOS2D,
    "relative": RELATIVE,
    "none": PositionEmbedding(),
}
