"""Weights that a checkpoint stores as packed integers, read as float32 or as they are.

In each layout a weight is scale * (integer - zero point), with one scale and one zero point for a
group of inputs of one output.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from exporter.checkpoint.packings import SHAPE, WORD, Grid, Packing, groups_of
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from quant.modules import QuantizedWeight
from quant.weight_type import GROUP_SIZES, INT8, WeightType

PackingOf = Callable[[str], Packing | None]  # by a module's name; None: it is not packed


class UnpackedWeights:
    """Stored weights whose packed ones are read as float32 under the name `<module>.weight`, or as
    integers."""

    def __init__(self, weights: Weights, packing_of: PackingOf, path: Path) -> None:
        """
        Args:
            packing_of: how a module's weight is packed.
            path: of the checkpoint, for messages.

        Raises:
            ExportError: parts of a packed weight are missing or do not fit each other.
        """
        self._weights, self._path = weights, path
        stored = weights.shapes()
        self._packings: dict[str, Packing] = {}  # of each packed weight
        self._parts: dict[str, dict[str, str]] = {}  # of each packed weight, by suffix
        hidden = set()
        for name in stored:
            module, _, suffix = name.rpartition(".")
            packing = packing_of(module) if _is_packed(weights, name) else None
            if packing is not None and suffix == packing.main:
                self._packings[f"{module}.weight"] = packing
                parts = {s: f"{module}.{s}" for s in (suffix, *packing.others)}
                self._parts[f"{module}.weight"] = {s: n for s, n in parts.items() if n in stored}
                hidden |= set(parts.values())
        self._shapes = {name: shape for name, shape in stored.items() if name not in hidden}
        self._matrices: dict[str, tuple[int, int]] = {}  # the shapes of packed weights
        for name, parts in self._parts.items():
            try:
                shape = self._packings[name].shape({s: stored[n] for s, n in parts.items()})
                self._matrices[name] = self._unpadded(name, parts, shape)
            except (ValueError, KeyError) as error:
                raise ExportError(
                    f"{path}: the packed parts of {name} do not fit quantization_config ({error}); "
                    "correct it, or download the files again."
                ) from None
        self._shapes.update(self._matrices)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._parts else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        parts = self._parts.get(name)
        if parts is None:
            return self._weights.tensor(name)
        grid, values = self._grid(name), self._values(name)
        return (values - grid.zeros[:, grid.groups]).float() * grid.scales[:, grid.groups]

    def source_type(self, name: str) -> str:
        if name not in self._parts:
            return str(self._weights.dtype(name)).removeprefix("torch.")
        return f"int{self._packings[name].bits}"

    def kept_type(self, name: str) -> WeightType | None:
        if name not in self._parts:
            return None
        return self._kept_type(name, self._grid(name))

    def integers(self, name: str) -> QuantizedWeight:
        grid, values = self._grid(name), self._values(name)
        type = self._kept_type(name, grid)
        assert type is not None
        if not type.in_groups:
            return QuantizedWeight(values.to(torch.int8), grid.scales, type)
        columns = type.padded(values.shape[1])
        scales = grid.scales.repeat_interleave(grid.group_size // type.group_size, dim=1)
        padded = F.pad(values.to(torch.int8), (0, columns - values.shape[1]))
        return QuantizedWeight(padded, scales[:, : columns // type.group_size].contiguous(), type)

    def _kept_type(self, name: str, grid: Grid) -> WeightType | None:
        """The type of a packed weight on that grid."""
        columns, bits = self._matrices[name][1], self._packings[name].bits
        if grid.zeros.any():
            raise self._not_kept(name, f"asymmetric int{bits}, with zero points")
        if not torch.equal(grid.groups, groups_of(columns, grid.group_size)):
            raise self._not_kept(name, "quantized with its inputs in another order (desc_act)")
        if grid.group_size == columns and bits == 8:
            return INT8
        fitting = [size for size in reversed(GROUP_SIZES) if grid.group_size % size == 0]
        if not fitting:
            raise self._not_kept(name, f"in groups of {grid.group_size}, no multiple of 32")
        exact = torch.equal(grid.scales, grid.scales.half().float())
        return WeightType(max(4, bits), fitting[0], 1) if exact else None

    def _unpadded(
        self, name: str, parts: Mapping[str, str], shape: tuple[int, int]
    ) -> tuple[int, int]:
        """Returns the shape that is stored beside the words, whose last one may not be full."""
        if SHAPE not in parts:
            return shape
        declared = tuple(self._weights.tensor(parts[SHAPE]).tolist())
        spare = WORD // self._packings[name].bits
        if len(declared) != 2 or declared[0] != shape[0] or not 0 <= shape[1] - declared[1] < spare:
            raise ValueError(f"{SHAPE} says {declared}, and {shape} are stored")
        return declared

    def _grid(self, name: str) -> Grid:
        parts, packing = self._parts[name], self._packings[name]
        others = {s: self._weights.tensor(n) for s, n in parts.items() if s != packing.main}
        try:
            grid = packing.grid(others, self._matrices[name])
        except ValueError as error:
            raise ExportError(f"{self._path}: {name} {error}.") from None
        last = grid.scales.shape[1] - 1
        first_group, last_group = (int(end) for end in grid.groups.aminmax())
        if first_group < 0 or last_group > last:
            wrong = first_group if first_group < 0 else last_group
            raise ExportError(
                f"{self._path}: {name} has an input in group {wrong}, but its groups are 0 to "
                f"{last}; download the files again."
            )
        return grid

    def _values(self, name: str) -> Tensor:
        packing = self._packings[name]
        main = packing.main
        values = packing.values({main: self._weights.tensor(self._parts[name][main])})
        return values[:, : self._matrices[name][1]]

    def _not_kept(self, name: str, what: str) -> ExportError:
        return ExportError(
            f"{self._path}: {name} is {what}, which --quant keep cannot store; use --quant rtn8 "
            "or gptq4, which quantize the floats that it stands for."
        )

    def release(self) -> None:
        self._weights.release()


def _is_packed(weights: Weights, name: str) -> bool:
    return weights.dtype(name) in (torch.int32, torch.int8)
