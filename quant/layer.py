"""One decoder layer: its linears by name, its hidden states, round to nearest."""

from collections.abc import Callable

from torch import Tensor, nn

from quant.modules import set_weight
from quant.rounding import round_int4, round_int8
from quant.scheme import Scheme
from quant.stream import Shards, Stream

ATTENTION_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_LINEARS = ("gate_proj", "up_proj", "down_proj")

Done = Callable[[str, int], None]  # a weight's name, how many numbers it has


def round_layer(layer: nn.Module, scheme: Scheme, name: str, done: Done) -> None:
    """Rounds every linear of a layer to nearest; `name` is the layer's, for messages."""
    for block, linears in (("self_attn", ATTENTION_LINEARS), ("mlp", MLP_LINEARS)):
        parent = layer.get_submodule(block)
        for linear in linears:
            full_name = f"{name}.{block}.{linear}"
            weight = weight_of(parent, linear)
            if scheme.bits_of(full_name) == 4:
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


def add_output(block: nn.Module, linear: str, inputs: Shards, hidden: Stream) -> None:
    """Adds a block's last linear, of its inputs, to the residual stream."""
    module = block.get_submodule(linear)
    for shard, given in zip(hidden.shards, inputs, strict=True):
        for index, x in enumerate(given):
            shard[index] = shard[index] + module(x)
