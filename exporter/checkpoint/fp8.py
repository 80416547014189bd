"""Weights that a checkpoint stores as numbers of 8 bits with scales, read as float32.

A scale is that of a block of the matrix, of a row, or of all of it: `weight_scale_inv` beside
`weight` in DeepSeek's layout, `weight_scale` in those of compressed-tensors and FBGEMM.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_METHODS = ("fp8", "fbgemm_fp8")
FP8_FORMAT = "float-quantized"  # of compressed-tensors
_TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
_SCALES = ("weight_scale_inv", "weight_scale")
_OF_ACTIVATIONS = ("input_scale", "activation_scale", "input_scale_ub")
_BLOCK = (128, 128)


def is_fp8(config: Mapping[str, Any] | None) -> bool:
    """Whether a `quantization_config`, which the family has checked, is of such weights."""
    if not config:
        return False
    method = config.get("quant_method")
    return (
        method in _METHODS or method == "compressed-tensors" and config.get("format") == FP8_FORMAT
    )


def has_fp8_groups(config: Mapping[str, Any]) -> bool:
    """Whether some of compressed-tensors' groups are of such weights, and others of integers."""
    groups = config.get("config_groups")
    listed = groups.values() if isinstance(groups, dict) else []
    return any(isinstance(one, dict) and one.get("format") == FP8_FORMAT for one in listed)


def read_block(path: Path, config: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the rows and columns of a block, where there are any.

    Args:
        path: of the config.json, for messages.

    Raises:
        ExportError: it is not a pair of sizes, or something is computed beside the weights.
    """
    block = config.get("weight_block_size")
    if config.get("quant_method") == "compressed-tensors":
        for name in ("transform_config", "kv_cache_scheme"):
            if config.get(name):
                raise ExportError(f"{path}: {name} {config[name]!r} is not supported.")
        groups = config.get("config_groups")
        listed = groups.values() if isinstance(groups, dict) else []
        weights = [one.get("weights") or {} for one in listed if isinstance(one, dict)]
        blocks = [one["block_structure"] for one in weights if one.get("block_structure")]
        block = blocks[0] if blocks else None
    block = _BLOCK if block is None else block
    sound = isinstance(block, list | tuple) and len(block) == 2
    if not sound or not all(type(size) is int and size > 0 for size in block):
        raise ExportError(f"{path}: the size of fp8 blocks is {block!r}; it must be two numbers.")
    return block[0], block[1]


class Fp8Weights:
    """Stored weights whose numbers of 8 bits are read as float32, under the same names."""

    def __init__(self, weights: Weights, block: tuple[int, int], path: Path) -> None:
        """
        Args:
            path: of the checkpoint, for messages.

        Raises:
            ExportError: a weight has no scale, or one that does not fit.
        """
        self._weights, self._block = weights, block
        self._shapes = dict(weights.shapes())
        self._scales: dict[str, str] = {}
        for name, shape in weights.shapes().items():
            if weights.dtype(name) not in _TYPES or not name.endswith(".weight"):
                continue
            module = name.removesuffix("weight")
            names = [module + scale for scale in _SCALES if module + scale in self._shapes]
            if not names:
                raise ExportError(f"{path}: {name} has no {' or '.join(_SCALES)} beside it.")
            scales = self._shapes[names[0]]
            if not self._fits(shape, scales):
                raise ExportError(
                    f"{path}: {names[0]} {scales} does not fit {name} {shape} in blocks of "
                    f"{block}; download the files again."
                )
            self._scales[name] = names[0]
        for name in self._scales:
            module = name.removesuffix("weight")
            for other in (*_SCALES, *_OF_ACTIVATIONS):
                self._shapes.pop(module + other, None)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._scales else self._weights.dtype(name)

    def tensor(self, name: str) -> Tensor:
        stored = self._weights.tensor(name)
        if name not in self._scales:
            return stored
        scales = self._weights.tensor(self._scales[name]).float()
        rows, columns = stored.shape
        if scales.numel() == 1:
            scales = scales.reshape(1, 1)
        elif scales.shape in ((rows,), (rows, 1)):
            scales = scales.reshape(rows, 1)
        else:  # of blocks
            scales = scales.repeat_interleave(self._block[0], 0)[:rows]
            scales = scales.repeat_interleave(self._block[1], 1)[:, :columns]
        return stored.float() * scales

    def release(self) -> None:
        self._weights.release()

    def _fits(self, shape: tuple[int, ...], scales: tuple[int, ...]) -> bool:
        if len(shape) != 2:
            return False
        blocks = tuple(-(-size // length) for size, length in zip(shape, self._block, strict=True))
        return scales in ((), (1,), (1, 1), shape[:1], (shape[0], 1), blocks)
