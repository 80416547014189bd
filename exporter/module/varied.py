"""Examples that torch.export captures for every size: it takes a size of 1 for a constant."""

from typing import Any

import torch
from torch.export import dynamic_shapes
from torch.utils._pytree import tree_leaves

from exporter.errors import ExportError
from exporter.module.source import Inputs, Made

_LEAST = 2  # a size that is no constant


def varied(made: Made) -> Inputs:
    """Returns the module's example, repeated along each Dim that has a size of 1 and may have more.

    Raises:
        ExportError: dynamic_shapes name a size that an input does not have.
        UserError: dynamic_shapes do not fit the inputs.
    """
    shapes: Any = made.dynamic_shapes
    named = [size for size in tree_leaves(shapes) if hasattr(size, "__name__")]
    # Of Dims that are computed from others, as 2 * batch, only all together can grow.
    if not named or any(hasattr(size, "root") for size in named):
        return made.inputs
    grown: dict[int, torch.Tensor] = {}

    def grow(_: Any, x: Any, sizes: Any) -> None:
        if not isinstance(x, torch.Tensor) or not sizes:
            return
        pairs = sizes.items() if isinstance(sizes, dict) else enumerate(sizes)
        for index, size in pairs:
            if not 0 <= index < x.dim():
                raise ExportError(
                    f"dynamic_shapes name size {index} of an input of sizes {tuple(x.shape)}, "
                    "which are counted from 0; name one that it has."
                )
            if hasattr(size, "__name__") and x.shape[index] == 1 and size.max >= _LEAST:
                grown[id(x)] = torch.cat([grown.get(id(x), x)] * _LEAST, dim=index)

    given: Any = dynamic_shapes._combine_args(
        made.module, made.inputs.args, dict(made.inputs.kwargs)
    )
    if isinstance(shapes, tuple | list):
        given = type(shapes)(given.values())
    dynamic_shapes._tree_map_with_path(grow, given, shapes, tree_name="inputs")
    return made.inputs.with_leaves([grown.get(id(leaf), leaf) for leaf in made.inputs.leaves()])
