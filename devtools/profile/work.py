"""Bytes and operations of a node, from the shapes that it was exported with.

If a delegate counts its own work, its figures are used; this is for all others. Work that depends
on more than the length of the call stays unknown: attention's depends on the cached positions.
"""

import re
from math import prod

from devtools.profile.attribution import operator_word
from devtools.profile.etrecord import Node, Record, Tensor

_BYTES = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
_ELEMENTWISE = {
    "add": 1,
    "sub": 1,
    "mul": 1,
    "div": 1,
    "pow": 1,
    "mean": 1,
    "sum": 1,
    "rsqrt": 1,
    "sigmoid": 1,
    "silu": 1,
    "tanh": 1,
    "exp": 1,
    "neg": 1,
    "cat": 0,
    "split_with_sizes_copy": 0,
    "clone": 0,
    "quantize": 2,
}
_PICKING = {"slice_copy", "select_copy"}
_SYMBOL = re.compile(r"s\d+")


class WorkCounter:
    """Counts what nodes of one record do in a call of a given length."""

    def __init__(self, record: Record) -> None:
        self._tensors = record.tensors
        self._makers = {node.name: node for node in record.nodes}

    def of(self, node: Node, seq_len: int | None) -> tuple[int | None, int | None]:
        """(bytes moved, operations); None where unknown."""
        word = operator_word(node.operator)
        if node.output is None:
            return None, None
        if word == "linear":
            return self._linear(node, seq_len)
        if word.startswith("embedding"):
            return self._embedding(node, seq_len)
        if word in _PICKING:
            outputs = count(node.output, seq_len)
            return (None, None) if outputs is None else (2 * size(node.output, outputs), 0)
        if word in _ELEMENTWISE:
            return self._elementwise(node, _ELEMENTWISE[word], seq_len)
        return None, None

    def _linear(self, node: Node, seq_len: int | None) -> tuple[int | None, int | None]:
        assert node.output is not None
        outputs = count(node.output, seq_len)
        weight = self._tensors.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if not outputs or weight is None or not weight.sizes or not node.output.sizes:
            return None, None
        columns = weight.sizes[-1]
        rows = node.output.sizes[-1]
        if not isinstance(columns, int) or not isinstance(rows, int):
            return None, None
        numbers = outputs + outputs // rows * columns  # written and read, float32
        return self._weight_bytes(node) + 4 * numbers, 2 * outputs * columns

    def _embedding(self, node: Node, seq_len: int | None) -> tuple[int | None, int | None]:
        assert node.output is not None
        outputs = count(node.output, seq_len)
        table = self._tensors.get(node.inputs[0])
        if outputs is None or table is None:
            return None, None
        packed = 2 if "4bit" in node.operator else 1
        return outputs * _BYTES.get(table.dtype, 4) // packed + size(node.output, outputs), 0

    def _elementwise(
        self, node: Node, per_output: int, seq_len: int | None
    ) -> tuple[int | None, int | None]:
        assert node.output is not None
        tensors = [self._tensors[name] for name in node.inputs if name in self._tensors]
        sizes = [(tensor, count(tensor, seq_len)) for tensor in (*tensors, node.output)]
        known = [(tensor, number) for tensor, number in sizes if number is not None]
        if len(known) < len(sizes):
            return None, None
        most = max(number for _, number in known)
        return sum(size(tensor, number) for tensor, number in known), per_output * most

    def of_linear(self, node: Node, seq_len: int | None) -> tuple[int, int] | None:
        """(bytes of the weight, operations) of a linear; None for another operator, and if they
        are unknown."""
        moved, operations = self.of(node, seq_len)
        if operator_word(node.operator) != "linear" or moved is None or operations is None:
            return None
        return self._weight_bytes(node), operations

    def _weight_bytes(self, linear: Node) -> int:
        """Of a linear's weight as it lies in the file: packed values and a 16-bit scale for each
        group; for our own operator, with two levels of scales, 4 bits for each group and 64 for
        each row."""
        name = linear.inputs[1]
        tensor, maker = self._tensors[name], self._makers.get(name)
        numbers = count(tensor, None) or 0
        bits, group = linear.constants.get("bits"), linear.constants.get("group_size")
        if isinstance(bits, int) and isinstance(group, int):
            groups, rows = numbers // group if group else 0, int(tensor.sizes[0])
            of_group = 4 if linear.constants.get("levels") == 2 else 32
            return (numbers * bits + groups * of_group + 64 * rows) // 8
        if maker is None or not operator_word(maker.operator) == "dequantize":
            return size(tensor, numbers)
        low, high = maker.constants.get("quant_min"), maker.constants.get("quant_max")
        bits = 4 if (low, high) == (-8, 7) else 8
        group = prod(maker.constants.get("block_size") or [numbers])
        return numbers * bits // 8 + 2 * (numbers // max(group, 1))


def count(tensor: Tensor, seq_len: int | None) -> int | None:
    """Elements of a tensor; a lone symbol among its sizes is the length of the call."""
    total = 1
    for one in tensor.sizes:
        if isinstance(one, str):
            if seq_len is None or not _SYMBOL.fullmatch(one):
                return None
            one = seq_len
        total *= one
    return total


def size(tensor: Tensor, numbers: int) -> int:
    return numbers * _BYTES.get(tensor.dtype, 4)
