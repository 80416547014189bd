"""Refuses quantized weights that XNNPACK accepts silently but computes wrongly.

Checked on the edge program, where a quantized linear reads
`linear(dequantize(quantize(x)), dequantize(values, scales, zero_points))`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.errors import DelegateError
from delegates.source_lines import shown_name

_SMALLEST_NORMAL = torch.finfo(torch.bfloat16).tiny


def check_quantized_linears(program: ExportedProgram) -> int:
    """Checks every quantized linear of an edge program; returns how many there are.

    Raises:
        DelegateError: a weight is asymmetric or has no int8 activations, an int4 group is not a
            multiple of 32, an int8 group is not a row, a scale is not a positive normal number, or
            an int4 scale is not exact in bfloat16.
    """
    count = 0
    for node in program.graph.nodes:
        if "linear" not in getattr(node.target, "__name__", ""):
            continue
        activation, weight = node.args[:2]
        if "dequantize_affine" not in str(weight.target):
            continue
        values, block, scales, zero_points = weight.args[:4]
        name = shown_name(_tensor_name(program, values))
        if "dequantize_affine" not in str(activation.target):
            raise DelegateError(
                f"{name} is quantized but its activations are not; XNNPACK would drop the scales: "
                "quantize the activations too (8da4w)."
            )
        is_int4 = weight.args[5:7] == (-8, 7)
        _check_zero_points(name, _tensor(program, zero_points), is_int4)
        _check_groups(name, block[1], values.meta["val"].shape[1], is_int4)
        _check_scales(name, _tensor(program, scales), is_int4)
        count += 1
    return count


def _check_zero_points(name: str, zero_points: Tensor | None, is_int4: bool) -> None:
    if zero_points is not None and bool(zero_points.any()):
        kind = "int4" if is_int4 else "int8"
        raise DelegateError(
            f"{name} is asymmetric {kind}; XNNPACK ignores its zero points: use a symmetric scheme."
        )


def _check_groups(name: str, group: int, row: int, is_int4: bool) -> None:
    if is_int4 and group % 32:
        raise DelegateError(
            f"{name} has groups of {group}; XNNPACK's int4 supports multiples of 32: "
            "use --group-size 32, 64 or 128."
        )
    if not is_int4 and group != row:
        raise DelegateError(
            f"{name} is int8 in groups of {group}; XNNPACK's int8 supports one scale per row: "
            "quantize per channel."
        )


def _check_scales(name: str, scales: Tensor, is_int4: bool) -> None:
    if not bool(torch.isfinite(scales).all() & (scales >= _SMALLEST_NORMAL).all()):
        raise DelegateError(
            f"{name} has a scale that is not a positive normal number; XNNPACK would fail when it "
            "loads the program: quantize again."
        )
    if is_int4 and not torch.equal(scales.float(), scales.bfloat16().float()):
        raise DelegateError(
            f"{name} has scales that are not exact in bfloat16; XNNPACK would truncate them: "
            "round the scales before quantizing."
        )


def _tensor_name(program: ExportedProgram, placeholder: Node) -> str:
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return names.get(placeholder.name, placeholder.name)


def _tensor(program: ExportedProgram, placeholder: Node | None) -> Any:
    if placeholder is None:
        return None
    name = _tensor_name(program, placeholder)
    return program.state_dict[name] if name in program.state_dict else program.constants[name]
