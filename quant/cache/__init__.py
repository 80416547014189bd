"""Quantized layers on disk, found again by what decides their numbers."""
