"""From a trained model to a file on a phone, checked on the way."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "bundle.bundle": ["read_bundle", "weights_sha256", "write_bundle"],
        "bundle.card": ["notes"],
        "bundle.opened": ["OpenedBundle", "open_bundle"],
        "bundle.report": ["table", "write_report"],
        "convert.auto": ["choose_float_layers"],
        "convert.converter": ["Converter", "to_tflite"],
        "convert.quantize": ["PRECISIONS", "precision_of", "quantizable_layers"],
        "convert.saved_model": ["export_saved_model"],
        "export": ["CALIBRATED", "check", "export_tflite", "judge", "to_pixels"],
        "inspect.inspection": ["Inspection", "inspect_file"],
        "inspect.lint": ["lint"],
        "inspect.runtimes": ["check_runtime", "runtime_floor"],
        "judge.blocks": ["first_difference", "layer_differences"],
        "judge.measure": ["Measured", "latencies", "measure"],
        "judge.parity": ["ParityError", "Verdict", "compare"],
        "judge.reference": ["expected_scores", "predict"],
        "runner": ["Runner"],
    },
)
