"""Evaluation of trained models: metrics, an HTML report, and what can be seen inside a model."""

from keras_vit.evaluation.attention import attention_maps, rollout
from keras_vit.evaluation.classification import (
    ClassReport,
    classification_report,
    multi_label_report,
    recall_warning,
)
from keras_vit.evaluation.comparison import summary, write_comparison
from keras_vit.evaluation.inspection import (
    Inspection,
    attention_distance,
    check_for_inspection,
    embedding_filters,
    even_distance,
    head_maps,
    inspect_model,
    patch_pca,
    position_similarity,
    root_filters,
    write_inspection,
)
from keras_vit.evaluation.report import class_report, evaluate, held_out_report

__all__ = [
    "ClassReport",
    "Inspection",
    "attention_distance",
    "attention_maps",
    "check_for_inspection",
    "class_report",
    "classification_report",
    "embedding_filters",
    "evaluate",
    "even_distance",
    "head_maps",
    "held_out_report",
    "inspect_model",
    "multi_label_report",
    "patch_pca",
    "position_similarity",
    "recall_warning",
    "rollout",
    "root_filters",
    "summary",
    "write_comparison",
    "write_inspection",
]
