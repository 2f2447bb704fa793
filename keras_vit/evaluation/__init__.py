"""Evaluation of trained models: metrics and an HTML report."""

from keras_vit.evaluation.accuracy import Accuracy, accuracy_on, class_places, write_accuracy
from keras_vit.evaluation.attention import attention_maps, rollout
from keras_vit.evaluation.classification import (
    ClassReport,
    classification_report,
    multi_label_report,
    recall_warning,
)
from keras_vit.evaluation.comparison import summary, write_comparison
from keras_vit.evaluation.published import published_transfer
from keras_vit.evaluation.report import evaluate, held_out_report
from keras_vit.evaluation.transfer import transfer_table, write_transfer

__all__ = [
    "Accuracy",
    "ClassReport",
    "accuracy_on",
    "attention_maps",
    "class_places",
    "classification_report",
    "evaluate",
    "held_out_report",
    "multi_label_report",
    "published_transfer",
    "recall_warning",
    "rollout",
    "summary",
    "transfer_table",
    "write_accuracy",
    "write_comparison",
    "write_transfer",
]
