"""What a quantized model is made of: torchao's tensor type, two small modules.

`IntxUnpackedToInt8Tensor` is the form that `torch.export` traces into the pattern which stock
partitioners recognise: int8 values, scales, zero point 0, int8 dynamic activations per token.
"""

import copyreg
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchao.quantization import IntxUnpackedToInt8Tensor
from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import (
    IntxUnpackedToInt8TensorActivationQuantization as ActivationQuantization,
)

INT4: torch.dtype = torch.int4  # type: ignore[attr-defined]

# Python 3.11.2 pickles a member of an enumeration as a call of getattr, and torch.load, which reads
# the weights of an ETRecord, refuses to call that; later versions write what is written here.
copyreg.pickle(ActivationQuantization, lambda member: (ActivationQuantization, (member.value,)))


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight as integers and scales, symmetric.

    Attributes:
        values: int8 (rows, columns), columns a multiple of the group; of 4 bits in -8..7.
        scales: float32 (rows, groups); of 4 bits exact in bfloat16.
        bits: 4 or 8.
    """

    values: Tensor
    scales: Tensor
    bits: int

    @property
    def group_size(self) -> int:
        return self.values.shape[1] // self.scales.shape[1]

    def dequantize(self) -> Tensor:
        """float32 (rows, columns)."""
        groups = self.values.unflatten(1, (-1, self.group_size)) * self.scales.unsqueeze(2)
        return groups.flatten(1)

    def as_parameter(self) -> nn.Parameter:
        """The same integers and scales, not copied, as the weight of a linear."""
        tensor = IntxUnpackedToInt8Tensor(
            qdata=self.values,
            scale=self.scales,
            zero_point=torch.zeros_like(self.scales, dtype=torch.int8),
            target_dtype=INT4 if self.bits == 4 else torch.int8,
            block_size=(1, self.group_size),
            dtype=torch.float32,
            activation_quantization=ActivationQuantization.INT8_ASYM_PER_TOKEN,
        )
        return nn.Parameter(tensor, requires_grad=False)


class PaddedLinear(nn.Linear):
    """A linear whose weight has `padding` more columns than its input, for a whole last group."""

    def __init__(self, linear: nn.Linear, padding: int) -> None:
        bias = linear.bias is not None
        super().__init__(linear.in_features, linear.out_features, bias, device="meta")
        self.bias = linear.bias
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.pad(x, (0, self.padding)), self.weight, self.bias)


class QuantizedEmbedding(nn.Module):
    """Gathers int8 rows and their scales and multiplies them; the table is never dequantized.

    Attributes:
        values: int8 (vocab_size, columns), columns >= embedding_dim; of 4 bits in -8..7.
        scales: float32 (vocab_size, groups).
    """

    values: Tensor
    scales: Tensor

    def __init__(self, weight: QuantizedWeight, embedding_dim: int) -> None:
        super().__init__()
        self.register_buffer("values", weight.values)
        self.register_buffer("scales", weight.scales)
        self.bits = weight.bits
        self.group_size = weight.group_size
        self.embedding_dim = embedding_dim

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids (batch, seq_len) to float32 (batch, seq_len, embedding_dim)."""
        values = F.embedding(tokens, self.values)  # (batch, seq_len, columns)
        scales = F.embedding(tokens, self.scales)  # (batch, seq_len, groups)
        groups = values.unflatten(-1, (-1, self.group_size)).to(scales.dtype)
        rows = (groups * scales.unsqueeze(-1)).flatten(-2)
        if self.embedding_dim < rows.shape[-1]:
            rows = rows.narrow(-1, 0, self.embedding_dim)
        return rows


def set_weight(parent: nn.Module, name: str, weight: QuantizedWeight) -> None:
    """Gives the linear `name` of `parent` a quantized weight; pads its input where needed."""
    linear = getattr(parent, name)
    padding = weight.values.shape[1] - linear.in_features
    if padding:
        linear = PaddedLinear(linear, padding)
        setattr(parent, name, linear)
    linear.weight = weight.as_parameter()


def drop_activation_rounding(model: nn.Module) -> None:
    """Turns quantized weights into the floats they stand for: what weight-only formats compute."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and isinstance(module.weight, IntxUnpackedToInt8Tensor):
            module.weight = nn.Parameter(module.weight.dequantize(), requires_grad=False)
