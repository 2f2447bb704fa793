"""Evaluation of trained models: metrics, probes, pages, and what can be seen inside a model."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "accuracy": ["Accuracy", "accuracy_on", "class_places", "write_accuracy"],
        "attention": ["attention_maps", "rollout"],
        "classification": [
            "ClassReport", "Mistake", "classification_report", "multi_label_report",
            "recall_warning",
        ],
        "comparison": ["summary", "write_comparison"],
        "counting": ["counted_flops"],
        "features": ["Features", "features_of", "split_features"],
        "fewshot": ["choose_shots", "fewshot_accuracy", "fewshot_sweep"],
        "fewshot_probe": ["FewShotProbe"],
        "hub": ["hub_card", "write_hub_folder"],
        "inspection": [
            "Inspection", "attention_distance", "check_for_inspection", "embedding_filters",
            "even_distance", "head_maps", "inspect_model", "patch_pca", "position_similarity",
            "root_filters", "write_inspection",
        ],
        "probes": ["knn_accuracy", "linear_probe_accuracy"],
        "published": ["published_transfer"],
        "report": ["class_report", "evaluate", "held_out_report"],
        "transfer": ["transfer_table", "write_transfer"],
    },
)  # fmt: skip
