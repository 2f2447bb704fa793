"""Training: recipes as data, and the training loop."""

from keras_vit._lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "prepared": ["Saving", "build"],
        "class_weights": ["balanced_weights", "few_images_warning", "imbalance_warning"],
        "checkpoints": ["Checkpoints"],
        "callbacks": ["Hooks", "Progress"],
        "costs": ["Costs"],
        "engines": ["Engine", "open_engine"],
        "plan": ["Plan", "plan_of"],
        "recipes": ["PRESETS", "RECIPES", "Preset", "Recipe", "default_recipe"],
        "run": ["check_settings", "dry_run", "train"],
        "trials": ["Trial", "check_trial", "fixed_budget", "is_finished", "run_trial", "with_seed"],
        "transfer_tasks": ["SUITES", "TASKS", "TransferTask"],
        "tasks": ["MultiLabel", "SingleLabel", "Task", "task_of"],
    },
)
