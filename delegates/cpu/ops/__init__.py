"""The kinds of ops that delegates/cpu/program.fbs has, one file each."""

from collections.abc import Mapping, Sequence

from delegates.cpu.ops import (
    attention,
    elementwise,
    embedding,
    glu,
    linear,
    norm,
    rotate,
    select_last,
    view,
)
from delegates.cpu.ops.attention import Attention
from delegates.cpu.ops.elementwise import Elementwise, Function
from delegates.cpu.ops.embedding import Embedding
from delegates.cpu.ops.glu import Glu
from delegates.cpu.ops.linear import Linear
from delegates.cpu.ops.norm import Norm, NormWeight
from delegates.cpu.ops.op import Cache, Field, Floats, Matcher, Op, Places, Values
from delegates.cpu.ops.rotate import Rotate, Rotation
from delegates.cpu.ops.select_last import SelectLast
from delegates.cpu.ops.view import View

# In the order of the schema's union Kind, which counts from 1.
KINDS: tuple[type[Op], ...] = (
    Embedding,
    Norm,
    Linear,
    Attention,
    Rotate,
    Elementwise,
    Glu,
    SelectLast,
)
_MODULES = (view, embedding, norm, linear, attention, rotate, elementwise, glu, select_last)


def matchers() -> Mapping[str, Sequence[Matcher]]:
    """All matchers by the operator that a pattern ends in, the widest pattern first."""
    found: dict[str, list[Matcher]] = {}
    for module in _MODULES:
        for operator, some in module.MATCHERS.items():
            found.setdefault(operator, []).extend(some)
    return found


__all__ = [
    "KINDS",
    "Attention",
    "Cache",
    "Elementwise",
    "Embedding",
    "Field",
    "Floats",
    "Function",
    "Glu",
    "Linear",
    "Norm",
    "NormWeight",
    "Op",
    "Places",
    "Rotate",
    "Rotation",
    "SelectLast",
    "Values",
    "View",
    "matchers",
]
