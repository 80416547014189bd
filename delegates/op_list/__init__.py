"""A decoder as a list of operations with packed weights: what our own executors run."""
