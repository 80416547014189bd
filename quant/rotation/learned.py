"""SpinQuant (Liu et al., 2024): the rotation of the residual stream, learned.

R1 = R0 C(A) with R0 a random Hadamard matrix and C the Cayley map of a skew-symmetric matrix,
C(A) = (I - A)^-1 (I + A), so that every step stays orthogonal. A is trained by Adam to lower the
quantized network's own loss on the calibration text: weights rounded to nearest at scales of
absmax / 7.5 and activations to int8, both with straight-through gradients. (The paper descends on
the Stiefel manifold; the Cayley map is the same geometry in free parameters.) The complete model is
in float32 in memory meanwhile: for models that fit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from quant.layers.blocks import blocks_of
from quant.layers.walk import walk
from quant.machine.device import HOST, context_on
from quant.protocols import CausalLM, WeightSource
from quant.rotation.fold import RotatedWeights, random_values, roles_of, rotated_by
from quant.rotation.hadamard import orthogonal_matrix
from quant.rounding.activations import int8_round_trip
from quant.rounding.scales import INT4

STEPS = 60
_WINDOWS = 4  # of the calibration text in one step
_RATE = 0.02
_SMALLEST = 1e-12


def learn_rotation(
    model: CausalLM,
    weights: WeightSource,
    calibration: Tensor,
    group_size: int,
    device: torch.device = HOST,
    seed: int = 0,
    steps: int = STEPS,
) -> RotatedWeights:
    """Reads a model's weights through a learned R1 and a random Hadamard R2.

    Args:
        model: on the meta device, of blocks that `require_rotatable` lets pass; tied embeddings
            are untied.
        calibration: int64 (windows, seq_len).
        group_size: columns that share a scale.
        device: what computes.
    """
    start = orthogonal_matrix(model.lm_head.in_features, seed)
    values = random_values(model, seed + 1)
    # Norms folded, heads rotated, the residual stream as it is: R1 acts on these.
    folded = rotated_by(model, weights, torch.eye(len(start), dtype=torch.float64), values)
    network = _Network(model, folded, group_size, device)
    first = start.to(device, torch.float32)
    skew = torch.zeros_like(first, requires_grad=True)
    optimizer = torch.optim.Adam([skew], lr=_RATE)
    generator = torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.randperm(len(calibration), generator=generator)[:_WINDOWS]
            loss = network.loss(calibration[chosen].to(device), first @ cayley(skew))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    residual = start @ cayley(skew.detach().cpu().double())
    unturned = {size: torch.eye(size, dtype=torch.float64) for size in values}
    return rotated_by(model, folded, residual, unturned)


def cayley(square: Tensor) -> Tensor:
    """The rotation (I - A)^-1 (I + A) of the skew-symmetric part A of (size, size)."""
    skew = (square - square.T) / 2
    eye = torch.eye(len(skew), dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(eye - skew, eye + skew)


class _Network:
    """The float model, run with weights that are rotated and rounded on the way."""

    def __init__(
        self,
        model: CausalLM,
        weights: RotatedWeights,
        group_size: int,
        device: torch.device = HOST,
    ) -> None:
        self._model = model
        self._device = device
        self._group_size = group_size
        self._tensors = [
            {
                name: weights.tensor(f"{stop.name}.{name}").to(device)
                for name, _ in stop.layer.named_parameters()
            }
            for stop in walk(model)
        ]
        self._embedding = weights.tensor("model.embed_tokens.weight").to(device)
        self._head = weights.tensor("lm_head.weight").to(device)
        weights.release()

    def loss(self, tokens: Tensor, residual: Tensor) -> Tensor:
        """Cross entropy of the next token with R1 (hidden_size, hidden_size)."""
        hidden = self._model.scale_embedding(self._embedding[tokens]) @ residual
        context = context_on(self._device, self._model, tokens.shape[1])
        for stop, tensors in zip(walk(self._model), self._tensors, strict=True):
            roles = roles_of(blocks_of(stop.layer))
            rotated = {
                name: self._rounded(roles.rotated(name, tensor, residual))
                for name, tensor in tensors.items()
            }
            with _rounded_inputs(stop.layer):
                hidden = functional_call(stop.layer, rotated, (hidden, context))
        norm = self._model.model.get_submodule("norm")
        ones = torch.ones(hidden.shape[-1], device=self._device)
        hidden = functional_call(norm, {"weight": ones}, (hidden,))
        logits = self._model.finish_logits(hidden @ (self._head @ residual).T)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    def _rounded(self, weight: Tensor) -> Tensor:
        """The weight of a linear rounded to int4; biases, norms and convolutions as they are."""
        if weight.dim() != 2:
            return weight
        columns = weight.shape[1]
        groups = F.pad(weight, (0, -columns % self._group_size))
        groups = groups.unflatten(1, (-1, self._group_size))
        scale = (
            groups.detach().abs().amax(dim=2, keepdim=True).clamp_min(_SMALLEST) / INT4.half_range
        )
        rounded = (groups.detach() / scale).round_().clamp_(INT4.low, INT4.high) * scale
        return (groups + (rounded - groups).detach()).flatten(1)[:, :columns]


@contextmanager
def _rounded_inputs(layer: nn.Module) -> Iterator[None]:
    """Within the block, the layer's linears see inputs rounded to int8, with straight-through
    gradients."""

    def round_input(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (x,) = inputs
        return (x + (int8_round_trip(x.detach()) - x).detach(),)

    linears = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    hooks = [linear.register_forward_pre_hook(round_input) for linear in linears]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
