"""Rotations folded into the weights: the float model stays the same, outliers are spread.

QuaRot (Ashkboos, Mohtashami, Croci, Li, Cameron, Jaggi, Alistarh, Hoefler, Hensman, 2024) and
SpinQuant (Liu et al., 2024). An RMSNorm commutes with a rotation R1 of the residual stream once its
weight g is folded into the linears behind it, W <- W diag(g): then

    embedding <- E R1,  W <- W R1 of all that read the stream,  W <- R1^T W of all that write to it

and within each head, values are rotated by R2: v_proj <- R2^T v_proj, o_proj <- o_proj R2. Nothing
of it is left at run time. Tied embeddings come apart, for the final norm is folded into the head.
"""

from typing import cast

import torch
from torch import Tensor, nn

from quant.ends import EMBEDDING, HEAD, is_tied
from quant.hadamard import orthogonal_matrix
from quant.protocols import CausalLM, WeightSource

_READERS = {  # of the residual stream, with the norm before them
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
_WRITERS = ("self_attn.o_proj", "mlp.down_proj")
_NORM = "model.norm.weight"
_ROWS = 4096  # of the vocabulary that are float64 at a time


class RotatedWeights:
    """A checkpoint read through a rotation; each tensor is rotated, in float64, as it is read."""

    def __init__(self, weights: WeightSource, residual: Tensor, values: Tensor, tied: bool) -> None:
        """residual: R1 float64 (hidden_size, hidden_size); values: R2 (head_dim, head_dim)."""
        self._weights = weights
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
        if part in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            return torch.ones_like(stored, dtype=torch.float32)
        linear, kind = part.rsplit(".", 1)
        tensor = stored.double()
        if linear in _READERS and kind == "weight":
            norm = self._weights.tensor(f"{layer}.{_READERS[linear]}.weight")
            tensor = tensor * norm.double()
        if linear == "self_attn.v_proj":
            heads = tensor.unflatten(0, (-1, len(self._values)))
            tensor = torch.einsum("hd...,de->he...", heads, self._values).flatten(0, 1)
        if linear == "self_attn.o_proj" and kind == "weight":
            heads = tensor.unflatten(1, (-1, len(self._values)))
            tensor = (heads @ self._values).flatten(1)
        return rotate_stream(part, tensor, self._residual).float()

    def _rotated(self, stored: Tensor, norm: Tensor | None) -> Tensor:
        """Rows of the vocabulary, a few at a time: no float64 copy of the whole is made."""
        rotated = torch.empty(stored.shape)
        for start in range(0, len(stored), _ROWS):
            rows = stored[start : start + _ROWS].double()
            if norm is not None:
                rows = rows * norm.double()
            rotated[start : start + _ROWS] = rows @ self._residual
        return rotated


def rotate_stream(part: str, tensor: Tensor, residual: Tensor) -> Tensor:
    """A layer's tensor after R1: `part` is its name in the layer, such as "mlp.up_proj.weight"."""
    linear, kind = part.rsplit(".", 1)
    if linear in _READERS and kind == "weight":
        return tensor @ residual
    return residual.T @ tensor if linear in _WRITERS else tensor


def rotate(model: CausalLM, weights: WeightSource, seed: int = 0) -> RotatedWeights:
    """Reads a model's weights through random Hadamard rotations R1 and R2.

    Args:
        model: on the meta device; tied embeddings are untied.
    """
    hidden_size = model.lm_head.in_features
    residual = orthogonal_matrix(hidden_size, seed)
    return rotated_by(model, weights, residual, orthogonal_matrix(head_dim_of(model), seed + 1))


def rotated_by(
    model: CausalLM, weights: WeightSource, residual: Tensor, values: Tensor
) -> RotatedWeights:
    """The same with given R1 (hidden_size, hidden_size) and R2 (head_dim, head_dim), float64."""
    tied = is_tied(model)
    if tied:
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    return RotatedWeights(weights, residual, values, tied)


def head_dim_of(model: CausalLM) -> int:
    """The size of an attention head."""
    return cast(int, model.model.get_submodule("layers.0.self_attn").head_dim)
