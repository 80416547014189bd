"""The kinds of ops that delegates/op_list/program.fbs has, one file each."""

from collections.abc import Mapping, Sequence

from delegates.op_list.ops import (
    affine,
    attention,
    columns,
    concatenate,
    constant,
    convolution,
    delta,
    depthwise,
    elementwise,
    embedding,
    experts,
    gather,
    glu,
    layer_norm,
    linear,
    low_rank,
    narrow,
    norm,
    patches,
    pool,
    pool_rows,
    positions,
    recurrent,
    relative_scores,
    rotate,
    sample_norm,
    segment_attention,
    select_last,
    shared_attention,
    view,
    xielu,
)
from delegates.op_list.ops.affine import Affine
from delegates.op_list.ops.attention import Attention
from delegates.op_list.ops.columns import Columns
from delegates.op_list.ops.concatenate import Concatenate
from delegates.op_list.ops.constant import Constant
from delegates.op_list.ops.convolution import Convolution
from delegates.op_list.ops.delta import Delta
from delegates.op_list.ops.depthwise import Depthwise
from delegates.op_list.ops.elementwise import Elementwise, Function
from delegates.op_list.ops.embedding import Embedding
from delegates.op_list.ops.experts import Experts
from delegates.op_list.ops.gather import Gather
from delegates.op_list.ops.glu import Glu
from delegates.op_list.ops.layer_norm import LayerNorm
from delegates.op_list.ops.linear import Linear
from delegates.op_list.ops.narrow import Narrow
from delegates.op_list.ops.norm import Norm, NormWeight
from delegates.op_list.ops.op import (
    Cache,
    Field,
    Floats,
    Indices,
    Matcher,
    Op,
    Places,
    Side,
    State,
    Values,
)
from delegates.op_list.ops.patches import Patches
from delegates.op_list.ops.pool import Pool
from delegates.op_list.ops.pool_rows import PoolRows
from delegates.op_list.ops.positions import Positions
from delegates.op_list.ops.recurrent import Recurrent
from delegates.op_list.ops.relative_scores import RelativeScores
from delegates.op_list.ops.rotate import Rotate, Rotation
from delegates.op_list.ops.sample_norm import SampleNorm
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
    Patches,
    Concatenate,
    Narrow,
    Constant,
    Affine,
    Gather,
    PoolRows,
    Depthwise,
    SampleNorm,
    Recurrent,
    RelativeScores,
)
_MODULES = (
    *(view, embedding, norm, low_rank, linear, attention, convolution, delta, rotate),
    *(xielu, elementwise, glu, select_last, experts, shared_attention, columns, layer_norm),
    *(positions, segment_attention, pool, patches, concatenate, narrow, constant, affine),
    *(gather, pool_rows, depthwise, sample_norm, recurrent, relative_scores),
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
    "Affine",
    "Attention",
    "Cache",
    "Columns",
    "Concatenate",
    "Constant",
    "Convolution",
    "Delta",
    "Depthwise",
    "Elementwise",
    "Embedding",
    "Experts",
    "Field",
    "Floats",
    "Function",
    "Gather",
    "Glu",
    "Indices",
    "LayerNorm",
    "Linear",
    "Narrow",
    "Norm",
    "NormWeight",
    "Op",
    "Patches",
    "Places",
    "Pool",
    "PoolRows",
    "Positions",
    "Recurrent",
    "RelativeScores",
    "Rotate",
    "Rotation",
    "SampleNorm",
    "SegmentAttention",
    "SelectLast",
    "SharedAttention",
    "Side",
    "State",
    "Values",
    "View",
    "Xielu",
    "matchers",
]
