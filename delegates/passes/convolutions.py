"""Short convolutions in plain operators, for delegates that know none of ours: the operator's
decomposition, which replaces the state at its end."""

from torch.export import ExportedProgram

from delegates.passes.experts import expand

SHORT_CONVOLUTION = "thimble.short_convolution.default"


def expand_convolutions(program: ExportedProgram) -> int:
    """Replaces every short convolution in place; returns how many there were."""
    return expand(program, SHORT_CONVOLUTION)
