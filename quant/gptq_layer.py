"""One decoder layer by GPTQ: each linear calibrated on what reaches it at run time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from quant.drift import residual_drift, residual_products
from quant.layer import Done, add_output, input_of, weight_of
from quant.modules import QuantizedWeight, set_weight
from quant.protocols import Rope
from quant.ranks import ALONE, Ranks
from quant.rounding import require_finite, round_int8
from quant.scheme import Scheme
from quant.solve import Statistics, aim, seen_by_linear, solve, statistics
from quant.speed import Speed, hessian_operations, update_operations
from quant.spill import IN_MEMORY, Spill
from quant.stream import Shards, Stream
from quant.weight_type import int4

_BLOCKS = (  # norm, block, the linears that read the norm's output, the one that ends the block
    ("input_layernorm", "self_attn", ("q_proj", "k_proj", "v_proj"), "o_proj"),
    ("post_attention_layernorm", "mlp", ("gate_proj", "up_proj"), "down_proj"),
)


@dataclass(frozen=True)
class Streams:
    """The calibration text's hidden states before a layer.

    Attributes:
        hidden: behind quantized layers.
        reference: behind float ones, for methods that follow them; else None.
        spill: where what a layer needs meanwhile is kept.
        ranks: who shares the work.
        speed: is told how fast it goes.
    """

    hidden: Stream
    reference: Stream | None
    spill: Spill = IN_MEMORY
    ranks: Ranks = ALONE
    speed: Speed = field(default_factory=Speed)

    def total(self, terms: Iterable[Tensor]) -> Tensor:
        """The sum of terms of all shards: see Ranks.sum."""
        return self.ranks.sum(terms, self.spill)

    def keep(self, make: Callable[[Tensor], Tensor], shards: Shards) -> Shards:
        """What is made of each tensor, kept."""
        return [self.spill.keep(map(make, shard)) for shard in shards]


def gptq_layer(
    layer: nn.Module, scheme: Scheme, name: str, rope: Rope, streams: Streams, done: Done
) -> None:
    """Quantizes a layer, one linear after the other, and takes the streams through it in place."""
    for norm_name, block_name, readers, last in _BLOCKS:
        norm, block = layer.get_submodule(norm_name), layer.get_submodule(block_name)
        context = (rope,) if block_name == "self_attn" else ()
        place = _Place(block, scheme, f"{name}.{block_name}", streams, done)
        inputs = streams.keep(norm, streams.hidden.shards)
        normed = None
        if streams.reference is not None:
            normed = [map(norm, shard) for shard in streams.reference.shards]
        given = place.statistics(readers[0], inputs, normed)
        reached = None
        if streams.reference is not None:  # goes through the block while that is float
            reached = _follow(streams, scheme, norm, block, last, context)
        for reader in readers:
            place.quantize(reader, given, None)
        del given

        inputs = streams.keep(partial(_reach, block, last, context), inputs)
        given = place.statistics(last, inputs, reached)
        del reached
        place.quantize(last, given, place.residual(last, inputs, given))
        del given
        add_output(block, last, inputs, streams.hidden)


def _reach(block: nn.Module, linear: str, context: tuple[Rope, ...], x: Tensor) -> Tensor:
    """What a linear is given when its block is given x."""
    return input_of(block, linear, x, *context)


def _follow(
    streams: Streams,
    scheme: Scheme,
    norm: nn.Module,
    block: nn.Module,
    last: str,
    context: tuple[Rope, ...],
) -> Shards | None:
    """Takes the float stream through a float block; returns what reaches its last linear, where
    the method needs that."""
    assert streams.reference is not None
    linear, kept = block.get_submodule(last), []
    for shard in streams.reference.shards:
        reached = streams.spill.keep(())
        for index, x in enumerate(shard):
            given = _reach(block, last, context, norm(x))
            shard[index] = x + linear(given)
            if scheme.choice.drift != "residual":
                reached.append(given)
        kept.append(reached)
    return None if scheme.choice.drift == "residual" else kept


@dataclass(frozen=True)
class _Place:
    """A block whose linears are quantized; `prefix` is its name."""

    block: nn.Module
    scheme: Scheme
    prefix: str
    streams: Streams
    done: Done

    def statistics(
        self, linear: str, inputs: Shards, reference: Sequence[Iterable[Tensor]] | None
    ) -> Statistics:
        """Of what a linear is given."""
        weight = weight_of(self.block, linear)
        in_features, device = weight.shape[1], weight.device
        columns = in_features + -in_features % self.scheme.group_size
        total = self.streams.total
        tokens = self.streams.hidden.tokens
        method, operations = self.scheme.choice, hessian_operations(tokens, columns)
        with self.streams.speed.timed("hessian", operations, device):
            return statistics(inputs, reference, tokens, columns, method, total, device)

    def residual(self, linear: str, inputs: Shards, given: Statistics) -> Tensor | None:
        """The correlation C of the residual stream's drift, where the method goes by it."""
        reference, method = self.streams.reference, self.scheme.choice
        if reference is None or method.drift != "residual":
            return None
        weight = self._padded_weight(linear, given)
        bias = getattr(self.block.get_submodule(linear), "bias", None)
        seen = seen_by_linear(method)

        def pairs(shard: int) -> Iterator[tuple[Tensor, Tensor]]:
            """What the linear should add, bias aside, for the streams to meet; and its inputs."""
            hidden = self.streams.hidden.shards[shard]
            for wanted, x, given in zip(
                reference.shards[shard], hidden, inputs[shard], strict=True
            ):
                yield wanted - x if bias is None else wanted - x - bias, seen(given)

        products = self.streams.total(
            residual_products(pairs(shard), weight) for shard in range(len(inputs))
        )
        return residual_drift(products, self.streams.hidden.tokens, weight, given.hessian)

    def quantize(self, linear: str, given: Statistics, correlation: Tensor | None) -> None:
        name = f"{self.prefix}.{linear}"
        require_finite(weight_of(self.block, linear), name)
        weight, method = self._padded_weight(linear, given), self.scheme.choice
        rows, columns = weight_of(self.block, linear).shape
        if self.scheme.bits_of(name) == 8:
            target = aim(weight, method, given, correlation)
            quantized = round_int8(target[:, :columns], name)
        else:
            moved = correlation is not None or given.drift is not None
            operations = update_operations(weight.shape[0], weight.shape[1], method, moved)
            with self.streams.speed.timed("update", operations, weight.device):
                values, scales = solve(
                    weight, self.scheme.group_size, method, given, correlation, self.streams.ranks
                )
            quantized = QuantizedWeight(values, scales.product(), int4(self.scheme.group_size))
        set_weight(self.block, linear, quantized)
        self.done(name, rows * columns)

    def _padded_weight(self, linear: str, given: Statistics) -> Tensor:
        weight = weight_of(self.block, linear)
        padding = len(given.hessian) - weight.shape[1]
        return F.pad(weight, (0, padding)) if padding else weight
