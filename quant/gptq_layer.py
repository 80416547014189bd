"""One decoder layer by GPTQ: each linear calibrated on what reaches it at run time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from quant.drift import residual_drift
from quant.layer import Done, add_output, advance, batches, input_of, weight_of
from quant.modules import QuantizedWeight, set_weight
from quant.protocols import Rope
from quant.rounding import require_finite
from quant.scheme import Scheme
from quant.solve import Statistics, seen_by_linear, solve, statistics

_BLOCKS = (  # norm, block, the linears that read the norm's output, the one that ends the block
    ("input_layernorm", "self_attn", ("q_proj", "k_proj", "v_proj"), "o_proj"),
    ("post_attention_layernorm", "mlp", ("gate_proj", "up_proj"), "down_proj"),
)


@dataclass(frozen=True)
class Streams:
    """The calibration text's hidden states before a layer, (windows, seq_len, hidden_size) each.

    Attributes:
        hidden: behind quantized layers.
        reference: behind float ones, for methods that follow them; else None.
    """

    hidden: Tensor
    reference: Tensor | None

    def advance_float(self, layer: nn.Module, rope: Callable[[int], Rope]) -> None:
        """Takes the float stream through a layer that is float."""
        if self.reference is not None:
            advance(layer, rope(self.reference.shape[1]), self.reference)

    def advance_quantized(self, layer: nn.Module, rope: Callable[[int], Rope]) -> None:
        """Takes the other through a layer that is quantized."""
        advance(layer, rope(self.hidden.shape[1]), self.hidden)


def gptq_layer(
    layer: nn.Module, scheme: Scheme, name: str, rope: Rope, streams: Streams, done: Done
) -> None:
    """Quantizes a layer, one linear after the other, and takes the streams through it in place."""
    method = scheme.choice
    for norm_name, block_name, readers, last in _BLOCKS:
        norm, block = layer.get_submodule(norm_name), layer.get_submodule(block_name)
        context = (rope,) if block_name == "self_attn" else ()
        prefix = f"{name}.{block_name}"
        hidden, reference = streams.hidden, streams.reference
        inputs = [norm(x) for x in batches(hidden)]
        columns = _padded(inputs, scheme)
        normed = None if reference is None else (norm(x) for x in batches(reference))
        given = statistics(inputs, normed, columns, method)

        kept: list[Tensor] = []  # what reaches `last` in the float stream, where it is needed
        if reference is not None:  # goes through the block while that is float
            linear = block.get_submodule(last)
            for x in batches(reference):
                reached = input_of(block, last, norm(x), *context)
                x.add_(linear(reached))
                if method.drift != "residual":
                    kept.append(reached)
        for reader in readers:
            _quantize(block, reader, scheme, given, None, prefix, done)
        del given

        inputs = [input_of(block, last, x, *context) for x in inputs]
        given = statistics(inputs, kept or None, _padded(inputs, scheme), method)
        del kept
        correlation = None
        if reference is not None and method.drift == "residual":
            wanted = _wanted_outputs(block, last, hidden, reference)
            seen = map(seen_by_linear(method), inputs)
            weight = _padded_weight(block, last, given)
            correlation = residual_drift(zip(wanted, seen, strict=True), weight, given.hessian)
        _quantize(block, last, scheme, given, correlation, prefix, done)
        del given, correlation
        add_output(block, last, inputs, hidden)


def _quantize(
    block: nn.Module,
    linear: str,
    scheme: Scheme,
    given: Statistics,
    correlation: Tensor | None,
    prefix: str,
    done: Done,
) -> None:
    name = f"{prefix}.{linear}"
    require_finite(weight_of(block, linear), name)
    weight = _padded_weight(block, linear, given)
    if given.drift is not None:
        correlation = weight @ given.drift
    values, scales = solve(weight, scheme.group_size, scheme.choice, given, correlation)
    count = weight_of(block, linear).numel()
    set_weight(block, linear, QuantizedWeight(values, scales.product(), bits=4))
    done(name, count)


def _wanted_outputs(
    block: nn.Module, linear: str, hidden: Tensor, reference: Tensor
) -> Iterable[Tensor]:
    """What the block's last linear should add, bias aside, for the streams to meet."""
    bias = getattr(block.get_submodule(linear), "bias", None)
    for x, float_x in zip(batches(hidden), batches(reference), strict=True):
        yield float_x - x if bias is None else float_x - x - bias


def _padded(inputs: Sequence[Tensor], scheme: Scheme) -> int:
    """Columns of a weight that reads these inputs, in whole groups."""
    in_features = inputs[0].shape[-1]
    return in_features + -in_features % scheme.group_size


def _padded_weight(block: nn.Module, linear: str, given: Statistics) -> Tensor:
    weight = weight_of(block, linear)
    padding = len(given.hessian) - weight.shape[1]
    return F.pad(weight, (0, padding)) if padding else weight
