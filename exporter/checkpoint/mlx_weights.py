"""Weights that MLX has quantized, read as float32.

A weight is scale * integer + bias, with one scale and one bias for a group of inputs of one output.
In the other modes than `affine` it is scale * float: the scales are powers of two (mx) or floats of
8 bits (nv), in one byte, and there are no biases. The integers or floats are packed into words one
behind the other, the first in the lowest bits. `quantization` in config.json has the sizes, and
those of modules that differ by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.mxfp4 import FP4_VALUES
from exporter.checkpoint.packings import unpacked
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_BITS = (2, 3, 4, 5, 6, 8)
_WORD = 32  # bits
_AFFINE = "affine"
# The other modes, by their bits and their group size, with the type of their scales.
_FLOATS = {
    "mxfp4": ((4, 32), torch.float8_e8m0fnu),
    "mxfp8": ((8, 32), torch.float8_e8m0fnu),
    "nvfp4": ((4, 16), torch.float8_e4m3fn),
}
_PREFIXES = ("", "language_model.")  # of modules' names in the config


def is_mlx(fields: Mapping[str, Any]) -> bool:
    """Whether a config.json is of weights that MLX has quantized."""
    other = fields.get("quantization_config") or {}
    return bool(fields.get("quantization")) and other.get("quant_method") is None


@dataclass(frozen=True)
class _Sizes:
    bits: int
    group_size: int
    mode: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The suffixes of the tensors beside a weight."""
        return ("scales", "biases") if self.mode == _AFFINE else ("scales",)

    def floats(self, words: Tensor, parts: Mapping[str, Tensor]) -> Tensor:
        """Returns float32 (rows, columns) of words (rows, n) and of the parts (rows, groups)."""
        numbers = unpacked(words.view(torch.int32), self.bits)
        scales = parts["scales"]
        if self.mode != _AFFINE:
            scales = scales.view(_FLOATS[self.mode][1])
            if self.bits == 8:
                numbers = numbers.to(torch.uint8).view(torch.float8_e4m3fn)
            else:
                numbers = torch.tensor(FP4_VALUES)[numbers]
        values = numbers.float().unflatten(1, (-1, self.group_size)) * scales.float()[..., None]
        if "biases" in parts:
            values = values + parts["biases"].float()[..., None]
        return values.flatten(1)


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
        self._sizes: dict[str, _Sizes] = {}  # of each packed weight
        for name, shape in stored.items():
            module, _, kind = name.rpartition(".")
            if kind != "weight" or weights.dtype(name) is not torch.uint32:
                continue
            known = (modules or {}).get(module, module)
            own = [config[p + known] for p in _PREFIXES if isinstance(config.get(p + known), dict)]
            sizes = _sizes(own[0] if own else config, f"{path}: {name}")
            bits, group_size = sizes.bits, sizes.group_size
            columns = shape[-1] * _WORD // bits
            groups = (*shape[:-1], columns // group_size)
            for part in sizes.parts:
                actual = stored.get(f"{module}.{part}")
                if actual != groups or columns % group_size or len(shape) != 2:
                    raise ExportError(
                        f"{path}: {module}.{part} is {actual}, where {name} of {bits} bits in "
                        f"groups of {group_size} needs {groups}; download the files again."
                    )
                del self._shapes[f"{module}.{part}"]
            if sizes.mode != _AFFINE and weights.dtype(f"{module}.scales") is not torch.uint8:
                raise ExportError(
                    f"{path}: {module}.scales are not bytes, as the mode {sizes.mode} of {name} "
                    "needs; correct quantization in config.json."
                )
            self._sizes[name] = sizes
            self._shapes[name] = (shape[0], columns)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._sizes else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        stored = self._weights.tensor(name)
        if name not in self._sizes:
            return stored
        sizes, module = self._sizes[name], name.removesuffix("weight")
        return sizes.floats(stored, {p: self._weights.tensor(module + p) for p in sizes.parts})

    def release(self) -> None:
        self._weights.release()


def _sizes(config: Mapping[str, Any], where: str) -> _Sizes:
    bits, group_size, mode = (config.get(key) for key in ("bits", "group_size", "mode"))
    mode = _AFFINE if mode is None else mode
    if isinstance(mode, str) and mode in _FLOATS and (bits, group_size) == _FLOATS[mode][0]:
        return _Sizes(*_FLOATS[mode][0], mode)
    if bits not in _BITS or mode != _AFFINE:
        raise ExportError(
            f"{where} has quantization {{'bits': {bits!r}, 'group_size': {group_size!r}, 'mode': "
            f"{mode!r}}}; supported are {', '.join(map(str, _BITS))} bits of the mode 'affine', "
            f"and {', '.join(_FLOATS)} with their own sizes: use the original float checkpoint."
        )
    if type(group_size) is not int or group_size < 1:
        raise ExportError(f"{where} has the group_size {group_size!r}, not a number of inputs.")
    return _Sizes(bits, group_size, mode)
