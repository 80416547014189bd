"""What bits cost each part, from the cache or measured."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from quant.budget.candidates import Costs
from quant.budget.sensitivity import measure_costs
from quant.cache.key import weights_key
from quant.cache.store import Cache, bytes_of
from quant.method import Method
from quant.progress import ProgressCallback
from quant.protocols import CausalLM, WeightSource
from quant.weight_type import WeightType


def find_costs(
    model: CausalLM,
    method: Method,
    types: tuple[WeightType, ...],
    weights: WeightSource,
    tokens: Tensor,
    device: torch.device,
    cache: Cache | None,
    progress: ProgressCallback | None,
) -> Mapping[str, Costs]:
    """The result of `measure_costs` with the same arguments, which is stored in the cache."""
    key, kept = "", None
    if cache is not None:
        asked = hashlib.sha256(repr(("costs", method, types, device.type)).encode())
        asked.update(bytes_of(tokens))
        key = weights_key(model, weights, asked.hexdigest())
        kept = cache.load(key)
    if kept is not None:
        return {name: tuple(costs.tolist()) for name, costs in kept.items()}
    measured = measure_costs(model, method, types, weights, tokens, device, progress)
    if cache is not None:
        stored = {
            name: torch.tensor(costs, dtype=torch.float64) for name, costs in measured.items()
        }
        cache.store(key, stored, "what bits cost each part")
    return measured
