"""An input of its own for each layer, besides the hidden states (Gemma 3n, 2025, and Gemma 4).

A token has numbers for every layer: its row of a table, and a normed projection of its embedding.
A layer multiplies its part by a gate and adds a projection of the product to its hidden states.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional as F

from exporter.models.context import CachedContext, Context
from exporter.models.mlp import ACTIVATIONS
from exporter.models.norm import RMSNorm
from exporter.models.spec import LayerInputSpec, Norms
from quant.modules import QuantizedLinear
from quant.protocols import Block, Part, WeightSource


class LayerInputTable(nn.Module):
    """Makes the inputs of all layers: (norm(projection(x)) + row of the table) / sqrt(2)."""

    def __init__(self, spec: LayerInputSpec, layers: int, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.layers, self.size = layers, spec.size
        self.rows_scale = spec.size**0.5
        self.projection_scale = hidden_size**-0.5
        self.embedding = nn.Embedding(spec.vocab_size, layers * spec.size)
        self.projection = nn.Linear(hidden_size, layers * spec.size, bias=False)
        self.norm = RMSNorm(spec.size, eps)

    def forward(self, tokens: Tensor, x: Tensor) -> Tensor:
        """
        Args:
            tokens: int64 (batch, seq_len).
            x: the hidden states that embedding them gives, (batch, seq_len, hidden_size).

        Returns:
            (batch, seq_len, layers * size).
        """
        projected = self.projected(x)
        return self.joined(projected, self.rows(tokens))

    def projected(self, x: Tensor) -> Tensor:
        """Returns what becomes of hidden states, (batch, seq_len, layers, size)."""
        projected = self.projection(x) * self.projection_scale
        normed: Tensor = self.norm(projected.unflatten(-1, (self.layers, self.size)))
        return normed

    def joined(self, projected: Tensor, rows: Tensor) -> Tensor:
        """Joins what projected() and rows() return to what forward() does."""
        return (projected.flatten(2) + rows) * 2**-0.5

    def rows(self, tokens: Tensor) -> Tensor:
        """Returns the rows of tokens (batch, seq_len), scaled: (batch, seq_len, layers * size)."""
        return self.embedding(tokens) * self.rows_scale

    def layer_by_layer(
        self, prefix: str, tokens: Tensor, x: Tensor, weights: WeightSource | None
    ) -> Callable[[int], Tensor]:
        """Returns the inputs, each made when it is asked for: those of all layers may be many times
        the hidden states.

        Args:
            prefix: of its own tensors, such as "model.layer_inputs.".
            tokens, x: as those of `forward`.
            weights: where its tensors are read, as floats; None: its own are used.
        """

        @lru_cache(maxsize=1)  # a layer asks again and again
        def part(index: int) -> Tensor:
            of_layer = slice(index * self.size, (index + 1) * self.size)
            if weights is None:
                projected = _of_rows(self.projection, of_layer, x.cpu())
                normed = self.norm(projected * self.projection_scale)
                rows = self.embedding(tokens)[..., of_layer]
            else:
                projection = weights.tensor(f"{prefix}projection.weight")[of_layer].float()
                weight = weights.tensor(f"{prefix}norm.weight").float()
                projected = F.linear(x.cpu(), projection) * self.projection_scale
                normed = F.rms_norm(projected, (self.size,), weight, self.norm.eps)
                rows = weights.tensor(f"{prefix}embedding.weight")[:, of_layer][tokens].float()
                weights.release()
            return ((normed + rows * self.rows_scale) * 2**-0.5).to(x.device)

        return cast(Any, part)


def _of_rows(linear: nn.Module, rows: slice, x: Tensor) -> Tensor:
    """Returns some of a linear's outputs."""
    if isinstance(linear, QuantizedLinear):
        return cast(Tensor, linear.of_rows(rows)(x))
    return F.linear(x, linear.get_parameter("weight")[rows])


class LayerInput(nn.Module):
    """The block of a layer that takes its input in: projection(activation(gate(x)) * input)."""

    def __init__(self, spec: LayerInputSpec, index: int, hidden_size: int) -> None:
        super().__init__()
        self.index, self.size = index, spec.size
        self.activation = ACTIVATIONS[spec.activation]
        self.gate = nn.Linear(hidden_size, spec.size, bias=False)
        self.projection = nn.Linear(spec.size, hidden_size, bias=False)

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        inputs = context.inputs
        if isinstance(inputs, Tensor):
            own = inputs.narrow(-1, self.index * self.size, self.size)
        else:
            assert inputs is not None
            own = inputs(self.index)
        return self.projection(self.activation(self.gate(x)) * own)

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        gate, projection = f"{path}.gate", f"{path}.projection"
        return Block(
            module=path,
            norm=norms.before,
            readers=(Part(gate, (gate,)),),
            last=Part(projection, (projection,)),
            after=norms.after,
            feeds_last=None,
            heads=None,
        )
