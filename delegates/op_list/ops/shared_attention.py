"""Causal attention over the cache of an earlier attention, which has written this call's keys and
values."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import ATTENTION, args_of, kwargs_of, operator_name, shape_of
from delegates.op_list.ops.norm import NormWeight
from delegates.op_list.ops.op import Field, Matchers, Op, Places, Values
from delegates.op_list.ops.rotate import Rotation
from delegates.op_list.refused import Refused
from delegates.op_list.rows import Rows, is_heads


@dataclass(eq=False, kw_only=True)
class SharedAttention(Op):
    """
    Attributes:
        keys: the name of the buffer of the cache's keys.
        positions: of the cache's context.
        window, soft_cap: as those of Attention.
        query_norm: applied to each head first.
        rotation: applied to the heads after the norm.
    """

    READS: ClassVar = ("query",)

    query: Rows
    keys: str
    positions: int
    num_attention_heads: int
    scale: float
    window: int
    soft_cap: float
    query_norm: NormWeight | None = None
    rotation: Rotation | None = None

    def fields(self, places: Places) -> list[Field]:
        return [
            places.slot(self.query),
            places.slot(self.output),
            self.num_attention_heads,
            places.cache_of(self),
            self.scale,
            self.query_norm.place(places) if self.query_norm else None,
            self.query_norm.eps if self.query_norm else 0.0,
            *(self.rotation.place(places) if self.rotation else (None, None)),
            self.window,
            self.soft_cap,
        ]

    @property
    def label(self) -> str:
        return "shared_attention"


def match_shared_attention(node: Node, values: Values) -> SharedAttention | Refused:
    query, keys, caches, _, scale, *rest = args_of(node)
    window, soft_cap = (*rest, None, None)[:2]  # in int8 if the keys and values are
    if not is_heads(query):
        return Refused("its queries are not heads (1, seq_len, heads, head_dim)")
    buffers = [written_buffer(cache, values) for cache in (keys, caches)]
    if buffers[0] is None or buffers[1] is None:
        return Refused("its keys and values are not those that an attention has written")
    return SharedAttention(
        output=values.rows(node),
        nodes=[node],
        query=values.rows(query),
        keys=buffers[0],
        positions=shape_of(keys)[1],
        num_attention_heads=shape_of(query)[2],
        scale=scale,
        window=window or 0,
        soft_cap=soft_cap or 0.0,
    )


def written_buffer(cache: Any, values: Values) -> str | None:
    """Returns the name of the buffer of which a node is the value that an attention has written;
    None if it is none."""
    if not isinstance(cache, Node) or operator_name(cache) != "getitem":
        return None
    attention, index = args_of(cache)
    if operator_name(attention) != ATTENTION or index == 0:
        return None
    return values.constants.buffer_name(kwargs_of(attention)["_all_bases"][index - 1])


MATCHERS: Matchers = {"thimble::shared_attention": (match_shared_attention,)}
