"""What rounding each part of a model costs, in KL, measured before anything is quantized.

To second order in the errors e that rounding leaves in the outputs of a part, a model's next-token
distribution p moves by

    KL(p || p') = 1/2 E[(g . e)^2],  g = d log p(label) / d output,  label drawn from p

(the Fisher information is the Hessian of KL; Amari, 1998). A part's g comes from one pass forward
and one backward over calibration text, with labels drawn from the model itself; its e is the
inputs x times what rounding to nearest changes in the weight. The changes of single numbers are
taken to be independent, so that their costs add up, each the change squared times E[g^2 x^2] / 2
(the diagonal of the weights' Fisher information). GPTQ costs less: when a column is
rounded, those after it compensate for a part of the error, and of its cost H_ii, 1 / U_ii^2 remains
(quant.rounding.gptq); so the cost of a weight that it rounds is multiplied by the ratio of their
sums. The layers are read one at a time, once forward, once backward; of the head, a slice of the
vocabulary at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.budget.candidates import Candidates, Costs
from quant.layers.blocks import parts_of_layer
from quant.layers.embedding_and_head import EMBEDDING, HEAD, embed_float, is_tied
from quant.layers.head_inputs import head_damp_percent
from quant.layers.stream import States, contexts_on
from quant.layers.walk import float_walk, layers_of, load_finite
from quant.machine.device import HOST, move
from quant.machine.products import fast_products
from quant.method import Method
from quant.progress import ProgressCallback, ProgressMeter
from quant.protocols import CausalLM, WeightSource
from quant.rounding.solve import rotated_by
from quant.scheme import EMBEDDING_PART, HEAD_PART
from quant.weight_type import WeightType

_WINDOWS_TOGETHER = 4
_HEAD_ROWS = 2048
_WORK = 4  # of a layer: once forward, and three times as much to come back
_HEAD_COPIES = 6  # of the logits of those rows
_EXPERTS_OF_A_TOKEN = 8  # more than most models have
_SLACK = 200_000_000  # rotated inputs, attention, what is freed but not given back
_SEED = 0


@fast_products()
def measure_costs(
    model: CausalLM,
    method: Method,
    types: Sequence[WeightType],
    weights: WeightSource,
    tokens: Tensor,
    device: torch.device = HOST,
    progress: ProgressCallback | None = None,
) -> Mapping[str, Costs]:
    """Returns the cost of each part in each type, in their order, by the names of quant.scheme;
    the cost of both tied ends is under the embedding's name.

    Args:
        model: on the meta device, where it is left.
        method: by which parts in groups will be rounded.
        tokens: int64 (windows, seq_len).
        device: what computes.
        progress: is called after every layer, forward and back.
    """
    meter = ProgressMeter(_WORK * len(layers_of(model)), progress)
    contexts = contexts_on(device, model, tokens.shape[1], weights)
    hidden = embed_float(model, weights, tokens).to(device)
    states = States(hidden, contexts, tokens, _WINDOWS_TOGETHER)
    left = [_Left(context) for context in states.contexts]
    before = []  # hidden states in front of each layer: (windows, seq_len, hidden_size)
    with torch.no_grad():
        for stop in float_walk(model, weights, device):
            before.append(states.hidden.clone())
            states.advance(stop.layer)
            meter.advance(stop.name, 1)
    candidates = Candidates(method, tuple(types))
    costs: dict[str, Costs] = {}
    gradient, costs[HEAD_PART] = _through_head(model, candidates, weights, states.hidden)
    for stop in float_walk(model, weights, device, backwards=True):
        information = _Information(stop.layer, stop.name, candidates)
        inputs = states.split(before.pop())
        gradients = [
            information.through(x, own, g)
            for x, own, g in zip(inputs, left, states.split(gradient), strict=True)
        ]
        gradient = torch.cat(gradients)
        costs.update(information.costs(tokens.numel()))
        meter.advance(stop.name, _WORK - 1)
    costs[EMBEDDING_PART] = _of_embedding(model, candidates, weights, tokens, gradient.cpu())
    if is_tied(model):
        both = zip(costs.pop(HEAD_PART), costs[EMBEDDING_PART], strict=True)
        costs[EMBEDDING_PART] = tuple(map(sum, both))
    return costs


def measuring_bytes(model: CausalLM, tokens: Tensor) -> int:
    """Estimates the memory that `measure_costs` takes, from shapes alone.

    Of a layer, the weights and as much information, and what its linears read and write, twice: of
    experts, those that a token is given to. Of the checkpoint, the head's pages, of two bytes a
    number.
    """
    count, together = tokens.numel(), min(len(tokens), _WINDOWS_TOGETHER) * tokens.shape[1]
    hidden = model.lm_head.in_features
    sizes = [2 * _numbers(layer) + 2 * together * _activations(layer) for layer in layers_of(model)]
    states = (len(sizes) + 3) * count * hidden
    head = _HEAD_ROWS * (2 * hidden + _HEAD_COPIES * count)
    return 4 * (max(sizes) + states + head) + 2 * hidden * model.lm_head.out_features + _SLACK


def _numbers(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def _activations(layer: nn.Module) -> int:
    """Numbers that the linears of a layer read and write for a token."""
    total = 0
    for part in parts_of_layer(layer):
        linears = part.linears[: _EXPERTS_OF_A_TOKEN * len(part.linears) // part.experts]
        shapes = [layer.get_parameter(f"{path}.weight").shape for path in linears]
        total += sum(map(sum, shapes))
    return total


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
                own = self._gradients.setdefault(
                    key, [torch.zeros_like(tensor) for tensor in leaves]
                )
                for total, leaf in zip(own, leaves, strict=True):
                    assert leaf.grad is not None
                    total += leaf.grad


class _Information:
    """What the text tells of a layer's weights: E[g^2 x^2] of each number, and so what rounding
    costs."""

    def __init__(self, layer: nn.Module, name: str, candidates: Candidates) -> None:
        self._layer = layer
        self._rotated = rotated_by(candidates.method)
        self._name = name
        self._candidates = candidates
        self._squares: dict[str, Tensor] = {}  # a linear's, summed over tokens
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
        costs = {}
        for part in self._parts:
            moved = [self._moved(path, tokens) for path in part.linears if path in self._squares]
            costs[f"{self._name}.{part.name}"] = self._candidates.costs(
                torch.stack(moved).sum(dim=0), self._compensation[part.name]
            )
        return costs

    def _add(
        self, name: str, group: Sequence[str], seen: Mapping[str, tuple[Tensor, Tensor]]
    ) -> None:
        """Adds the information of linears of a part that read one input."""
        inputs = self._rotated(seen[group[0]][0].flatten(0, -2))
        compensation = self._compensation[name]
        if compensation is not None:
            compensation.add(inputs)
        inputs = inputs.square()
        for path in group:
            gradient = seen[path][1].grad
            assert gradient is not None
            gradient = gradient.flatten(0, -2).square_()
            if path not in self._squares:
                self._squares[path] = inputs.new_zeros(gradient.shape[1], inputs.shape[1])
            self._squares[path].addmm_(gradient.T, inputs)

    def _moved(self, path: str, tokens: int) -> Tensor:
        weight = self._rotated(self._layer.get_parameter(f"{path}.weight").detach())
        return self._candidates.squares(weight, path, self._squares.pop(path).div_(tokens))


@torch.no_grad()
def _through_head(
    model: CausalLM, candidates: Candidates, weights: WeightSource, hidden: Tensor
) -> tuple[Tensor, Costs]:
    """Returns the gradient of log p(label) before the final norm, and the costs of the head.

    The head's errors e move the logits by e times the slope of `finish_logits`: KL is half the
    variance of that under p, to which an independent error in the row of a label adds p (1 - p).
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

    largest = torch.full_like(x[:, 0], -torch.inf)
    total = torch.zeros_like(largest)
    for rows in slices:
        logits, _ = _finished(model, F.linear(x, stored[rows].to(device).float()))
        top = torch.maximum(largest, logits.amax(dim=1))
        total = total * (largest - top).exp() + (logits - top[:, None]).exp().sum(dim=1)
        largest = top

    generator = torch.Generator().manual_seed(_SEED)
    drawn = torch.rand(len(x), generator=generator).to(device)  # how far into p the label lies
    passed = torch.zeros_like(largest)  # how much of p the rows so far have
    gradient = torch.zeros_like(x)  # of log p(label) in x: the label's row less the mean row
    compensation = candidates.compensation()
    if compensation is not None:
        compensation.add(x)
    squares = torch.zeros(len(candidates.types), dtype=torch.float64, device=device)
    squared = x.square().div_(len(x))
    for rows in slices:
        weight = stored[rows].to(device).float()
        logits, slope = _finished(model, F.linear(x, weight))
        p = (logits - largest[:, None]).exp_().div_(total[:, None])
        gradient.addmm_(p * slope, weight, alpha=-1)
        before, passed = passed, passed + p.sum(dim=1)
        is_last = rows is slices[-1]  # where the rest of p goes, which rounding may leave
        here = ((before <= drawn) & ((drawn < passed) | is_last)).nonzero()[:, 0]
        rises = before[here, None] + p[here].cumsum(dim=1)
        label = (rises <= drawn[here, None]).sum(dim=1).clamp_max_(len(weight) - 1)
        gradient.index_add_(0, here, weight[label] * slope[here, label].unsqueeze(1))
        moved = (p - p.square()).mul_(slope).mul_(slope)
        squares += candidates.squares(weight, HEAD, moved.T @ squared)
    with torch.enable_grad():
        normed.backward(gradient.view_as(normed))
    norm.to("meta")
    weights.release()
    assert hidden.grad is not None
    damp = head_damp_percent(is_tied(model))
    return hidden.grad, candidates.costs(squares, compensation, damp)


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
    candidates: Candidates,
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
        for change in candidates.rounded(rows, EMBEDDING)
    )
    weights.release()
    return squares
