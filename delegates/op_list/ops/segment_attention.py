"""Attention among the rows of a segment, without a cache."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import args_of, most_tokens, shape_of
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_heads

_DEFAULTS = 1, None, False, False  # of parts and biases, where a graph leaves them out
_ALL = 2**32 - 1  # positions behind its own that a query sees: all that there are


@dataclass(eq=False, kw_only=True)
class SegmentAttention(Op):
    """
    Attributes:
        offsets: of the columns of queries, keys and values in what it reads.
        window: positions up to its own that a query sees; 0: all.
        after: positions behind its own that it sees; None: all.
        max_seq_len: the most rows of a segment.
        parts: of a sample, each by itself.
        bias: added to the scores: a row for each query; those of each head where bias_heads, and
            all of these of each part where bias_parts.
        integers: queries, keys, values and weights are rounded.
    """

    READS: ClassVar = ("query", "key", "value", "bias")
    BY_SAMPLE: ClassVar = True
    VERSION: ClassVar = 7

    query: Rows
    key: Rows
    value: Rows
    num_attention_heads: int
    num_key_value_heads: int
    scale: float
    window: int
    after: int | None
    max_seq_len: int
    offsets: tuple[int, int, int] = (0, 0, 0)
    parts: int = 1
    bias: Rows | None = None
    bias_heads: bool = False
    bias_parts: bool = False
    integers: bool = False

    def fields(self, places: Places) -> list[Field]:
        columns: list[Field] = []
        joined = self.query, self.key, self.value
        for rows, offset in zip(joined, self.offsets, strict=True):
            columns += [places.slot(rows), offset]
        return [
            *columns,
            places.slot(self.output),
            self.num_attention_heads,
            self.num_key_value_heads,
            self.scale,
            self.window,
            _ALL if self.after is None else self.after,
            self.max_seq_len,
            *self._of_samples(places),
        ]

    def _of_samples(self, places: Places) -> list[Field]:
        """Fields since version 9, where there is something in them."""
        if self.version < 9:
            return []
        bias = None if self.bias is None else places.slot(self.bias)
        fields: list[Field] = [self.parts, bias, bias is not None, self.bias_heads, self.bias_parts]
        return [*fields, True] if self.integers else fields

    @property
    def version(self) -> int:
        if self.integers:
            return 16
        return self.VERSION if self.parts == 1 and self.bias is None else 9

    @property
    def label(self) -> str:
        return "segment_attention"


def match_segment_attention(node: Node, values: Values) -> SegmentAttention | Refused:
    query, key, value, scale, window, after = args_of(node)
    return _segment_attention(node, (query, key, value), scale, window, after, values)


def _segment_attention(
    node: Node,
    heads: tuple[Node, Node, Node],
    scale: float,
    window: int | None,
    after: int | None,
    values: Values,
) -> SegmentAttention | Refused:
    query, key, value = heads
    if not all(map(is_heads, (query, key, value))):
        return Refused("its queries, keys and values are not heads (1, seq_len, heads, head_dim)")
    return SegmentAttention(
        output=values.rows(node),
        nodes=[node],
        query=values.rows(query),
        key=values.rows(key),
        value=values.rows(value),
        num_attention_heads=shape_of(query)[2],
        num_key_value_heads=shape_of(key)[2],
        scale=scale,
        window=window or 0,
        after=after,
        max_seq_len=most_tokens(query),
    )


def match_full_attention(node: Node, values: Values) -> SegmentAttention | Refused:
    query, key, value, scale, causal, *rest = args_of(node)
    given: tuple[Any, ...] = (*rest, *_DEFAULTS[len(rest) :])
    parts, bias, bias_heads, bias_parts = given
    after = 0 if causal else None
    op = _segment_attention(node, (query, key, value), scale, None, after, values)
    if isinstance(op, SegmentAttention):
        op.parts, op.bias_heads, op.bias_parts = parts, bias_heads, bias_parts
        op.bias = None if bias is None else values.rows(bias)
    return op


MATCHERS: Matchers = {
    "thimble::segment_attention": (match_segment_attention,),
    "thimble::full_attention": (match_full_attention,),
}
