"""What a module would compute without the rounding of float32."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from exporter.errors import ExportError
from exporter.module.agreement import references
from exporter.module.samples import Sample


def in_float64(module: nn.Module, sample: Sample) -> Sequence[Sequence[Tensor]] | None:
    """Returns the outputs of each call in float64; None if the module computes only in float32."""
    calls = []
    for inputs in sample.calls:
        wide = [x.double() if x.dtype is torch.float32 else x for x in inputs.leaves()]
        calls.append(inputs.with_leaves(wide))
    exact = copy.deepcopy(module).double()
    try:
        return references(exact, exact, Sample(sample.title, tuple(calls)))
    except ExportError:
        return None
