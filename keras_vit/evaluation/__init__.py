"""What a trained model gets right and wrong, in figures and in pictures."""

from keras_vit.evaluation.attention import attention_maps, rollout
from keras_vit.evaluation.classification import ClassReport, classification_report
from keras_vit.evaluation.report import evaluate

__all__ = ["ClassReport", "attention_maps", "classification_report", "evaluate", "rollout"]
