"""Weights that bitsandbytes has stored as numbers of 4 bits, read as float32.

Each number is one of 16 values, which are stored beside the weight (`quant_map`), times the largest
of its block (`absmax`). Those largest values are themselves often numbers of 8 bits in blocks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_METHOD = "bitsandbytes"
_STATES = ("quant_state.bitsandbytes__nf4", "quant_state.bitsandbytes__fp4")
_PARTS = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")
_OCTETS = (torch.uint8, torch.int8)  # or another type, with bnb_4bit_quant_storage
_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# What JSON of another kind, and numbers that are none, end with.
_ODD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def is_nf4(config: Mapping[str, Any] | None) -> bool:
    """Whether a `quantization_config`, which the family has checked, is of bitsandbytes."""
    return (config or {}).get("quant_method") == _METHOD


@dataclass(frozen=True)
class _State:
    """How a weight is stored.

    Attributes:
        block: numbers with one largest value.
        nested_block, nested_offset: of the largest values; 0 if they are floats.
        dtype: of the floats that bitsandbytes makes of it.
    """

    shape: tuple[int, int]
    block: int
    dtype: torch.dtype
    nested_block: int
    nested_offset: float


class Nf4Weights:
    """Stored weights whose numbers of 4 bits are read as float32, under the same names."""

    def __init__(self, weights: Weights, path: Path) -> None:
        """
        Args:
            path: of the checkpoint, for messages.

        Raises:
            ExportError: a weight is of another kind, or its parts do not fit.
        """
        self._weights, self._path = weights, path
        stored = weights.shapes()
        self._shapes = dict(stored)
        self._states: dict[str, _State] = {}
        for name in stored:
            names = [f"{name}.{state}" for state in _STATES if f"{name}.{state}" in stored]
            if not names:
                if not name.endswith(".weight") or weights.dtype(name) not in _OCTETS:
                    continue
                raise ExportError(
                    f"{path}: {name} has no {' or '.join(_STATES)} beside it; of bitsandbytes, "
                    "weights of 4 bits are read: use the original float checkpoint."
                )
            state = self._states[name] = self._state(name, names[0])
            for part in (*_PARTS, *_STATES):
                self._shapes.pop(f"{name}.{part}", None)
            self._shapes[name] = state.shape

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._states else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        stored = self._weights.tensor(name)
        if name not in self._states:
            return stored
        state = self._states[name]
        largest = self._part(name, "absmax")
        if state.nested_block:
            codes = self._part(name, "nested_quant_map")[largest.long()]
            blocks = self._part(name, "nested_absmax").repeat_interleave(state.nested_block)
            largest = codes * blocks[: len(codes)] + state.nested_offset
        octets = stored.flatten().view(torch.uint8).long()
        values = self._part(name, "quant_map")[torch.stack([octets >> 4, octets & 15], 1).flatten()]
        scales = largest.float().repeat_interleave(state.block)[: len(values)]
        return (values * scales).to(state.dtype).float().reshape(state.shape)

    def release(self) -> None:
        self._weights.release()

    def _part(self, name: str, part: str) -> Tensor:
        return self._weights.tensor(f"{name}.{part}").flatten()

    def _state(self, name: str, stored_as: str) -> _State:
        """Reads what is stored beside a weight, and checks that its parts fit it."""
        stored = self._weights.shapes()
        try:
            fields = json.loads(bytes(self._weights.tensor(stored_as).tolist()))
            nested = fields.get("nested_blocksize") or 0
            rows, columns = fields["shape"]
            state = _State(
                (int(rows), int(columns)),
                int(fields["blocksize"]),
                _TYPES[fields["dtype"]],
                int(nested),
                float(fields.get("nested_offset") or 0),
            )
            blocks = -(-rows * columns // state.block)
            octets = self._weights.dtype(name).itemsize
            lengths = {"": -(-rows * columns // 2) // octets, "absmax": blocks, "quant_map": 16}
            if nested:
                lengths |= {"nested_absmax": -(-blocks // nested), "nested_quant_map": 256}
            if min(*state.shape, state.block) < 1 or state.nested_block < 0:
                raise ValueError(f"the shape {state.shape} in blocks of {state.block}")
        except _ODD as error:
            raise ExportError(
                f"{self._path}: {stored_as} is not readable ({type(error).__name__}: {error}); "
                "download the files again."
            ) from None
        for part, length in lengths.items():
            full = f"{name}.{part}" if part else name
            shape = stored.get(full)
            if shape is None or torch.Size(shape).numel() != length:
                raise ExportError(
                    f"{self._path}: {full} is {shape}, where a weight of {state.shape} has "
                    f"{length} numbers in it; download the files again."
                )
        if nested and (dtype := self._weights.dtype(f"{name}.absmax")) is not torch.uint8:
            raise ExportError(
                f"{self._path}: {name}.absmax is of {dtype}, but nested blocks have bytes; "
                "download the files again."
            )
        return state
