"""What rounding each part of a model costs, in KL, measured before anything is quantized.

To second order in the errors e that rounding leaves in the outputs of a part, a model's next-token
distribution p moves by

    KL(p || p') = 1/2 E[(g . e)^2],  g = d log p(label) / d output,  label drawn from p

(the Fisher information is the Hessian of KL; Amari, 1998). A part's g comes from one pass forward
and one backward over calibration text, with labels drawn from the model itself; its e is the text's
own inputs times what rounding to nearest changes in the weight. Errors of different parts and
positions are taken as independent, so that what they cost adds up. GPTQ leaves less: when a column
is rounded, those behind it make up for what they can, and of H_ii, what an error costs, 1 / U_ii^2
is left (quant.gptq); so the cost of a weight that it rounds is multiplied by the ratio of their
sums. The layers are read one at a time, once forward, once backward; of the head, a slice of the
vocabulary at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.device import HOST, move, rope_on
from quant.ends import EMBEDDING, HEAD, embed_float, is_tied
from quant.gptq import inverse_factor
from quant.head_inputs import head_damp_percent
from quant.load import load_finite
from quant.modules import QuantizedWeight
from quant.protocols import CausalLM, Rope, WeightSource
from quant.rounding import round_int4, round_int8
from quant.scheme import EMBEDDING_PART, HEAD_PART, PARTS, Scheme

_WINDOWS_TOGETHER = 4
_HEAD_ROWS = 2048
_BLOCK = 768  # columns, of thousands of tokens
_SEED = 0


@dataclass(frozen=True)
class Cost:
    """KL in nats a token, of a part stored in 4 bits and in 8."""

    at4: float
    at8: float


def measure_costs(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    tokens: Tensor,
    device: torch.device = HOST,
) -> Mapping[str, Cost]:
    """What each part costs, by the names of quant.scheme; of tied ends, both under the embedding's.

    Args:
        model: on the meta device, where it is left.
        scheme: for the group size and the scales of 4 bits.
        tokens: int64 (windows, seq_len).
        device: what computes.
    """
    layers = list(model.model.get_submodule("layers").children())
    rope = rope_on(device, model, tokens.shape[1])
    stream = embed_float(weights, tokens).to(device)
    before = []  # hidden states in front of each layer: (windows, seq_len, hidden_size)
    for index, layer in enumerate(layers):
        before.append(stream)
        load_finite(weights, layer, f"model.layers.{index}.")
        move(layer, device)
        with torch.no_grad():
            stream = torch.cat([layer(x, rope) for x in stream.split(_WINDOWS_TOGETHER)])
        _forget(layer, weights)
    costs: dict[str, Cost] = {}
    gradient, costs[HEAD_PART] = _through_head(model, scheme, weights, stream)
    for index in reversed(range(len(layers))):
        name = f"model.layers.{index}"
        weights.load_into(layers[index], f"{name}.")
        move(layers[index], device)
        errors = _Errors(layers[index], name, scheme)
        inputs = before.pop().split(_WINDOWS_TOGETHER)
        gradients = [
            errors.through(x, rope, g)
            for x, g in zip(inputs, gradient.split(_WINDOWS_TOGETHER), strict=True)
        ]
        gradient = torch.cat(gradients)
        costs.update(errors.costs(tokens.numel()))
        _forget(layers[index], weights)
    costs[EMBEDDING_PART] = _of_embedding(scheme, weights, tokens, gradient.cpu())
    if is_tied(model):
        head, embedding = costs.pop(HEAD_PART), costs[EMBEDDING_PART]
        costs[EMBEDDING_PART] = Cost(head.at4 + embedding.at4, head.at8 + embedding.at8)
    return costs


def _forget(layer: nn.Module, weights: WeightSource) -> None:
    layer.to("meta")
    weights.release()


class _Errors:
    """A layer's parts: what rounding changes in their weights, and what that has cost so far."""

    def __init__(self, layer: nn.Module, name: str, scheme: Scheme) -> None:
        self._layer = layer
        self._name = name
        self._scheme = scheme
        self._changes: dict[str, tuple[Tensor, Tensor]] = {}  # a linear's, at 4 and at 8 bits
        self._squares: dict[str, Tensor] = {}  # a part's (2,), summed over tokens
        self._made_up = {part: _MadeUp() for part in PARTS}

    def through(self, x: Tensor, rope: Rope, gradient: Tensor) -> Tensor:
        """Takes some windows through the layer and their gradient back; returns the one before."""
        seen: dict[str, tuple[Tensor, Tensor]] = {}  # a linear's input and output

        def keep(path: str) -> object:
            def hook(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
                output.retain_grad()
                seen[path] = (inputs[0].detach(), output)

            return hook

        linears = [f"{part.partition('.')[0]}.{linear}" for part in PARTS for linear in PARTS[part]]
        hooks = [
            self._layer.get_submodule(path).register_forward_hook(keep(path))  # type: ignore[arg-type]
            for path in linears
        ]
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            self._layer(x, rope).backward(gradient)
        for hook in hooks:
            hook.remove()
        for part, names in PARTS.items():
            block = part.partition(".")[0]
            moved = sum(self._moved(f"{block}.{name}", *seen[f"{block}.{name}"]) for name in names)
            assert isinstance(moved, Tensor)
            squares = moved.square().sum(dim=(1, 2))
            self._squares[part] = self._squares.get(part, torch.zeros_like(squares)) + squares
            if self._scheme.choice.rounding == "gptq":
                self._made_up[part].add(seen[f"{block}.{names[0]}"][0].flatten(0, -2))
        assert x.grad is not None
        return x.grad

    def costs(self, tokens: int) -> dict[str, Cost]:
        """Each part's, by its full name."""
        costs = {}
        for part, squares in self._squares.items():
            at4, at8 = (squares / (2 * tokens)).tolist()
            costs[f"{self._name}.{part}"] = Cost(at4 * self._made_up[part].share_left(), at8)
        return costs

    def _moved(self, path: str, inputs: Tensor, output: Tensor) -> Tensor:
        """g . e of each token, at 4 and at 8 bits: float32 (2, windows, seq_len)."""
        assert output.grad is not None
        if path not in self._changes:
            weight = self._layer.get_parameter(f"{path}.weight").detach()
            squares = inputs.flatten(0, -2).square().mean(dim=0)
            self._changes[path] = _changes(weight, self._scheme, path, squares)
        gradient = output.grad
        return torch.stack(
            [(F.linear(inputs, change) * gradient).sum(dim=-1) for change in self._changes[path]]
        )


class _MadeUp:
    """How much of the error of rounding GPTQ leaves, by a weight's inputs.

    The Hessian is taken in blocks on its diagonal, of so few columns that the tokens determine it.
    """

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []

    def add(self, inputs: Tensor) -> None:
        """Takes inputs (tokens, columns)."""
        columns = inputs.shape[1]
        width = min(columns, _BLOCK)
        parts = inputs.split(width, dim=1)
        if not self._blocks:
            self._blocks = [part.new_zeros(part.shape[1], part.shape[1]) for part in parts]
        for block, part in zip(self._blocks, parts, strict=True):
            block.addmm_(part.T, part)

    def share_left(self, damp_percent: float = 1.0) -> float:
        """From 0 to 1; 1 where no inputs were given."""
        left = whole = 0.0
        for block in self._blocks:
            factor = inverse_factor(block, damp_percent)
            left += factor.mean * factor.upper.diagonal().square().reciprocal().sum().item()
            whole += block.diagonal().sum().item()
        return min(left / whole, 1.0) if whole else 1.0


def _changes(
    weight: Tensor, scheme: Scheme, name: str, importance: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What rounding to 4 and to 8 bits changes in a weight (rows, columns)."""
    columns = weight.shape[1]
    if importance is not None:
        importance = F.pad(importance, (0, -columns % scheme.group_size))
    four = round_int4(weight, scheme.group_size, name, scheme.choice, importance)
    return _change(four, weight), _change(round_int8(weight, name), weight)


def _change(rounded: QuantizedWeight, weight: Tensor) -> Tensor:
    return rounded.dequantize()[:, : weight.shape[1]] - weight


@torch.no_grad()
def _through_head(
    model: CausalLM, scheme: Scheme, weights: WeightSource, hidden: Tensor
) -> tuple[Tensor, Cost]:
    """The gradient of log p(label) in front of the final norm, and what the head costs.

    The head's errors e move the logits themselves: KL is half the variance of e under p.
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
    drawn = torch.zeros_like(x)  # the label's row of the head
    for rows in slices:
        weight = stored[rows].to(device).float()
        logits = F.linear(x, weight)
        top = torch.maximum(largest, logits.amax(dim=1))
        total = total * (largest - top).exp() + (logits - top[:, None]).exp().sum(dim=1)
        largest = top
        noise = torch.empty(logits.shape).exponential_(generator=generator).log_()
        race, index = (logits - noise.to(device)).max(dim=1)  # Gumbel's: the first is drawn from p
        ahead = race > best
        best = torch.where(ahead, race, best)
        drawn[ahead] = weight[index[ahead]]

    gradient = drawn  # of log p(label) in x: the label's row less the mean row
    made_up = _MadeUp()
    if scheme.choice.rounding == "gptq":
        made_up.add(x)
    moments = x.new_zeros(2, 2, len(x))  # of e and e^2 under p, at 4 and at 8 bits
    for rows in slices:
        weight = stored[rows].to(device).float()
        p = (F.linear(x, weight) - largest[:, None]).exp_() / total[:, None]
        gradient -= p @ weight
        for which, change in enumerate(_changes(weight, scheme, HEAD, None)):
            error = F.linear(x, change)
            moments[which, 0] += (p * error).sum(dim=1)
            moments[which, 1] += (p * error.square_()).sum(dim=1)
    variance = moments[:, 1] - moments[:, 0].square()
    with torch.enable_grad():
        normed.backward(gradient.view_as(normed))
    weights.release()
    assert hidden.grad is not None
    at4, at8 = (variance.mean(dim=1) / 2).tolist()
    share = made_up.share_left(head_damp_percent(is_tied(model)))
    return hidden.grad, Cost(at4 * share, at8)


def _of_embedding(scheme: Scheme, weights: WeightSource, tokens: Tensor, gradient: Tensor) -> Cost:
    """What the embedding of these tokens costs; `gradient` is of log p(label) in it."""
    ids, places = tokens.flatten().unique(return_inverse=True)
    rows = weights.tensor(EMBEDDING)[ids].float()
    gradient = gradient.flatten(0, 1)
    squares = [
        (change[places] * gradient).sum(dim=1).square().mean().item() / 2
        for change in _changes(rows, scheme, EMBEDDING, None)
    ]
    weights.release()
    return Cost(*squares)
