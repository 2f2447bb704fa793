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
from keras_vit.evaluation.features import Features, features_of, split_features
from keras_vit.evaluation.fewshot import choose_shots, fewshot_accuracy, fewshot_sweep
from keras_vit.evaluation.fewshot_probe import FewShotProbe
from keras_vit.evaluation.hub_card import hub_card, write_hub_folder
from keras_vit.evaluation.probes import knn_accuracy, linear_probe_accuracy
from keras_vit.evaluation.published import published_transfer
from keras_vit.evaluation.report import evaluate, held_out_report
from keras_vit.evaluation.transfer import transfer_table, write_transfer

__all__ = [
    "Accuracy",
    "ClassReport",
    "Features",
    "FewShotProbe",
    "accuracy_on",
    "attention_maps",
    "choose_shots",
    "class_places",
    "classification_report",
    "evaluate",
    "features_of",
    "fewshot_accuracy",
    "fewshot_sweep",
    "held_out_report",
    "hub_card",
    "knn_accuracy",
    "linear_probe_accuracy",
    "multi_label_report",
    "published_transfer",
    "recall_warning",
    "rollout",
    "split_features",
    "summary",
    "transfer_table",
    "write_accuracy",
    "write_comparison",
    "write_hub_folder",
    "write_transfer",
]
