"""A LoRA adapter as PEFT writes it, read to be kept apart from the weights.

Its matrices become float16. A power of two brings the largest number of each below 1, exactly, and
goes into the float32 scale together with lora_alpha / r: what is stored as bfloat16 or float16
stays as it is (but for numbers below 2^-14 times the largest), and float32 is rounded once, to
11 bits.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from exporter.catalogue.adapters import check_adapter_names
from exporter.checkpoint.adapter import Change, find_adapter, read_changes
from exporter.checkpoint.checkpoint import HEAD, Checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.experts import Experts
from exporter.models.low_rank import LowRankAdapter, LowRankPair
from exporter.models.tensor_layout import Stored

_PROBED = 8  # columns by which the order of rows is compared


def read_adapters(
    checkpoint: Checkpoint, named: Sequence[tuple[str, str]]
) -> tuple[LowRankAdapter, ...]:
    """Reads adapters of a model.

    Args:
        named: the name of each, and its directory or hub id.

    Raises:
        ExportError: a name is repeated, or as `read_adapter`.
    """
    check_adapter_names(named)
    return tuple(read_adapter(checkpoint, name, source) for name, source in named)


def read_adapter(checkpoint: Checkpoint, name: str, source: str) -> LowRankAdapter:
    """Reads one.

    Raises:
        ExportError: as merging it does; or it changes more than the linears of layers, or these
            otherwise than by a low-rank product, or experts.
    """
    changes, notes = read_changes(find_adapter(source), checkpoint)
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    mixtures = tuple(
        f"{path}.experts." for path, m in model.named_modules() if isinstance(m, Experts)
    )
    pairs: dict[str, LowRankPair] = {}
    read: set[str] = set()
    for path, module in model.named_modules():
        parameter = f"{path}.weight"
        if not isinstance(module, nn.Linear) or parameter == HEAD:
            continue
        stored = checkpoint.family.stored(checkpoint.config, parameter)
        stored = stored.among(checkpoint.weights.shapes())
        if changes.keys().isdisjoint(stored.names):
            continue
        if parameter.startswith(mixtures):
            raise ExportError(
                f"The adapter {name} changes {parameter}, a weight of an expert, which cannot be "
                f"kept apart: merge it with --adapter {source}."
            )
        read.update(stored.names)
        factors = _factors(changes, stored)
        if factors is None or len(factors[0]) != module.out_features:
            raise ExportError(
                f"The adapter {name} changes {parameter} by more than a low-rank product of its "
                f"own, which cannot be kept apart: merge it with --adapter {source}. (It is DoRA, "
                f"a complete weight, or of a form that {checkpoint.name} does not store.)"
            )
        pairs[path] = _pair(*factors)
    for other in changes.keys() - read:
        raise ExportError(
            f"The adapter {name} changes {other}, but only the weights of linears in decoder "
            f"layers can be kept apart: merge it with --adapter {source}."
        )
    return LowRankAdapter(name, str(source), pairs, notes)


def _factors(changes: Mapping[str, Change], stored: Stored) -> tuple[Tensor, Tensor, float] | None:
    """B (out_features, rank) and A (rank, in_features) of a parameter, and the factor of their
    product; None if its change is not one.

    A family makes the parameter of rows of the stored tensor, so it makes B of the stored B.
    """
    change = changes[stored.names[0]] if len(stored.names) == 1 else Change()
    if change.delta is None or change.replacement is not None or change.lengths is not None:
        return None
    b, a = (matrix.float() for matrix in change.delta)
    some = a[:, :_PROBED]
    try:
        rows = stored.make(b)
        made = stored.make(b @ some)
        same = torch.allclose(made, rows @ some, rtol=1e-3, atol=1e-6, equal_nan=True)
    except (RuntimeError, IndexError):
        return None
    return (rows, a, change.scale) if same else None


def _pair(b: Tensor, a: Tensor, scale: float) -> LowRankPair:
    """The pair as it is stored."""
    exponents = [_exponent(matrix) for matrix in (a, b)]
    halves = [
        torch.ldexp(matrix, torch.tensor(-exponent)).half()
        for matrix, exponent in zip((a, b.T), exponents, strict=True)
    ]
    scale = math.ldexp(scale, sum(exponents))
    return LowRankPair(halves[0].contiguous(), halves[1].contiguous(), scale)


def _exponent(matrix: Tensor) -> int:
    """The power of two that brings the largest number of a matrix below 1."""
    return int(torch.frexp(matrix.abs().max()).exponent)
