"""A SavedModel that serves pixels and picture files."""
