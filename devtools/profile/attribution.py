"""From debug handles to lines: what the nodes behind an event say about it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from devtools.profile.etrecord import Node, Record
from devtools.profile.profile_types import Line

_LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
# What operators compute that kernels are written for; the heaviest first.
_HEAVY = {
    "cached_attention": "attention",
    "short_convolution": "convolution",
    "gated_delta_rule": "delta rule",
    "custom_sdpa": "attention",
    "scaled_dot_product_attention": "attention",
    "linear": "linear",
    "addmm": "linear",
    "mm": "linear",
    "bmm": "matmul",
    "matmul": "matmul",
    "convolution": "convolution",
    "embedding": "embedding",
    "recurrent": "recurrent",
    "embedding_byte": "embedding",
    "embedding_4bit": "embedding",
}
_RANKS = {word: rank for rank, word in enumerate(_HEAVY)}
_LIGHT = {"quantize", "dequantize", "choose_qparams", "update_cache"}
_MOVING = {
    "view_copy",
    "reshape",
    "unsqueeze_copy",
    "squeeze_copy",
    "expand_copy",
    "permute_copy",
    "slice_copy",
    "select_copy",
    "split_with_sizes_copy",
    "_to_copy",
}
_PLAIN_WORDS = {
    "update_cache": "cache",
    "native_layer_norm": "norm",
    "_local_scalar_dense": "item",
    "sym_size": "size",
}


@dataclass(frozen=True)
class Attribution:
    """What an event with certain debug handles is.

    Attributes:
        node: the one that gives the event its name; None if nothing is known.
        nodes: all of them, in the graph's order.
        lines: the model's own line of each, without repetition, the first node's first.
        stack: the frames that lead to the first of the lines.
        op_kind: what the first node computes; a norm where its parts are one event.
    """

    node: Node | None
    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    stack: tuple[Line, ...]
    op_kind: str

    @property
    def module_path(self) -> str:
        return self.node.module_path if self.node is not None else ""

    @property
    def layer(self) -> int | None:
        return layer_of(self.module_path)

    @property
    def is_heavy(self) -> bool:
        """Whether it holds a product or a table: what kernels are written for."""
        return self.op_kind in _HEAVY.values()


UNKNOWN = Attribution(None, (), (), (), "")


class Attributions:
    """The attribution of every set of handles of one record."""

    def __init__(self, record: Record) -> None:
        self._by_handle: dict[int, list[Node]] = {}
        for node in record.nodes:
            if node.debug_handle is not None:
                self._by_handle.setdefault(node.debug_handle, []).append(node)
        self._order = {node.name: at for at, node in enumerate(record.nodes)}
        self._readers: dict[str, list[Node]] = {}
        for node in record.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, handles: tuple[int, ...]) -> Attribution:
        nodes = sorted(
            {
                node.name: node for handle in handles for node in self._by_handle.get(handle, ())
            }.values(),
            key=lambda node: self._order[node.name],
        )
        if not nodes:
            return UNKNOWN
        stacks = {node.name: self.stack_of(node) for node in nodes}
        main = min(nodes, key=lambda node: (not stacks[node.name], _rank(node)))
        ordered = [main, *(node for node in nodes if node is not main)]
        lines = dict.fromkeys(stacks[node.name][-1] for node in ordered if stacks[node.name])
        return Attribution(main, tuple(nodes), tuple(lines), stacks[main.name], _kind(main, nodes))

    def stack_of(self, node: Node) -> tuple[Line, ...]:
        """A node that the exporter inserted takes the line of the first that reads it."""
        seen, waiting = {node.name}, [node]
        while waiting:
            current = waiting.pop(0)
            if current.stack:
                return current.stack
            for reader in self._readers.get(current.name, ()):
                if reader.name not in seen:
                    seen.add(reader.name)
                    waiting.append(reader)
        return ()


def layer_of(module_path: str) -> int | None:
    """The number of the decoder layer in a module's path; None outside of the layers."""
    match = _LAYER.search(module_path)
    return int(match[1]) if match else None


def is_product(node: Node) -> bool:
    """Whether it is what kernels are written for: a matrix product, attention, or a table."""
    return operator_word(node.operator) in _HEAVY


def only_moves(node: Node) -> bool:
    """Whether it computes nothing: it only names, slices or reshapes a tensor."""
    return operator_word(node.operator) in _MOVING or node.output is None


def operator_word(operator: str) -> str:
    """linear of aten.linear.default, mean of aten.mean.dim, quantize of its affine variants."""
    parts = operator.split(".")
    word = parts[1] if len(parts) > 2 else parts[0]
    for family in ("quantize", "dequantize", "choose_qparams"):
        if word.startswith(family):
            return family
    return word


def _rank(node: Node) -> int:
    """The node of the lowest rank gives an event its name and its line."""
    word = operator_word(node.operator)
    if word in _RANKS:
        return _RANKS[word]
    if word in _LIGHT:
        return 200
    return 300 if only_moves(node) else 100


def _kind(main: Node, nodes: Iterable[Node]) -> str:
    word = operator_word(main.operator)
    if word in _HEAVY:
        return _HEAVY[word]
    words = {operator_word(node.operator) for node in nodes}
    if "rsqrt" in words and len(words) > 1:
        return "norm"
    return _PLAIN_WORDS.get(word, word.removesuffix("_copy").lstrip("_"))
