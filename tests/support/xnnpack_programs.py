"""Small quantized programs for the tests of the XNNPACK delegate."""

from pathlib import Path

import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torchao.quantization import IntxUnpackedToInt8Tensor
from torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor import (
    IntxUnpackedToInt8TensorActivationQuantization as ActivationQuantization,
)

from delegates.xnnpack import lower

INPUTS, OUTPUTS = 64, 24


def int_weight(
    bits: int = 4,
    group: int = 32,
    scales: Tensor | None = None,
    zero_point: int = 0,
    activations: ActivationQuantization | None = ActivationQuantization.INT8_ASYM_PER_TOKEN,
) -> nn.Parameter:
    """A weight (OUTPUTS, INPUTS) as torchao has it; the scales are exact in bfloat16 unless given.

    Args:
        scales: float32 (OUTPUTS, INPUTS / group).
    """
    generator = torch.Generator().manual_seed(bits * group)
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    values = torch.randint(low, high, (OUTPUTS, INPUTS), generator=generator, dtype=torch.int8)
    if scales is None:
        scales = torch.rand(OUTPUTS, INPUTS // group, generator=generator) + 0.5
        scales = scales.bfloat16().float()
    weight = IntxUnpackedToInt8Tensor(
        qdata=values,
        scale=scales,
        zero_point=torch.full_like(scales, zero_point, dtype=torch.int8),
        target_dtype=torch.int4 if bits == 4 else torch.int8,
        block_size=(1, group),
        dtype=torch.float32,
        activation_quantization=activations,
    )
    return nn.Parameter(weight, requires_grad=False)


def linear_with(weight: nn.Parameter) -> nn.Linear:
    linear = nn.Linear(INPUTS, OUTPUTS, bias=False)
    linear.weight = weight
    return linear


def captured(module: nn.Module, example: Tensor) -> ExportedProgram:
    """The program of a module with one input (1, length, ...), of any length up to 32."""
    module.eval().requires_grad_(False)
    return export(module, (example,), dynamic_shapes=({1: Dim("length", min=1, max=32)},))


def lowered_output(module: nn.Module, x: Tensor, path: Path) -> Tensor:
    """What a module computes after lowering it and writing it to `path`."""
    import executorch.kernels.quantized  # noqa: F401  (registers its kernels)

    lowered = lower(captured(module, x), {}, {}, with_etrecord=False)
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    return _load_for_executorch(str(path)).run_method("forward", (x,))[0]
