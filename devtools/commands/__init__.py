"""The commands of `python -m devtools`: options, progress and tables."""
