"""Weights that MLX has quantized, read as float32.

A weight is scale * integer + bias, with one scale and one bias for a group of inputs of one output.
The integers are packed into words one behind the other, the first in the lowest bits.
`quantization` in config.json has the sizes, and those of modules that differ by their names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.packings import unpacked
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_BITS = (2, 3, 4, 5, 6, 8)
_WORD = 32  # bits
_PREFIXES = ("", "language_model.")  # of modules' names in the config


def is_mlx(fields: Mapping[str, Any]) -> bool:
    """Whether a config.json is of weights that MLX has quantized."""
    other = fields.get("quantization_config") or {}
    return bool(fields.get("quantization")) and other.get("quant_method") is None


class MlxWeights:
    """Stored weights whose packed ones are read as float32, under the same names."""

    def __init__(
        self, weights: Weights, config: Any, path: Path, modules: Mapping[str, str] | None = None
    ) -> None:
        """
        Args:
            config: the `quantization` of its config.json.
            path: of the checkpoint, for messages.
            modules: the names in it of modules that have another name here.

        Raises:
            ExportError: a setting is not supported, or the parts of a weight do not fit each other.
        """
        if not isinstance(config, dict):
            raise ExportError(f"{path}: quantization is {config!r}; it must be an object.")
        self._weights, stored = weights, weights.shapes()
        self._shapes = dict(stored)
        self._sizes: dict[str, tuple[int, int]] = {}  # of each packed weight: bits, group size
        for name, shape in stored.items():
            module, _, kind = name.rpartition(".")
            if kind != "weight" or weights.dtype(name) is not torch.uint32:
                continue
            known = (modules or {}).get(module, module)
            own = [config[p + known] for p in _PREFIXES if isinstance(config.get(p + known), dict)]
            bits, group_size = _sizes(own[0] if own else config, f"{path}: {name}")
            columns = shape[-1] * _WORD // bits
            groups = (*shape[:-1], columns // group_size)
            for part in ("scales", "biases"):
                actual = stored.get(f"{module}.{part}")
                if actual != groups or columns % group_size or len(shape) != 2:
                    raise ExportError(
                        f"{path}: {module}.{part} is {actual}, where {name} of {bits} bits in "
                        f"groups of {group_size} needs {groups}; download the files again."
                    )
                del self._shapes[f"{module}.{part}"]
            self._sizes[name] = bits, group_size
            self._shapes[name] = (shape[0], columns)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._sizes else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        stored = self._weights.tensor(name)
        if name not in self._sizes:
            return stored
        bits, group_size = self._sizes[name]
        module = name.removesuffix("weight")
        scales, biases = (self._weights.tensor(module + part) for part in ("scales", "biases"))
        values = unpacked(stored.view(torch.int32), bits).float().unflatten(1, (-1, group_size))
        return (values * scales.float()[..., None] + biases.float()[..., None]).flatten(1)

    def release(self) -> None:
        self._weights.release()


def _sizes(config: Mapping[str, Any], where: str) -> tuple[int, int]:
    bits, group_size, mode = (config.get(key) for key in ("bits", "group_size", "mode"))
    if bits not in _BITS or mode not in (None, "affine"):
        raise ExportError(
            f"{where} has quantization {{'bits': {bits!r}, 'mode': {mode!r}}}; supported are "
            f"{', '.join(map(str, _BITS))} bits and the mode 'affine': use the original float "
            "checkpoint."
        )
    if type(group_size) is not int or group_size < 1:
        raise ExportError(f"{where} has the group_size {group_size!r}, not a number of inputs.")
    return bits, group_size
