"""Measures a `.pte`, the machine's limits and rivals, all in one interleaved run."""
