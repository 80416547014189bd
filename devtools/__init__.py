"""Tools for whoever makes models fast: benchmarks, and how this machine compares."""
