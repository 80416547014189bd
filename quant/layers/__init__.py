"""The walk over a model's layers, and how each of them and the two ends are quantized."""
