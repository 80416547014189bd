"""Stores a captured module's convolutions in int8, by PyTorch's own PT2E."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from exporter.module.correct_biases import rounding_weights
from exporter.module.source import Inputs
from exporter.module.state import state_kept

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)
_aten = torch.ops.aten
_FLOAT = (_aten.linear.default, _aten.mul.Tensor)

# Of a weight. The quantizer's own, 2^-12, leaves few levels to channels of small weights; with a
# much smaller one the integers of their biases would overflow.
_LEAST_SCALE = 2.0**-20


def convolutions_of(module: nn.Module) -> dict[str, nn.Module]:
    """Returns the convolutions by name."""
    return {
        name: part
        for name, part in module.named_modules()
        if name and isinstance(part, CONVOLUTIONS)
    }


@torch.no_grad()
def quantize_convolutions(
    program: ExportedProgram, left: Collection[str], calibration: Sequence[Inputs]
) -> GraphModule:
    """Returns the program as a module whose convolutions read and write int8, with ranges that
    calibration has shown.

    Args:
        left: the names of convolutions that stay in float.
    """
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e import PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer()
    config = get_symmetric_quantization_config(is_per_channel=True)
    least = PerChannelMinMaxObserver.with_args(eps=_LEAST_SCALE)
    weight = replace(config.weight, observer_or_fake_quant_ctr=least)
    quantizer.set_global(replace(config, weight=weight))
    quantizer.set_filter_function(_is_integer(left))
    # What XNNPACK fuses into a convolution has this name there.
    program = program.run_decompositions({_aten.relu6.default: _relu6})
    shares = xnnpack_quantizer_utils._is_share_obs_or_fq_op
    with (
        patch.object(xnnpack_quantizer_utils, "is_relu_node", _is_fused),
        patch.object(
            xnnpack_quantizer_utils,
            "_is_share_obs_or_fq_op",
            lambda target: target == _aten.pad.default or shares(target),
        ),
    ):
        prepared: Any = prepare_pt2e(program.module(), quantizer)
    # Observers, which are buffers too, keep what they see.
    changed = set(program.graph_signature.buffers_to_mutate.values())
    with rounding_weights(prepared), state_kept(prepared, changed):
        for inputs in calibration:
            inputs.call(prepared)
    converted: GraphModule = convert_pt2e(prepared)
    return converted


def _is_fused(node: Node) -> bool:
    """Whether XNNPACK clamps a convolution's output by it. The quantizer knows ReLU alone, and
    would spend integers on what ReLU6 cuts off."""
    return node.target in (_aten.relu.default, _aten.hardtanh.default)


def _relu6(x: Tensor) -> Tensor:
    return torch.nn.functional.hardtanh(x, 0.0, 6.0)


def _is_integer(left: Collection[str]) -> Callable[[Node], bool]:
    def is_integer(node: Node) -> bool:
        if node.target in _FLOAT:
            return False
        return not any(is_of(node, name) for name in left)

    return is_integer


def is_of(node: Node, name: str) -> bool:
    """Whether a module of that name computes a node."""
    stack = node.meta.get("nn_module_stack") or {}
    return any(path == name or path.endswith(f".{name}") for path, _ in stack.values())
