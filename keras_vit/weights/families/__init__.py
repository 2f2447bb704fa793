"""The families of files of weights: one record for each, read and written."""

from keras_vit.weights.families.clip import CLIP, SIGLIP
from keras_vit.weights.families.dinov2 import DINOV2, DINOV2_WITH_REGISTERS
from keras_vit.weights.families.dinov3 import DINOV3
from keras_vit.weights.families.eomt import EOMT, EOMT_DINOV3, EOMT_OWN, EOMT_OWN_DINOV3
from keras_vit.weights.families.family import Family, FileLayout
from keras_vit.weights.families.official import BIT, OFFICIAL
from keras_vit.weights.families.timm import TIMM, TIMM_BIT
from keras_vit.weights.families.timm_eva import EVA
from keras_vit.weights.families.transformers import DEIT, VIT

__all__ = ["FAMILIES", "Family", "FileLayout"]

# In the order in which files are compared with them, and models that are to be written.
FAMILIES: tuple[Family, ...] = (
    OFFICIAL,
    BIT,
    EVA,
    TIMM,
    TIMM_BIT,
    EOMT,
    EOMT_DINOV3,
    EOMT_OWN,
    EOMT_OWN_DINOV3,
    DINOV3,
    DINOV2_WITH_REGISTERS,
    DINOV2,
    CLIP,
    SIGLIP,
    DEIT,
    VIT,
)
