"""Our own CPU delegate: one call runs the whole decoder, weights used in place."""

from delegates.cpu.lower import load, lower

__all__ = ["load", "lower"]
