"""What `python -m devtools` does: its options, its progress, its tables."""
