"""What rounding each part of a model costs, in KL, measured before anything is quantized.

To second order in the errors e that rounding leaves in the outputs of a part, a model's next-token
distribution p moves by

    KL(p || p') = 1/2 E[(g . e)^2],  g = d log p(label) / d output,  label drawn from p

(the Fisher information is the Hessian of KL; Amari, 1998). A part's g comes from one pass forward
and one backward over calibration text, with labels drawn from the model itself; its e is the text's
own inputs times what rounding to nearest changes in the weight. Errors of different parts and
positions are assumed independent, so that their costs add up. GPTQ costs less: when a column is
rounded, those after it compensate for a part of the error, and of its cost H_ii, 1 / U_ii^2 remains
(quant.rounding.gptq); so the cost of a weight that it rounds is multiplied by the ratio of their
sums. The layers are read one at a time, once forward, once backward; of the head, a slice of the
vocabulary at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.layers.blocks import parts_of_layer
from quant.layers.embedding_and_head import EMBEDDING, HEAD, embed_float, is_tied
from quant.layers.head_inputs import head_damp_percent
from quant.layers.stream import States, contexts_on
from quant.layers.walk import float_walk, load_finite
from quant.machine.device import HOST, move
from quant.machine.products import fast_products
from quant.method import Method
from quant.protocols import CausalLM, WeightSource
from quant.rounding.gptq import inverse_factor
from quant.rounding.nearest import round_weight
from quant.rounding.solve import rotated_by
from quant.scheme import EMBEDDING_PART, HEAD_PART
from quant.weight_type import WeightType

_WINDOWS_TOGETHER = 4
_HEAD_ROWS = 2048
_BLOCK = 768  # columns, of thousands of tokens
_SEED = 0


Costs = tuple[float, ...]  # KL in nats a token, of a part stored in each of some types


@fast_products()
def measure_costs(
    model: CausalLM,
    method: Method,
    types: Sequence[WeightType],
    weights: WeightSource,
    tokens: Tensor,
    device: torch.device = HOST,
) -> Mapping[str, Costs]:
    """Returns the cost of each part in each type, in their order, by the names of quant.scheme;
    the cost of both tied ends is under the embedding's name.

    Args:
        model: on the meta device, where it is left.
        method: by which parts in groups will be rounded.
        tokens: int64 (windows, seq_len).
        device: what computes.
    """
    contexts = contexts_on(device, model, tokens.shape[1], weights)
    hidden = embed_float(model, weights, tokens).to(device)
    states = States(hidden, contexts, tokens, _WINDOWS_TOGETHER)
    left = [_Left(context) for context in states.contexts]
    before = []  # hidden states in front of each layer: (windows, seq_len, hidden_size)
    with torch.no_grad():
        for stop in float_walk(model, weights, device):
            before.append(states.hidden.clone())
            states.advance(stop.layer)
    candidates = _Candidates(method, tuple(types))
    costs: dict[str, Costs] = {}
    gradient, costs[HEAD_PART] = _through_head(model, candidates, weights, states.hidden)
    for stop in float_walk(model, weights, device, backwards=True):
        errors = _Errors(stop.layer, stop.name, candidates)
        inputs = states.split(before.pop())
        gradients = [
            errors.through(x, own, g)
            for x, own, g in zip(inputs, left, states.split(gradient), strict=True)
        ]
        gradient = torch.cat(gradients)
        costs.update(errors.costs(tokens.numel()))
    costs[EMBEDDING_PART] = _of_embedding(model, candidates, weights, tokens, gradient.cpu())
    if is_tied(model):
        both = zip(costs.pop(HEAD_PART), costs[EMBEDDING_PART], strict=True)
        costs[EMBEDDING_PART] = tuple(map(sum, both))
    return costs


@dataclass(frozen=True)
class _Candidates:
    """The types that a part may have, and how it would be rounded to them."""

    method: Method
    types: tuple[WeightType, ...]

    def changes(self, weight: Tensor, name: str, importance: Tensor | None) -> list[Tensor]:
        """Returns the change of a weight (rows, columns) by rounding to each type."""
        rounded = (round_weight(weight, t, name, self.method, importance) for t in self.types)
        return [each.dequantize()[:, : weight.shape[1]] - weight for each in rounded]

    def compensation(self) -> "_Compensation | None":
        """Returns what measures GPTQ's compensation, if the method is GPTQ."""
        return _Compensation() if self.method.rounding == "gptq" else None

    def costs(
        self, squares: Tensor, compensation: "_Compensation | None", damp: float = 1.0
    ) -> Costs:
        """KL from E[(g . e)^2] at each type: float (types,)."""
        share = 1.0 if compensation is None else compensation.share_left(damp)
        shares = (share if type.in_groups else 1.0 for type in self.types)
        return tuple(s * h for s, h in zip(shares, (squares / 2).tolist(), strict=True))


class _Left:
    """What layers leave for later ones, of some windows, and the gradients that these have for it.

    The layers are visited from the last to the first: the gradients of what a layer leaves are
    complete when it is reached.
    """

    def __init__(self, context: Any) -> None:
        """context: after the windows have gone through all layers."""
        self.context = context
        self._kept: dict[int, tuple[Tensor, ...]] = getattr(context, "kept", None) or {}
        self._leaves: dict[int, tuple[Tensor, ...]] = {}
        self._gradients: dict[int, list[Tensor]] = {}

    def detach(self) -> None:
        """Makes what is left the start of gradients."""
        self._leaves = {
            key: tuple(tensor.detach().requires_grad_() for tensor in tensors)
            for key, tensors in self._kept.items()
        }
        self._kept.update(self._leaves)

    def backward(self, output: Tensor, gradient: Tensor) -> None:
        """Runs the gradient of a layer's output back, with those of what that layer has left."""
        outputs, gradients = [output], [gradient]
        for key, leaves in self._leaves.items():
            tensors = self._kept[key]
            if tensors is not leaves and key in self._gradients:  # which this layer has made
                outputs += tensors
                gradients += self._gradients.pop(key)
        torch.autograd.backward(outputs, gradients)
        for key, leaves in self._leaves.items():
            if leaves[0].grad is not None:
                own = self._gradients.setdefault(key, [torch.zeros_like(each) for each in leaves])
                for total, leaf in zip(own, leaves, strict=True):
                    assert leaf.grad is not None
                    total += leaf.grad


class _Errors:
    """A layer's parts: the changes of their weights by rounding, and the costs so far."""

    def __init__(self, layer: nn.Module, name: str, candidates: _Candidates) -> None:
        self._layer = layer
        self._rotated = rotated_by(candidates.method)
        self._name = name
        self._candidates = candidates
        self._changes: dict[str, list[Tensor]] = {}  # a linear's, at each type
        self._squares: dict[str, Tensor] = {}  # a part's (types,), summed over tokens
        self._parts = list(parts_of_layer(layer))
        self._compensation = {part.name: candidates.compensation() for part in self._parts}

    def through(self, x: Tensor, left: "_Left", gradient: Tensor) -> Tensor:
        """Runs some windows through the layer and their gradient back; returns the gradient of the
        layer's input."""
        seen: dict[str, tuple[Tensor, Tensor]] = {}  # a linear's input and output

        def keep(path: str) -> object:
            def hook(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
                output.retain_grad()
                seen[path] = (inputs[0].detach(), output)

            return hook

        linears = [linear for part in self._parts for linear in part.linears]
        hooks = [
            self._layer.get_submodule(path).register_forward_hook(keep(path))  # type: ignore[arg-type]
            for path in linears
        ]
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            left.detach()
            output = self._layer(x, left.context)
            left.backward(output, gradient)
        for hook in hooks:
            hook.remove()
        for part in self._parts:
            for group in part.groups:
                if group[0] in seen:  # an expert may get no token
                    self._add(part.name, group, seen)
        assert x.grad is not None
        return x.grad

    def costs(self, tokens: int) -> dict[str, Costs]:
        """Each part's, by its full name."""
        return {
            f"{self._name}.{part}": self._candidates.costs(
                squares / tokens, self._compensation[part]
            )
            for part, squares in self._squares.items()
        }

    def _add(
        self, name: str, group: Sequence[str], seen: Mapping[str, tuple[Tensor, Tensor]]
    ) -> None:
        """Adds what linears of a part do that read one input."""
        moved = sum(self._moved(path, *seen[path]) for path in group)
        assert isinstance(moved, Tensor)
        squares = moved.square().flatten(1).sum(dim=1)
        self._squares[name] = self._squares.get(name, torch.zeros_like(squares)) + squares
        compensation = self._compensation[name]
        if compensation is not None:
            compensation.add(self._rotated(seen[group[0]][0].flatten(0, -2)))

    def _moved(self, path: str, inputs: Tensor, output: Tensor) -> Tensor:
        """g . e of each token, at each type: float32 (types, ..., of inputs)."""
        assert output.grad is not None
        inputs = self._rotated(inputs)
        if path not in self._changes:
            weight = self._rotated(self._layer.get_parameter(f"{path}.weight").detach())
            squares = inputs.flatten(0, -2).square().mean(dim=0)
            self._changes[path] = self._candidates.changes(weight, path, squares)
        gradient = output.grad
        return torch.stack(
            [(F.linear(inputs, change) * gradient).sum(dim=-1) for change in self._changes[path]]
        )


class _Compensation:
    """How much of the cost of rounding remains with GPTQ, by a weight's inputs.

    Only blocks on the Hessian's diagonal are used, small enough for the tokens to determine them.
    """

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []

    def add(self, inputs: Tensor) -> None:
        """Adds inputs (tokens, columns)."""
        columns = inputs.shape[1]
        width = min(columns, _BLOCK)
        parts = inputs.split(width, dim=1)
        if not self._blocks:
            self._blocks = [part.new_zeros(part.shape[1], part.shape[1]) for part in parts]
        for block, part in zip(self._blocks, parts, strict=True):
            block.addmm_(part.T, part)

    def share_left(self, damp_percent: float = 1.0) -> float:
        """From 0 to 1; 1 if there were no inputs."""
        left = whole = 0.0
        for block in self._blocks:
            factor = inverse_factor(block, damp_percent)
            left += factor.mean * factor.upper.diagonal().square().reciprocal().sum().item()
            whole += block.diagonal().sum().item()
        return min(left / whole, 1.0) if whole else 1.0


@torch.no_grad()
def _through_head(
    model: CausalLM, candidates: _Candidates, weights: WeightSource, hidden: Tensor
) -> tuple[Tensor, Costs]:
    """Returns the gradient of log p(label) before the final norm, and the costs of the head.

    The head's errors e move the logits by e times the slope of `finish_logits`: KL is half the
    variance of that under p.
    """
    norm, device = model.model.get_submodule("norm"), hidden.device
    load_finite(weights, norm, "model.norm.")
    move(norm, device)
    with torch.enable_grad():
        hidden = hidden.detach().requires_grad_()
        normed = norm(hidden)
    x = normed.detach().flatten(0, 1)  # (positions, hidden_size)
    stored = weights.tensor(EMBEDDING if is_tied(model) else HEAD)
    slices = [slice(at, at + _HEAD_ROWS) for at in range(0, len(stored), _HEAD_ROWS)]

    generator = torch.Generator().manual_seed(_SEED)
    largest = torch.full_like(x[:, 0], -torch.inf)
    total, best = torch.zeros_like(largest), largest
    drawn = torch.zeros_like(x)  # the label's row of the head, times the slope of its logit
    for rows in slices:
        weight = stored[rows].to(device).float()
        logits, slope = _finished(model, F.linear(x, weight))
        top = torch.maximum(largest, logits.amax(dim=1))
        total = total * (largest - top).exp() + (logits - top[:, None]).exp().sum(dim=1)
        largest = top
        noise = torch.empty(logits.shape).exponential_(generator=generator).log_()
        race, index = (logits - noise.to(device)).max(dim=1)  # Gumbel's: the first is drawn from p
        ahead = race > best
        best = torch.where(ahead, race, best)
        steepness = slope[ahead].gather(1, index[ahead].unsqueeze(1))
        drawn[ahead] = weight[index[ahead]] * steepness

    gradient = drawn  # of log p(label) in x: the label's row less the mean row
    knows_inputs = candidates.method.rounding == "gptq"  # as round to nearest does not
    squares = x.square().mean(dim=0) if knows_inputs else None
    compensation = candidates.compensation()
    if compensation is not None:
        compensation.add(x)
    moments = x.new_zeros(len(candidates.types), 2, len(x))  # of e and e^2 under p, at each type
    for rows in slices:
        weight = stored[rows].to(device).float()
        logits, slope = _finished(model, F.linear(x, weight))
        p = (logits - largest[:, None]).exp_() / total[:, None]
        gradient -= (p * slope) @ weight
        for which, change in enumerate(candidates.changes(weight, HEAD, squares)):
            error = F.linear(x, change) * slope
            moments[which, 0] += (p * error).sum(dim=1)
            moments[which, 1] += (p * error.square_()).sum(dim=1)
    variance = moments[:, 1] - moments[:, 0].square()
    with torch.enable_grad():
        normed.backward(gradient.view_as(normed))
    weights.release()
    assert hidden.grad is not None
    damp = head_damp_percent(is_tied(model))
    return hidden.grad, candidates.costs(variance.mean(dim=1), compensation, damp)


def _finished(model: CausalLM, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The head's logits (positions, rows) after the model's `finish_logits`, and the slope of that
    for each of them."""
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        finished = model.finish_logits(logits)
        (slope,) = torch.autograd.grad(finished, logits, torch.ones_like(finished))
    return finished.detach(), slope


def _of_embedding(
    model: CausalLM,
    candidates: _Candidates,
    weights: WeightSource,
    tokens: Tensor,
    gradient: Tensor,
) -> Costs:
    """The costs of the embedding for these tokens; `gradient` is of log p(label) in hidden
    states."""
    ids, places = tokens.flatten().unique(return_inverse=True)
    rows = weights.tensor(EMBEDDING)[ids].float()
    gradient = gradient.flatten(0, 1)
    squares = tuple(
        (model.scale_embedding(change)[places] * gradient).sum(dim=1).square().mean().item() / 2
        for change in candidates.changes(rows, EMBEDDING, None)
    )
    weights.release()
    return squares
