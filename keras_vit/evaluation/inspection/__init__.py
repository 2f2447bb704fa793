"""What a model has learned: filters, positions, attention and features, as arrays and as a page."""

from keras_vit.evaluation.inspection.distance import attention_distance, even_distance
from keras_vit.evaluation.inspection.features import patch_pca
from keras_vit.evaluation.inspection.filters import embedding_filters, root_filters
from keras_vit.evaluation.inspection.heads import head_maps
from keras_vit.evaluation.inspection.inspecting import Inspection, inspect_model
from keras_vit.evaluation.inspection.positions import position_similarity
from keras_vit.evaluation.inspection.report import check_for_inspection, write_inspection

__all__ = [
    "Inspection",
    "attention_distance",
    "check_for_inspection",
    "embedding_filters",
    "even_distance",
    "head_maps",
    "inspect_model",
    "patch_pca",
    "position_similarity",
    "root_filters",
    "write_inspection",
]
