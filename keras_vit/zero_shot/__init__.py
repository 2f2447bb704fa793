"""Zero-shot classifiers: from the names of classes to a model that tells them apart."""
