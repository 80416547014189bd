"""What a quantized model is made of: a linear and an embedding of integers and scales."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

import quant.operators  # noqa: F401  (defines torch.ops.thimble.linear and embedding)
from quant.operators import dequantized, input_group, rounded_input
from quant.rotation.inputs import rotate_blocks
from quant.weight_type import WeightType


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight as integers and scales, symmetric.

    Attributes:
        values: int8 (rows, columns), columns a multiple of the group; of 4 bits in -8..7.
        scales: float32 (rows, groups); of two levels exact in bfloat16, of groups with one level
            in float16.
        type: how they are stored.
        rotated: size of the blocks in which its columns are rotated, and so must its inputs be
            (quant.rotation.inputs); 0: they are not.
    """

    values: Tensor
    scales: Tensor
    type: WeightType
    rotated: int = 0

    def dequantize(self) -> Tensor:
        """float32 (rows, columns), rotated back: for inputs that are not rotated."""
        return rotate_blocks(dequantized(self.values, self.scales), self.rotated)


class _Quantized(nn.Module):
    """Integers and scales that are not parameters: they are not trained, and not all floats."""

    values: Tensor
    scales: Tensor

    def __init__(self, weight: QuantizedWeight) -> None:
        super().__init__()
        self.register_buffer("values", weight.values)
        self.register_buffer("scales", weight.scales)
        self.weight_type = weight.type
        self.rotated = weight.rotated

    @property
    def quantized_weight(self) -> QuantizedWeight:
        """The integers and scales, not copied."""
        return QuantizedWeight(self.values, self.scales, self.weight_type, self.rotated)


class QuantizedLinear(_Quantized):
    """A linear whose inputs are rounded to int8, dynamic: per token, or in the weight's groups.

    Attributes:
        values: int8 (out_features, columns), columns >= in_features.
        scales: float32 (out_features, groups).
        bias: float32 (out_features,) or None.
    """

    bias: nn.Parameter | None

    def __init__(
        self, weight: QuantizedWeight, in_features: int, bias: nn.Parameter | None = None
    ) -> None:
        super().__init__(weight)
        self.in_features = in_features
        self.out_features = len(weight.values)
        self.register_parameter("bias", bias)
        self.ready: Callable[[Tensor], Tensor] | None = None  # of quant.integers.dequantized_once

    def forward(self, x: Tensor) -> Tensor:
        """float32 (..., in_features) to (..., out_features)."""
        if self.ready is not None:
            return self.ready(x)
        return torch.ops.thimble.linear(
            x,
            self.values,
            self.scales,
            self.bias,
            self.weight_type.bits,
            self.weight_type.group_size,
            self.weight_type.levels,
            self.rotated,
        )

    def rounded(self, x: Tensor) -> Tensor:
        """An input (..., in_features) as the weight sees it, (..., columns), float32."""
        type = self.weight_type
        grouped = input_group(type.group_size, type.levels)
        return rounded_input(x, self.values.shape[1], self.rotated, grouped)

    def of_rows(self, rows: slice) -> "QuantizedLinear":
        """The linear that computes some of the outputs alone, over the same memory."""
        stored = self.quantized_weight
        weight = replace(stored, values=self.values[rows], scales=self.scales[rows])
        bias = None if self.bias is None else nn.Parameter(self.bias[rows], requires_grad=False)
        return QuantizedLinear(weight, self.in_features, bias)


class QuantizedEmbedding(_Quantized):
    """Gathers int8 rows and their scales and multiplies them; the table is never dequantized. Rows
    that are rotated are rotated back.

    Attributes:
        values: int8 (vocab_size, columns), columns >= embedding_dim; of 4 bits in -8..7.
        scales: float32 (vocab_size, groups).
    """

    def __init__(self, weight: QuantizedWeight, embedding_dim: int) -> None:
        super().__init__(weight)
        self.embedding_dim = embedding_dim

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids (batch, seq_len) to float32 (batch, seq_len, embedding_dim)."""
        return torch.ops.thimble.embedding(
            tokens,
            self.values,
            self.scales,
            self.embedding_dim,
            self.weight_type.bits,
            self.weight_type.group_size,
            self.weight_type.levels,
            self.rotated,
        )


class QuantizedConvolution(_Quantized):
    """A dense convolution whose windows are rounded to int8, dynamic.

    Attributes:
        values: int8 (outputs, channels * numbers of the kernel).
        scales: float32 (outputs, 1).
    """

    bias: nn.Parameter | None

    def __init__(self, weight: QuantizedWeight, convolution: nn.Conv1d | nn.Conv2d) -> None:
        super().__init__(weight)
        sides = (convolution.kernel_size, convolution.stride, convolution.padding)
        self.sides = [list(side) for side in (*sides, convolution.dilation)]
        bias = convolution.bias
        assert bias is None or isinstance(bias, nn.Parameter)
        self.register_parameter("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """float32 (batch, channels, ...) to (batch, outputs, ...)."""
        convolution = torch.ops.thimble.convolution
        return convolution(x, self.values, self.scales, self.bias, *self.sides)


def set_weight(parent: nn.Module, name: str, weight: QuantizedWeight) -> None:
    """Replaces the linear `name` of `parent` by a quantized one, with the same bias."""
    linear = getattr(parent, name)
    bias = linear.bias
    setattr(parent, name, QuantizedLinear(weight, linear.in_features, bias))


def has_integers(model: nn.Module) -> bool:
    """Whether a part of it is quantized."""
    return any(isinstance(part, _Quantized) for part in model.modules())


def drop_activation_rounding(model: nn.Module) -> None:
    """Replaces quantized linears by float ones with the dequantized weights: what weight-only
    formats compute."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, QuantizedLinear):
                linear = nn.Linear(child.in_features, child.out_features, device="meta")
                weight = child.quantized_weight.dequantize()[:, : child.in_features]
                linear.weight = nn.Parameter(weight, requires_grad=False)
                linear.register_parameter("bias", child.bias)
                setattr(parent, name, linear)
