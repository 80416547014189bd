"""Causal attention over a cache, which takes the call's keys and values first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.fx import Node

from delegates.op_list.graph import (
    ATTENTION,
    args_of,
    kwargs_of,
    most_tokens,
    operator_name,
    shape_of,
)
from delegates.op_list.ops.norm import NormWeight
from delegates.op_list.ops.op import Cache, Field, Matchers, Op, Places, Values
from delegates.op_list.ops.rotate import Rotation
from delegates.op_list.refused import Refused
from delegates.op_list.ring import ring_rows
from delegates.op_list.rows import Rows, is_heads


@dataclass(eq=False, kw_only=True)
class Attention(Op):
    """
    Attributes:
        offsets: of the columns of queries, keys and values in what it reads.
        window: positions that a query sees, including its own; 0: all up to its own.
        soft_cap: of scores; 0: none.
        sinks: (num_attention_heads,), one more score of each head; None: there is none.
        int8: whether heads are rounded to int8.
        query_norm, key_norm: applied to each head first.
        rotation: applied to the heads of queries and keys after the norms.
    """

    READS: ClassVar = ("query", "key", "value")

    query: Rows
    key: Rows
    value: Rows
    start_pos: Any
    cache: Cache
    num_attention_heads: int
    scale: float
    window: int
    soft_cap: float
    sinks: Node | None
    int8: bool
    offsets: tuple[int, int, int] = (0, 0, 0)
    query_norm: NormWeight | None = None
    key_norm: NormWeight | None = None
    rotation: Rotation | None = None

    def fields(self, places: Places) -> list[Field]:
        norms = self.query_norm, self.key_norm
        columns: list[Field] = []
        for rows, offset in zip(self.reads(), self.offsets, strict=True):
            columns += [places.slot(rows), offset]
        return [
            *columns,
            places.slot(self.output),
            self.num_attention_heads,
            places.cache(self.cache),
            self.scale,
            *(norm.place(places) if norm else None for norm in norms),
            next((norm.eps for norm in norms if norm), 0.0),
            *(self.rotation.place(places) if self.rotation else (None, None)),
            self.window,
            self.soft_cap,
            None if self.sinks is None else places.vector(self.sinks),
        ]

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Adds them to its preparation, which it always has: writing keys and values to the
        cache."""
        self.prepare_nodes = [*nodes, *self.prepare_nodes]


def match_attention(node: Node, values: Values) -> Attention | Refused | None:
    """Returns the attention whose first result is the node; its other results are its caches."""
    attention, index = args_of(node)
    if index != 0 or not isinstance(attention, Node) or operator_name(attention) != ATTENTION:
        return None
    given = kwargs_of(attention)
    heads = [given[name] for name in ("query", "key", "value")]
    if not all(map(is_heads, heads)):
        return Refused("its queries, keys and values are not heads (1, seq_len, heads, head_dim)")
    bases = given["_all_bases"]
    caches = [bases[given[f"_{name}_cache_base_index"]] for name in ("key", "value")]
    names = [values.constants.buffer_name(cache) for cache in caches]
    if names[0] is None or names[1] is None or shape_of(caches[0]) != shape_of(caches[1]):
        return Refused("its caches are not two buffers of one shape that it alone writes")
    if caches[0] is caches[1]:
        return Refused("its keys and values are in one buffer")
    _, context, key_heads, head_dim = shape_of(caches[0])
    query, key, value = map(values.rows, heads)
    sinks = given.get("sinks")
    if sinks is not None and values.constants.name(sinks) is None:
        return Refused("its sinks are computed, not a constant")
    window, name = given.get("window") or 0, names[0].rpartition(".")[0] or names[0]
    rows = ring_rows(window, context, most_tokens(heads[0]))
    return Attention(
        output=values.rows(node),
        nodes=[attention, *attention.users],
        query=query,
        key=key,
        value=value,
        start_pos=given["start_pos"],
        cache=Cache(name, key_heads, head_dim, context, rows, names[0]),
        num_attention_heads=shape_of(heads[0])[2],
        scale=given["scale"],
        window=window,
        soft_cap=given.get("soft_cap") or 0.0,
        sinks=sinks,
        int8=given.get("int8", False),
    )


MATCHERS: Matchers = {"getitem": (match_attention,)}
