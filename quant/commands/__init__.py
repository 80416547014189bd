"""The commands of `python -m quant`: measure models, compare methods."""
