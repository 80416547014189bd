"""The kinds of ops that delegates/op_list/program.fbs has, one file each."""

from collections.abc import Mapping, Sequence

from delegates.op_list.ops import (
    attention,
    columns,
    convolution,
    delta,
    elementwise,
    embedding,
    experts,
    glu,
    layer_norm,
    linear,
    low_rank,
    norm,
    pool,
    positions,
    rotate,
    segment_attention,
    select_last,
    shared_attention,
    view,
    xielu,
)
from delegates.op_list.ops.attention import Attention
from delegates.op_list.ops.columns import Columns
from delegates.op_list.ops.convolution import Convolution
from delegates.op_list.ops.delta import Delta
from delegates.op_list.ops.elementwise import Elementwise, Function
from delegates.op_list.ops.embedding import Embedding
from delegates.op_list.ops.experts import Experts
from delegates.op_list.ops.glu import Glu
from delegates.op_list.ops.layer_norm import LayerNorm
from delegates.op_list.ops.linear import Linear
from delegates.op_list.ops.norm import Norm, NormWeight
from delegates.op_list.ops.op import Cache, Field, Floats, Matcher, Op, Places, State, Values
from delegates.op_list.ops.pool import Pool
from delegates.op_list.ops.positions import Positions
from delegates.op_list.ops.rotate import Rotate, Rotation
from delegates.op_list.ops.segment_attention import SegmentAttention
from delegates.op_list.ops.select_last import SelectLast
from delegates.op_list.ops.shared_attention import SharedAttention
from delegates.op_list.ops.view import View
from delegates.op_list.ops.xielu import Xielu

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
    Convolution,
    Experts,
    Delta,
    SharedAttention,
    Columns,
    LayerNorm,
    Positions,
    SegmentAttention,
    Pool,
    Xielu,
)
_MODULES = (
    *(view, embedding, norm, low_rank, linear, attention, convolution, delta, rotate),
    *(xielu, elementwise, glu, select_last, experts, shared_attention, columns, layer_norm),
    *(positions, segment_attention, pool),
)


def matchers() -> Mapping[str, Sequence[Matcher]]:
    """All matchers by the operator that a pattern ends in, the widest pattern first."""
    by_target: dict[str, list[Matcher]] = {}
    for module in _MODULES:
        for operator, some in module.MATCHERS.items():
            by_target.setdefault(operator, []).extend(some)
    return by_target


__all__ = [
    "KINDS",
    "Attention",
    "Cache",
    "Columns",
    "Convolution",
    "Delta",
    "Elementwise",
    "Embedding",
    "Experts",
    "Field",
    "Floats",
    "Function",
    "Glu",
    "LayerNorm",
    "Linear",
    "Norm",
    "NormWeight",
    "Op",
    "Places",
    "Pool",
    "Positions",
    "Rotate",
    "Rotation",
    "SegmentAttention",
    "SelectLast",
    "SharedAttention",
    "State",
    "Values",
    "View",
    "Xielu",
    "matchers",
]
