"""Weights that a checkpoint stores as numbers of 8 bits with scales, read as float32.

A scale is that of a block of the matrix, of a row, or of all of it: `weight_scale_inv` beside
`weight` in DeepSeek's layout, `weight_scale` in those of compressed-tensors and FBGEMM.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exporter.checkpoint.checkpoint import FLOATS
from exporter.checkpoint.compressed_groups import by_group
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_METHODS = ("fp8", "fbgemm_fp8")
FP8_FORMAT = "float-quantized"  # of compressed-tensors
_TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
_SCALE_TYPES = (*FLOATS, torch.float8_e8m0fnu)
_SCALES = ("weight_scale_inv", "weight_scale")
_OF_ACTIVATIONS = ("input_scale", "activation_scale", "input_scale_ub")
_BLOCK = (128, 128)
BlockOf = Callable[[str], tuple[int, int] | None]  # by a module's name


def is_fp8(config: Mapping[str, Any]) -> bool:
    """Whether a `quantization_config`, which the family has checked, is of such weights alone."""
    return config.get("quant_method") in _METHODS


def has_fp8_groups(config: Mapping[str, Any]) -> bool:
    """Whether some of compressed-tensors' groups are of such weights."""
    groups = config.get("config_groups")
    listed = groups.values() if isinstance(groups, dict) else []
    return any(isinstance(one, dict) and is_fp8_group(config, one) for one in listed)


def is_fp8_group(config: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    """Whether one of compressed-tensors' groups is of such weights.

    Its format says so or, where that is naive, the type of its weights.
    """
    layout, weights = group.get("format") or config.get("format"), group.get("weights") or {}
    floats = weights.get("type") == "float" and weights.get("num_bits") == 8
    return layout == FP8_FORMAT or layout == "naive-quantized" and floats


def read_blocks(path: Path, config: Mapping[str, Any]) -> BlockOf:
    """Returns the rows and columns of a module's blocks, by its name; None where it has none.

    Args:
        path: of the config.json, for messages.

    Raises:
        ExportError: blocks are not of two sizes.
    """
    if config.get("quant_method") != "compressed-tensors":
        # As in transformers, what is not said is the default, and null is that there are none.
        block = _block(path, config.get("weight_block_size", _BLOCK))
        return lambda module: block
    try:
        return by_group(path, config, lambda group: _block_of_group(path, group["weights"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ExportError(
            f"{path}: config_groups of quantization_config cannot be read ({error!r}); use the "
            "config.json that was published with the weights."
        ) from None


def _block_of_group(path: Path, weights: Mapping[str, Any]) -> tuple[int, int] | None:
    size = weights.get("group_size")
    if type(size) is int and size > 0:
        return 1, size
    block = weights.get("block_structure")
    if isinstance(block, str) and all(size.isdecimal() for size in block.split("x")):
        block = [int(size) for size in block.split("x")]
    return _block(path, block)


def _block(path: Path, block: Any) -> tuple[int, int] | None:
    if block is None:
        return None
    sound = isinstance(block, list | tuple) and len(block) == 2
    if not sound or not all(type(size) is int and size > 0 for size in block):
        raise ExportError(f"{path}: the size of fp8 blocks is {block!r}; it must be two numbers.")
    return block[0], block[1]


class Fp8Weights:
    """Stored weights whose numbers of 8 bits are read as float32, under the same names."""

    def __init__(self, weights: Weights, block_of: BlockOf, path: Path) -> None:
        """
        Args:
            path: of the checkpoint, for messages.

        Raises:
            ExportError: a weight has no scale, or one that does not fit.
        """
        self._weights, self._block_of = weights, block_of
        self._shapes = dict(weights.shapes())
        self._scales: dict[str, str] = {}
        for name, shape in weights.shapes().items():
            if weights.dtype(name) not in _TYPES or not name.endswith(".weight"):
                continue
            module = name.removesuffix("weight")
            names = [module + scale for scale in _SCALES if module + scale in self._shapes]
            if len(names) != 1:
                has = "both" if names else "neither"
                raise ExportError(
                    f"{path}: {name} has {has} of {' and '.join(_SCALES)} beside it, and one says "
                    "what its numbers mean; use the original float checkpoint."
                )
            scales, block = self._shapes[names[0]], block_of(module[:-1])
            if not _fits(shape, scales, block):
                blocks = "without blocks" if block is None else f"in blocks of {block}"
                raise ExportError(
                    f"{path}: {names[0]} {scales} does not fit {name} {shape} {blocks}, as "
                    "quantization_config has it; take weights and config from the same model."
                )
            type = weights.dtype(names[0])
            if type not in (*_SCALE_TYPES, torch.uint8):
                raise ExportError(
                    f"{path}: {names[0]} is {type}, but scales are floats, or exponents as uint8; "
                    "use the original float checkpoint."
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
        scales = self._weights.tensor(self._scales[name])
        if scales.dtype == torch.uint8:  # exponents of 2
            scales = scales.view(torch.float8_e8m0fnu)
        rows, columns = stored.shape
        scales, block = scales.float(), self._block_of(name.removesuffix(".weight"))
        if scales.numel() == 1:
            scales = scales.reshape(1, 1)
        elif scales.shape in ((rows,), (rows, 1)):
            scales = scales.reshape(rows, 1)
        elif block is not None:
            scales = scales.repeat_interleave(block[0], 0)[:rows]
            scales = scales.repeat_interleave(block[1], 1)[:, :columns]
        return stored.float() * scales

    def release(self) -> None:
        self._weights.release()


def _fits(shape: tuple[int, ...], scales: tuple[int, ...], block: tuple[int, int] | None) -> bool:
    """Whether scales are of a whole matrix, of its rows or of its blocks."""
    if len(shape) != 2:
        return False
    if scales in ((), (1,), (1, 1), shape[:1], (shape[0], 1)):
        return True
    return block is not None and scales == tuple(
        -(-size // length) for size, length in zip(shape, block, strict=True)
    )
