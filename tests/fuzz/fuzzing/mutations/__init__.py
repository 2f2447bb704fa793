"""Pure functions from a generator and a file's content to the content after one mutation."""
