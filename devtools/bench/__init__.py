"""Measuring a `.pte` beside the machine's limits and beside rivals, all in one interleaved run."""
