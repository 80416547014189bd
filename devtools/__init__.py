"""Tools for whoever makes models fast: profiles by source line, benchmarks, and how this machine
compares."""
