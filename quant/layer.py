"""One decoder layer, from float weights to quantized ones."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from quant.gptq import accumulate_hessian, gptq, inverse_factor
from quant.modules import QuantizedWeight, set_weight
from quant.protocols import Rope
from quant.rounding import require_finite, round_int4, round_int8, search_scales
from quant.scheme import Scheme

ATTENTION_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_LINEARS = ("gate_proj", "up_proj", "down_proj")
STREAM_TOKENS = 2048  # that go through a layer together

Done = Callable[[str, int], None]  # a weight's name, how many numbers it has


def batches(hidden: Tensor) -> tuple[Tensor, ...]:
    """Views of hidden states (windows, seq_len, hidden_size), some windows each."""
    return hidden.split(max(1, STREAM_TOKENS // hidden.shape[1]))


def advance(layer: nn.Module, rope: Rope, hidden: Tensor) -> None:
    """Takes hidden states (windows, seq_len, hidden_size) through a layer, in place."""
    for x in batches(hidden):
        x.copy_(layer(x, rope))


def round_layer(layer: nn.Module, scheme: Scheme, name: str, done: Done) -> None:
    """Rounds every linear of a layer to nearest; `name` is the layer's, for messages."""
    for block, linears in (("self_attn", ATTENTION_LINEARS), ("mlp", MLP_LINEARS)):
        parent = layer.get_submodule(block)
        for linear in linears:
            full_name = f"{name}.{block}.{linear}"
            weight = _weight(parent, linear)
            if scheme.bits == 4:
                quantized = round_int4(weight, scheme.group_size, full_name)
            else:
                quantized = round_int8(weight, full_name)
            set_weight(parent, linear, quantized)
            done(full_name, weight.numel())


def gptq_layer(
    layer: nn.Module, scheme: Scheme, name: str, rope: Rope, hidden: Tensor, done: Done
) -> None:
    """Quantizes a layer with GPTQ, one linear after the other.

    Each is calibrated on what reaches it through the parts quantized before it. `hidden`
    (windows, seq_len, hidden_size), the calibration text before this layer, is taken through it
    in place.
    """
    attention, mlp = layer.get_submodule("self_attn"), layer.get_submodule("mlp")
    norm = layer.get_submodule("input_layernorm")
    prefix = f"{name}.self_attn"
    inputs = [norm(x) for x in batches(hidden)]
    _gptq_linears(attention, ("q_proj", "k_proj", "v_proj"), scheme, prefix, inputs, done)
    inputs = [_input_of(attention, "o_proj", x, rope) for x in inputs]
    _gptq_linears(attention, ("o_proj",), scheme, prefix, inputs, done)
    _add_output(attention, "o_proj", inputs, hidden)

    norm = layer.get_submodule("post_attention_layernorm")
    prefix = f"{name}.mlp"
    inputs = [norm(x) for x in batches(hidden)]
    _gptq_linears(mlp, ("gate_proj", "up_proj"), scheme, prefix, inputs, done)
    inputs = [_input_of(mlp, "down_proj", x) for x in inputs]
    _gptq_linears(mlp, ("down_proj",), scheme, prefix, inputs, done)
    _add_output(mlp, "down_proj", inputs, hidden)


def _gptq_linears(
    parent: nn.Module,
    linears: Sequence[str],
    scheme: Scheme,
    prefix: str,
    inputs: Sequence[Tensor],
    done: Done,
) -> None:
    """Quantizes the linears of `parent` that all read `inputs`: they share a Hessian."""
    in_features = inputs[0].shape[-1]
    padding = -in_features % scheme.group_size
    hessian = accumulate_hessian(inputs, in_features + padding)
    factor = inverse_factor(hessian)
    importance = hessian.diagonal().contiguous()  # strided, it costs ten times the search
    for linear in linears:
        weight = _weight(parent, linear)
        name = f"{prefix}.{linear}"
        require_finite(weight, name)
        padded = F.pad(weight, (0, padding)) if padding else weight
        scales = search_scales(padded, scheme.group_size, importance)
        values = gptq(padded, scales, factor)
        set_weight(parent, linear, QuantizedWeight(values, scales.product(), bits=4))
        done(name, weight.numel())


def _weight(parent: nn.Module, linear: str) -> Tensor:
    return parent.get_parameter(f"{linear}.weight")


def _input_of(block: nn.Module, linear: str, *args: object) -> Tensor:
    """Runs a block until it calls one of its linears, and returns what that one is given."""

    def reach(module: nn.Module, inputs: tuple[Tensor]) -> None:
        raise _Reached(inputs[0])

    hook = block.get_submodule(linear).register_forward_pre_hook(reach)
    try:
        block(*args)
    except _Reached as reached:
        return reached.input
    finally:
        hook.remove()
    raise RuntimeError(f"the block never calls its {linear}")


class _Reached(Exception):
    """Carries the input of the linear at which a block was stopped."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.input = x


def _add_output(block: nn.Module, linear: str, inputs: Sequence[Tensor], hidden: Tensor) -> None:
    """Adds a block's last linear, of its inputs, to the residual stream, in place."""
    module = block.get_submodule(linear)
    for x, given in zip(batches(hidden), inputs, strict=True):
        x.add_(module(given))
