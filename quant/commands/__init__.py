"""What `python -m quant` does: measuring models, comparing methods."""
