"""Rotations folded into the weights: the float model stays the same, outliers are spread.

QuaRot (Ashkboos, Mohtashami, Croci, Li, Cameron, Jaggi, Alistarh, Hoefler, Hensman, 2024) and
SpinQuant (Liu et al., 2024). An RMSNorm commutes with a rotation R1 of the residual stream once its
weight g is folded into the linears behind it, W <- W diag(g): then

    embedding <- E R1,  W <- W R1 of all that read the stream,  W <- R1^T W of all that write to it

and within each head, values are rotated by R2: v_proj <- R2^T v_proj, o_proj <- o_proj R2. At run
time, nothing of it is left. Tied embeddings become two weights, because the final norm is folded
into the head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from quant.errors import QuantError
from quant.layers.blocks import blocks_of
from quant.layers.embedding_and_head import EMBEDDING, HEAD, is_tied
from quant.layers.walk import walk
from quant.protocols import Block, CausalLM, WeightSource
from quant.rotation.hadamard import orthogonal_matrix

_NORM = "model.norm.weight"
_ROWS = 4096  # of the vocabulary that are float64 at a time


@dataclass(frozen=True)
class Roles:
    """How the parameters of a layer relate to the residual stream, by path.

    Attributes:
        readers: linears that read it, with the norm before them.
        writers: linears that write to it.
        values, mixed: linears that make and that read the values of heads, with a head's size.
    """

    readers: Mapping[str, str]
    writers: frozenset[str]
    values: Mapping[str, int]
    mixed: Mapping[str, int]

    def rotated(self, part: str, tensor: Tensor, residual: Tensor) -> Tensor:
        """The layer's tensor `part`, such as "mlp.up_proj.weight", after R1."""
        linear, kind = part.rsplit(".", 1)
        if linear in self.readers and kind == "weight":
            return tensor @ residual
        return residual.T @ tensor if linear in self.writers else tensor


def roles_of(blocks: Sequence[Block]) -> Roles:
    """The roles in a layer whose blocks have a norm before them and none after."""
    readers: dict[str, str] = {}
    values: dict[str, int] = {}
    mixed: dict[str, int] = {}
    for block in blocks:
        assert block.norm is not None and block.after is None
        readers |= {linear: block.norm for part in block.readers for linear in part.linears}
        if block.router is not None:
            readers[block.router] = block.norm
        if block.heads is not None:
            maker, size = block.heads
            values[maker] = mixed[block.end] = size
    writers = frozenset(linear for block in blocks for linear in block.last.linears)
    return Roles(readers, writers, values, mixed)


def require_rotatable(model: CausalLM, rotation: str) -> None:
    """Raises QuantError if R1 does not commute with what a model does to its stream."""
    for stop in walk(model):
        for block in blocks_of(stop.layer):
            if block.norm is not None and isinstance(
                stop.layer.get_submodule(block.norm), nn.LayerNorm
            ):
                raise QuantError(
                    f"rotation={rotation} needs RMSNorms, with which it commutes, but "
                    f"{stop.name}.{block.norm} is a LayerNorm; take rotation=none."
                )
            if block.norm is None or block.after is not None:
                what = "a norm after it" if block.after is not None else "no norm before it"
                raise QuantError(
                    f"rotation={rotation} needs blocks with a norm before them and none after, but "
                    f"{stop.name}.{block.module} has {what}; take rotation=none."
                )


class RotatedWeights:
    """A checkpoint read through a rotation; each tensor is rotated, in float64, as it is read."""

    def __init__(
        self,
        weights: WeightSource,
        layers: Mapping[str, Roles],
        residual: Tensor,
        values: Mapping[int, Tensor],
        tied: bool,
    ) -> None:
        """
        Args:
            layers: by names such as "model.layers.3".
            residual: R1, float64 (hidden_size, hidden_size).
            values: R2 by the size of a head, float64 (size, size).
        """
        self._weights = weights
        self._layers = layers
        self._residual = residual
        self._values = values
        self._tied = tied

    def tensor(self, name: str) -> Tensor:
        """One rotated tensor, float32; norms of the residual stream have become ones."""
        if name == EMBEDDING:
            return self._rotated(self._weights.tensor(name), None)
        if name == HEAD:
            stored = self._weights.tensor(EMBEDDING if self._tied else HEAD)
            return self._rotated(stored, self._weights.tensor(_NORM))
        if name == _NORM:
            return torch.ones_like(self._weights.tensor(name), dtype=torch.float32)
        return self._of_layer(name)

    def load_into(self, module: nn.Module, prefix: str) -> None:
        """Replaces each parameter of `module` by the rotated tensor `prefix` + its name."""
        for path, submodule in module.named_modules():
            for key, _ in list(submodule.named_parameters(recurse=False)):
                tensor = self.tensor(prefix + (f"{path}.{key}" if path else key))
                values = tensor.to(torch.float32, copy=True)
                submodule.register_parameter(key, nn.Parameter(values, requires_grad=False))
        self.release()

    def release(self) -> None:
        self._weights.release()

    def _of_layer(self, name: str) -> Tensor:
        """Of "model.layers.N.", the part of the name that says which tensor it is decides."""
        stored = self._weights.tensor(name)
        layer, part = ".".join(name.split(".")[:3]), ".".join(name.split(".")[3:])
        roles = self._layers[layer]
        path, kind = part.rsplit(".", 1)
        if path in roles.readers.values():
            return torch.ones_like(stored, dtype=torch.float32)
        tensor = stored.double()
        if path in roles.readers and kind == "weight":
            norm = self._weights.tensor(f"{layer}.{roles.readers[path]}.weight")
            tensor = tensor * norm.double()
        if path in roles.values:
            rotation = self._values[roles.values[path]]
            heads = tensor.unflatten(0, (-1, len(rotation)))
            tensor = torch.einsum("hd...,de->he...", heads, rotation).flatten(0, 1)
        if path in roles.mixed and kind == "weight":
            rotation = self._values[roles.mixed[path]]
            heads = tensor.unflatten(1, (-1, len(rotation)))
            tensor = (heads @ rotation).flatten(1)
        return roles.rotated(part, tensor, self._residual).float()

    def _rotated(self, stored: Tensor, norm: Tensor | None) -> Tensor:
        """Rows of the vocabulary, a few at a time: no float64 copy of the whole is made."""
        rotated = torch.empty(stored.shape)
        for start in range(0, len(stored), _ROWS):
            rows = stored[start : start + _ROWS].double()
            if norm is not None:
                rows = rows * norm.double()
            rotated[start : start + _ROWS] = rows @ self._residual
        return rotated


def rotate(model: CausalLM, weights: WeightSource, seed: int = 0) -> RotatedWeights:
    """Reads a model's weights through random Hadamard rotations R1 and R2.

    Args:
        model: on the meta device, of blocks that `require_rotatable` lets pass; tied embeddings
            are untied.
    """
    residual = orthogonal_matrix(model.lm_head.in_features, seed)
    return rotated_by(model, weights, residual, random_values(model, seed + 1))


def rotated_by(
    model: CausalLM, weights: WeightSource, residual: Tensor, values: Mapping[int, Tensor]
) -> RotatedWeights:
    """The same with given R1 (hidden_size, hidden_size) and R2 by the size of a head, float64."""
    tied = is_tied(model)
    if tied:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    layers = {stop.name: roles_of(blocks_of(stop.layer)) for stop in walk(model)}
    return RotatedWeights(weights, layers, residual, values, tied)


def random_values(model: CausalLM, seed: int) -> dict[int, Tensor]:
    """A random Hadamard R2 for each size of a head."""
    return {size: orthogonal_matrix(size, seed) for size in head_sizes(model)}


def head_sizes(model: CausalLM) -> set[int]:
    """Of the heads whose values may be rotated."""
    blocks = (block for stop in walk(model) for block in blocks_of(stop.layer))
    return {block.heads[1] for block in blocks if block.heads is not None}
