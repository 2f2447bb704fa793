"""Evaluation of trained models: metrics and an HTML report."""

from keras_vit.evaluation.attention import attention_maps, rollout
from keras_vit.evaluation.classification import (
    ClassReport,
    classification_report,
    multi_label_report,
    recall_warning,
)
from keras_vit.evaluation.comparison import summary, write_comparison
from keras_vit.evaluation.report import evaluate, held_out_report

__all__ = [
    "ClassReport",
    "attention_maps",
    "classification_report",
    "evaluate",
    "held_out_report",
    "multi_label_report",
    "recall_warning",
    "rollout",
    "summary",
    "write_comparison",
]
