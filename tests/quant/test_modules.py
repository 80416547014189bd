"""The modules of a quantized model, eagerly and lowered to stock XNNPACK."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchao.quantization import IntxUnpackedToInt8Tensor
from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import (
    IntxUnpackedToInt8TensorActivationQuantization as ActivationQuantization,
)

from delegates.passes.quantized import expand_embeddings, expand_linears, gathered
from quant.integers import dequantized_once
from quant.modules import (
    QuantizedEmbedding,
    QuantizedLinear,
    QuantizedWeight,
    set_weight,
)
from quant.rounding.nearest import round_groups, round_int8
from quant.scheme import METHODS
from quant.weight_type import INT8_GROUPS, WeightType, int4

RTN = METHODS["rtn4"]


class Block(nn.Module):
    """An embedding, a ragged SwiGLU-like pair and a head that shares the embedding's integers."""

    def __init__(self, bits: int, head_bits: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        table = torch.randn(96, 64, generator=generator)
        table = round_int8(table, "t") if head_bits == 8 else round_groups(table, 4, 32, "t", RTN)
        self.embed = QuantizedEmbedding(table, 64)
        self.up = nn.Linear(64, 44, bias=False)
        self.down = nn.Linear(44, 64)
        self.head = nn.Linear(64, 96, bias=False)
        for name in ("up", "down"):
            weight = torch.randn(getattr(self, name).weight.shape, generator=generator)
            rounded = (
                round_groups(weight, 4, 32, name, RTN) if bits == 4 else round_int8(weight, name)
            )
            set_weight(self, name, rounded)
        set_weight(self, "head", table)
        self.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        return self.head(x + self.down(F.silu(self.up(x))))


def test_a_linear_holds_the_same_bytes() -> None:
    weight = round_groups(torch.randn(16, 96), 4, 32, "w", RTN)
    linear = QuantizedLinear(weight, 96)
    assert linear.values.data_ptr() == weight.values.data_ptr()
    assert linear.scales.data_ptr() == weight.scales.data_ptr()
    assert torch.equal(linear.quantized_weight.dequantize(), weight.dequantize())
    assert not list(linear.parameters())


def test_a_linear_that_is_dequantized_once_computes_the_same() -> None:
    weight = round_groups(torch.randn(16, 90), 4, 32, "w", RTN)
    linear = QuantizedLinear(replace(weight, rotated=2), 90, nn.Parameter(torch.randn(16)))
    x = torch.randn(3, 5, 90)
    expected = linear(x)
    with torch.no_grad(), dequantized_once(nn.Sequential(linear)):
        linear.values.zero_()  # it is not read again
        # Of 90 products of integers times two scales: sums of other order, and one more rounding.
        torch.testing.assert_close(linear(x), expected, rtol=0, atol=1e-5)
    assert not torch.allclose(linear(x), expected, atol=1e-2)


@pytest.mark.parametrize("type", [WeightType(4, 64, 1), INT8_GROUPS])
def test_where_groups_have_float_scales_inputs_are_rounded_in_groups(type: WeightType) -> None:
    generator = torch.Generator().manual_seed(3)
    most = 2 ** (type.bits - 1)
    values = torch.randint(-most, most, (16, 192), generator=generator, dtype=torch.int8)
    scales = torch.rand(16, 192 // type.group_size, generator=generator).half().float()
    linear = QuantizedLinear(QuantizedWeight(values, scales, type), 150)
    x = torch.randn(3, 5, 150, generator=generator)
    x[..., :32] *= 100  # spoils a token's scale, not that of its other groups
    x[0, 0] = 0
    groups = F.pad(x, (0, 42)).unflatten(-1, (-1, type.group_size))
    steps = groups.abs().amax(-1, keepdim=True) / 127
    rounded = ((groups / steps).nan_to_num().round() * steps).flatten(-2)
    expected = rounded @ linear.quantized_weight.dequantize().T
    torch.testing.assert_close(linear(x), expected, rtol=0, atol=0)
    with dequantized_once(linear):
        torch.testing.assert_close(linear(x), expected, rtol=0, atol=0)
    assert ((rounded[..., 64:150] - x[..., 64:]).abs() <= x[..., 64:].abs().amax() / 254).all()


def test_a_linear_computes_what_torchaos_tensor_does() -> None:
    """The composite that stock partitioners know, on the same integers, bit for bit."""
    for weight in (
        round_groups(torch.randn(16, 96), 4, 32, "w", RTN),
        round_int8(torch.randn(16, 96), "w"),
    ):
        tensor = IntxUnpackedToInt8Tensor(
            qdata=weight.values,
            scale=weight.scales,
            zero_point=torch.zeros_like(weight.scales, dtype=torch.int8),
            target_dtype=torch.int4 if weight.type.bits == 4 else torch.int8,
            block_size=(1, 96 // weight.scales.shape[1]),
            dtype=torch.float32,
            activation_quantization=ActivationQuantization.INT8_ASYM_PER_TOKEN,
        )
        x, bias = torch.randn(2, 5, 96), nn.Parameter(torch.randn(16))
        assert torch.equal(QuantizedLinear(weight, 96, bias)(x), F.linear(x, tensor, bias))


def test_rows_of_a_linear_compute_their_outputs() -> None:
    weight = round_groups(torch.randn(16, 70), 4, 32, "w", RTN)
    linear = QuantizedLinear(weight, 70, nn.Parameter(torch.randn(16)))
    x = torch.randn(3, 70)
    torch.testing.assert_close(linear.of_rows(slice(4, 9))(x), linear(x)[:, 4:9])


@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_a_ragged_input_is_padded(group_size: int) -> None:
    parent = nn.Module()
    parent.down_proj = nn.Linear(172, 24)
    bias, weight = parent.down_proj.bias, parent.down_proj.weight.detach()
    set_weight(parent, "down_proj", round_groups(weight, 4, group_size, "w", RTN))
    linear = parent.down_proj
    assert isinstance(linear, QuantizedLinear)
    assert linear.values.shape[1] % group_size == 0
    assert linear.bias is bias and linear.in_features == 172
    x = torch.randn(2, 3, 172)
    error = (linear(x) - F.linear(x, weight, bias)).norm() / F.linear(x, weight).norm()
    assert error < 0.15


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("width", "rotated"), [(64, 0), (70, 0), (64, 32)])
def test_an_embedding_gathers_rows_of_the_table(bits: int, width: int, rotated: int) -> None:
    table = torch.randn(50, width)
    weight = round_int8(table, "t") if bits == 8 else round_groups(table, 4, 32, "t", RTN)
    weight = replace(weight, rotated=rotated)
    tokens = torch.tensor([[0, 49, 7], [7, 7, 3]])
    rows = QuantizedEmbedding(weight, width)(tokens)
    assert rows.dtype == torch.float32
    assert torch.equal(rows, weight.dequantize()[:, :width][tokens])


def test_dequantized_is_values_times_scales() -> None:
    values = torch.tensor([[-8, 7, 1, 0]], dtype=torch.int8)
    weight = QuantizedWeight(values, torch.tensor([[0.5, 2.0]]), int4(32))
    assert torch.equal(weight.dequantize(), torch.tensor([[-4.0, 3.5, 2.0, 0.0]]))


@pytest.mark.soak
@pytest.mark.parametrize(("bits", "head_bits"), [(4, 8), (4, 4), (8, 8)])
def test_xnnpack_takes_every_linear_and_computes_the_same(bits: int, head_bits: int) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    model = Block(bits, head_bits).eval()
    tokens = torch.arange(5).unsqueeze(0)
    dims = ({1: torch.export.Dim("seq", min=1, max=16)},)
    program = torch.export.export(model, (tokens,), dynamic_shapes=dims)
    assert expand_linears(program) == 3 and expand_embeddings(program, gathered) == 1
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    left = [str(n.target) for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    for name in ("linear", "mm", "quantize", "silu", "sigmoid", "pad", "add"):
        assert not any(f".{name}." in target for target in left), f"{name} was not delegated"
    buffer = edge.to_executorch().buffer
    method = Runtime.get().load_program(buffer).load_method("forward")
    for seq_len in (1, 5, 16):
        tokens = torch.randint(0, 96, (1, seq_len), generator=torch.Generator().manual_seed(1))
        expected = model(tokens)
        # A float sum in another order can move one int8 activation by a step: 1 / 255 of one
        # input. Scales truncated to bfloat16, or a wrong zero point, would cost far more.
        error = (method.execute([tokens])[0] - expected).abs()
        assert error.max() / expected.abs().max() < 5e-3
        assert error.median() / expected.abs().max() < 1e-4
