"""Quantized layers on disk, found by a digest of everything that determines their numbers."""
