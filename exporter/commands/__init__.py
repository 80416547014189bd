"""What `python -m exporter` does: reading its options, showing its progress, its results."""
