"""Divides an operator's time among the several lines or modules that it computes at once.

A delegate may run the products of q_proj, k_proj and v_proj as one, and then records one time for
the three. It is divided by a simple rule:

- among products: by the bytes of their weights in a call of one token, which memory bounds, and by
  their operations in a longer one; what is fused to a product, such as an activation or an
  addition, takes nothing of its time;
- where there is no product, as in a norm: by the operations of what is fused.

Bytes and operations are divided by those of the weights and the products themselves. If one of them
is unknown, nothing is divided, and everything belongs to the first line.
"""

from collections.abc import Mapping

from devtools.profile.attribution import (
    Attribution,
    Attributions,
    is_product,
    layer_of,
    only_moves,
)
from devtools.profile.etrecord import Node
from devtools.profile.profile_types import Line, Share
from devtools.profile.work import WorkCounter

_Key = tuple[Line, str]  # a line, and the module that ran it


class Sharing:
    """The shares of every event of one record."""

    def __init__(self, attributions: Attributions, counter: WorkCounter) -> None:
        self._attributions = attributions
        self._counter = counter
        self._known: dict[tuple[tuple[str, ...], int | None], tuple[Share, ...]] = {}

    def of(self, attribution: Attribution, seq_len: int | None) -> tuple[Share, ...]:
        """The shares of an event; empty if it is of one line and module, or if it is unknown how to
        divide it.

        Args:
            found: what the event computes; seq_len: of its call.
        """
        key = (tuple(node.name for node in attribution.nodes), seq_len)
        if key not in self._known:
            self._known[key] = self._find(attribution, seq_len)
        return self._known[key]

    def _find(self, attribution: Attribution, seq_len: int | None) -> tuple[Share, ...]:
        products = [node for node in attribution.nodes if is_product(node)]
        work = (
            self._of_products(products, seq_len)
            if products
            else self._of_rest(attribution, seq_len)
        )
        if work is None or attribution.node is None:
            return ()
        parts: dict[_Key, list[Node]] = {}
        for node in sorted(attribution.nodes, key=lambda node: node is not attribution.node):
            stack = self._attributions.stack_of(node)
            if any(work.get(node.name, ())) and stack:
                parts.setdefault((stack[-1], node.module_path), []).append(node)
        first = (attribution.lines[0], attribution.module_path) if attribution.lines else None
        if len(parts) < 2 or next(iter(parts)) != first:
            return ()
        own = {line for line, _ in parts}
        shares: list[Share] = []
        for (line, module_path), nodes in parts.items():
            moved = sum(work[node.name][0] for node in nodes)
            operations = sum(work[node.name][1] for node in nodes)
            along = () if shares else tuple(item for item in attribution.lines if item not in own)
            shares.append(
                Share(
                    (line, *along),
                    self._attributions.stack_of(nodes[0]),
                    module_path,
                    layer_of(module_path),
                    moved if products and seq_len == 1 else operations,
                    moved,
                    operations,
                )
            )
        return tuple(shares)

    def _of_products(
        self, products: list[Node], seq_len: int | None
    ) -> Mapping[str, tuple[int, int]] | None:
        """Bytes of weights and operations by node; None if one is unknown."""
        work = {}
        for node in products:
            known = self._counter.of_linear(node, seq_len)
            if known is None:
                return None
            work[node.name] = known
        return work

    def _of_rest(
        self, attribution: Attribution, seq_len: int | None
    ) -> Mapping[str, tuple[int, int]] | None:
        work = {}
        for node in attribution.nodes:
            _, operations = (0, 0) if only_moves(node) else self._counter.of(node, seq_len)
            if operations is None:
                return None
            work[node.name] = (operations, operations)
        return work
