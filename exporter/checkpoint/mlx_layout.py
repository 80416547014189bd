"""What MLX lays out otherwise than the checkpoint that it converted, whether it quantized or not.

It stacks the experts of a layer, turns the filters of short convolutions, and adds 1 to norms that
are stored as their distance from it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from exporter.checkpoint.weights import Weights

_STACKED = re.compile(r"(.+)\.(?:mlp|block_sparse_moe|feed_forward)\.switch_mlp\.(.+)")
_LETTERS = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}  # of LFM2
_OF_LFM2 = re.compile(r"(.+\.feed_forward)\.(gate_proj|up_proj|down_proj)\.(.+)")
_FILTERS = ("conv.weight", "conv1d.weight")
_SHIFTED_MODELS = ("qwen3_next", "qwen3_5_text")
_SHIFTED = ("layernorm.weight", "model.norm.weight", ".q_norm.weight", ".k_norm.weight")


@dataclass(frozen=True)
class _Place:
    """Where a tensor is stored.

    Attributes:
        name: the stored one.
        entry: which entry of it is meant; None: all of it.
    """

    name: str
    entry: int | None = None


class MlxLayout:
    """Stored weights in the layout of the checkpoint that MLX converted.

    Attributes:
        modules: MLX's name of each module that has another one here.
    """

    def __init__(self, weights: Weights, model_type: str) -> None:
        self._weights, stored = weights, weights.shapes()
        self._places: dict[str, _Place] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self.modules: dict[str, str] = {}
        for name, shape in stored.items():
            stacked = _STACKED.fullmatch(name)
            if stacked is None or not shape:
                turned = _turned(shape) if _is_turned(name, shape) else shape
                self._put(_OF_LFM2.sub(_lettered, name), _Place(name), turned)
                continue
            for entry in range(shape[0]):
                own = f"{stacked[1]}.mlp.experts.{entry}.{stacked[2]}"
                self._put(own, _Place(name, entry), shape[1:])
        turns = any(_is_turned(name, shape) for name, shape in stored.items())
        self._shifts = turns and model_type in _SHIFTED_MODELS

    def _put(self, name: str, place: _Place, shape: tuple[int, ...]) -> None:
        self._places[name], self._shapes[name] = place, shape
        if name != place.name:
            self.modules[name.rpartition(".")[0]] = place.name.rpartition(".")[0]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if self._is_shifted(name) else self._stored_type(name)

    def tensor(self, name: str) -> Tensor:
        place = self._places[name]
        tensor = self._weights.tensor(place.name)
        if place.entry is not None:
            return tensor[place.entry]
        if _is_turned(name, tuple(tensor.shape)):
            return tensor.transpose(1, 2)
        return tensor.float() - 1 if self._is_shifted(name) else tensor

    def release(self) -> None:
        self._weights.release()

    def _stored_type(self, name: str) -> torch.dtype:
        return self._weights.dtype(self._places[name].name)

    def _is_shifted(self, name: str) -> bool:
        return self._shifts and name.endswith(_SHIFTED) and len(self._shapes[name]) == 1


def has_layout(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether tensors of these names and shapes are laid out as MLX does."""
    return any(_STACKED.fullmatch(name) or _is_turned(name, of) for name, of in shapes.items())


def _lettered(name: re.Match[str]) -> str:
    return f"{name[1]}.{_LETTERS[name[2]]}.{name[3]}"


def _is_turned(name: str, shape: tuple[int, ...]) -> bool:
    """Whether it is a filter of (channels, length, 1), not (channels, 1, length)."""
    return name.endswith(_FILTERS) and len(shape) == 3 and shape[2] == 1 < shape[1]


def _turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[0], shape[2], shape[1]
