"""One decoder layer: its linears by name, its hidden states, round to nearest."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from quant.modules import set_weight
from quant.protocols import Rope
from quant.rounding import round_int4, round_int8
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
            weight = weight_of(parent, linear)
            if scheme.bits == 4:
                quantized = round_int4(weight, scheme.group_size, full_name, scheme.choice)
            else:
                quantized = round_int8(weight, full_name)
            set_weight(parent, linear, quantized)
            done(full_name, weight.numel())


def weight_of(parent: nn.Module, linear: str) -> Tensor:
    """The weight (rows, columns) of the linear of that name."""
    return parent.get_parameter(f"{linear}.weight")


def input_of(block: nn.Module, linear: str, *args: object) -> Tensor:
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


def add_output(block: nn.Module, linear: str, inputs: Sequence[Tensor], hidden: Tensor) -> None:
    """Adds a block's last linear, of its inputs, to the residual stream, in place."""
    module = block.get_submodule(linear)
    for x, given in zip(batches(hidden), inputs, strict=True):
        x.add_(module(given))
