"""Training: recipes as data, and the training loop."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "building": ["build", "check_settings"],
        "classes": ["balanced_weights", "few_images_warning", "imbalance_warning"],
        "checkpoints": ["Checkpoints"],
        "costs": ["Costs"],
        "engines": ["Engine", "open_engine"],
        "plan": ["Plan", "plan_of"],
        "progress": ["Progress"],
        "recipes": ["PRESETS", "RECIPES", "Preset", "Recipe", "default_recipe"],
        "run": ["dry_run", "train"],
        "run_options": ["Hooks", "Saving"],
        "trials": [
            "Trial",
            "check_trial",
            "fixed_budget",
            "is_finished",
            "run_trial",
            "with_seed",
        ],
        "transfer": ["SUITES", "TASKS", "TransferTask"],
        "tasks": ["MultiLabel", "SingleLabel", "Task", "task_of"],
    },
)
