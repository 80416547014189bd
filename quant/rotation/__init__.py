"""Rotations of the residual stream, folded into the weights."""
