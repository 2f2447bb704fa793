"""Exports trained models to `.tflite` files and SavedModels, and compares them with Keras."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "bundle.android": [
            "add_to_app",
            "bundles_of_app",
            "check_for_app",
            "too_new_for_app",
        ],
        "bundle.bundle": ["About", "read_bundle", "write_bundle"],
        "bundle.card": ["notes"],
        "bundle.golden": ["GoldenCheck", "KernelCheck", "check_golden"],
        "bundle.names": ["bundle_name"],
        "bundle.opened": ["OpenedBundle", "open_bundle"],
        "bundle.recommendation": ["recommendation", "recommended"],
        "bundle.report": ["table", "write_report"],
        "bundle.web": ["check_for_site", "fetch_litert_js", "has_litert_js", "make_site"],
        "clients.clients": ["CLIENTS", "Client"],
        "clients.judging": ["ClientVerdict", "judge_client", "run_in_client", "seen_by"],
        "convert.auto": ["choose_float_layers"],
        "convert.converter": ["Converter", "to_tflite"],
        "convert.quantize": ["quantizable_layers"],
        "convert.saved_model": ["export_saved_model"],
        "export": ["Bundles", "export_bundles", "export_tflite"],
        "images": ["CALIBRATED", "to_pixels"],
        "inspect.inspection": ["Inspection", "inspect_file"],
        "inspect.lint": ["lint"],
        "inspect.runtimes": ["check_runtime", "runtime_floor"],
        "judge.blocks": ["first_difference", "layer_differences"],
        "judge.files": ["JudgedFile", "MadeFile", "check", "judge_file"],
        "judge.measure": ["Measured", "latencies", "measure"],
        "judge.parity": ["ParityError", "Verdict", "compare"],
        "judge.reference": ["Reference", "expected_scores", "predict"],
        "precisions": ["PRECISIONS", "Precision", "precision_of"],
        "resolve": ["Resolved", "resolve"],
        "runner": ["Runner"],
        "serving.serving": ["export_serving"],
        "subject": ["Subject", "of_run", "of_weights"],
    },
)
