"""Evaluation of trained models: metrics, probes, pages, and what can be seen inside a model."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "accuracy": ["Accuracy", "accuracy_on", "class_places", "write_accuracy"],
        "attention_scores": [
            "attention_distance", "attention_maps", "even_distance", "head_maps", "rollout",
        ],
        "classification": [
            "ClassReport", "Mistake", "classification_report", "multi_label_report",
            "recall_warning",
        ],
        "comparison": ["summary", "write_comparison"],
        "flops": ["counted_flops"],
        ".frozen_features": ["features_of"],
        "features": ["Features", "split_features"],
        "hub": ["hub_card", "write_hub_folder"],
        "inspecting": ["Inspection", "inspect_model"],
        "inspection_page": ["check_for_inspection", "write_inspection"],
        "learned_weights": [
            "embedding_filters", "patch_pca", "position_similarity", "root_filters",
        ],
        "probes": [
            "FewShotProbe", "choose_shots", "fewshot_accuracy", "fewshot_sweep", "knn_accuracy",
            "linear_probe_accuracy",
        ],
        "published_accuracies": ["published_transfer"],
        "report": ["Report"],
        "run_report": ["class_report", "evaluate", "held_out_report"],
        "segmentation": ["SegmentationReport", "segmentation_report"],
        "transfer_page": ["transfer_table", "write_transfer"],
    },
)  # fmt: skip
