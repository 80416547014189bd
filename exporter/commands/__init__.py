"""The commands of `python -m exporter`: options, progress and results."""
