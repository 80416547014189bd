"""What a module would compute without the rounding of its numbers."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.module.agreement import references
from exporter.module.samples import Sample
from quant.modules import drop_activation_rounding, has_integers


def without_rounding(
    module: nn.Module, is_whole: bool, sample: Sample
) -> Sequence[Sequence[Tensor]] | None:
    """Returns the outputs of each call, float64: of a module in float what it computes in float64,
    of one with integers what these compute of activations that are not rounded.

    Args:
        is_whole: whether the module has all that the file computes; else nothing is known.

    Returns:
        None if the module computes only in float32.
    """
    if not is_whole:
        return None
    exact = copy.deepcopy(module)
    if not has_integers(module):
        calls = []
        for inputs in sample.calls:
            wide = [x.double() if x.dtype is torch.float32 else x for x in inputs.leaves()]
            calls.append(inputs.with_leaves(wide))
        sample, exact = Sample(sample.title, tuple(calls)), exact.double()
    else:
        drop_activation_rounding(exact)
    try:
        outputs = references(exact, exact, sample)
    except ExportError:
        return None
    return [[x.double() if x.is_floating_point() else x for x in call] for call in outputs]
