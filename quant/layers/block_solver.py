"""Where GPTQ works: a block, the text's hidden states in front of it, and what is done with one of
its linears."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from torch import Tensor

from quant.layers.blocks import LayerBlock, quantize_linear, weight_of
from quant.layers.embedding_and_head import embed_float
from quant.layers.nearest import Done
from quant.layers.stream import Shards, Stream, contexts_on
from quant.machine.products import exact_products
from quant.machine.ranks import ALONE, Ranks
from quant.machine.resources import Resources
from quant.machine.speed import Speed, hessian_operations, update_operations
from quant.machine.spill import IN_MEMORY, Spill
from quant.operators import input_group
from quant.protocols import CausalLM, Part, WeightSource
from quant.rounding.activations import RuntimeInputs
from quant.rounding.drift import residual_products
from quant.rounding.nearest import require_finite, round_int8
from quant.rounding.solve import (
    Statistics,
    padded_as,
    rotated_by,
    rounded_by,
    runtime_inputs_of,
    solve,
    statistics,
    target_weight,
)
from quant.scheme import Scheme
from quant.weight_type import WeightType


@dataclass(frozen=True)
class Streams:
    """The calibration text's hidden states before a layer.

    Attributes:
        hidden: after quantized layers.
        reference: after float ones, for methods that need them; else None.
        spill: where a layer's temporary tensors are kept.
        ranks: the processes that share the work.
        speed: records how fast it goes.
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
        """Applies `make` to each tensor, and keeps the results."""
        return [self.spill.keep(map(make, shard)) for shard in shards]


def calibration_streams(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor,
    resources: Resources,
) -> Streams:
    """The calibration text's hidden states before the first layer."""
    spill, ranks, device = resources.spill, resources.ranks, resources.device
    seq_len, reference = calibration.shape[1], None
    if scheme.choice.follows_float:
        embed = partial(embed_float, model, weights)
        contexts = contexts_on(device, model, seq_len, weights)
        reference = Stream(calibration, embed, contexts, spill, ranks, device)
    contexts = contexts_on(device, model, seq_len)
    hidden = Stream(calibration, model.embed, contexts, spill, ranks, device)
    return Streams(hidden, reference, spill, ranks, resources.speed)


@dataclass(frozen=True)
class BlockSolver:
    """A block whose linears are quantized; `name` is its layer's."""

    block: LayerBlock
    scheme: Scheme
    name: str
    streams: Streams
    done: Done

    @property
    def aims_at_residual(self) -> bool:
        """Whether the last linear should correct the drift of the residual stream. If a norm, which
        is not linear, follows it or the sum, its outputs should stay the same instead; so should
        they if a number multiplies the stream behind it."""
        described = self.block.block
        behind = described.after, described.times, described.sum_norm
        unchanged = behind == (None, None, None)
        return self.scheme.choice.follows_residual and unchanged

    def follow(self) -> Shards | None:
        """Runs the float stream through the float block; returns the inputs of its last linear, if
        they are needed."""
        if self.streams.reference is None:
            return None
        kept = []
        stream = self.streams.reference
        for shard, contexts in zip(stream.shards, stream.contexts, strict=True):
            reached = self.streams.spill.keep(())
            for index, (x, context) in enumerate(zip(shard, contexts, strict=True)):
                outputs = self.block.reach(self.block.normed(x), context)
                shard[index] = self.block.add(x, outputs)
                if not self.aims_at_residual:
                    reached.append(outputs)
            kept.append(reached)
        return None if self.aims_at_residual else kept

    def kept(self, x: Tensor) -> Tensor:
        """Returns the last linear's input as it is kept: rotated and rounded once for all that use
        it, if its weight sees nothing else."""
        method, last = self.scheme.choice, self.block.block.last
        type = self.scheme.type_of(f"{self.name}.{last.name}")
        assert type is not None
        whole_tokens = input_group(type.group_size, type.levels) == 0
        if not method.int8_statistics or not whole_tokens:
            return x
        return rounded_by(method)(x).packed()

    def statistics(
        self,
        linears: Sequence[str],
        inputs: Shards,
        reference: Sequence[Iterable[Tensor]] | None,
        tokens: int | None = None,
    ) -> Statistics:
        """Returns the statistics of the inputs that linears have in common.

        Args:
            tokens: how many inputs the ranks have together; None: one for each of the text.
        """
        weights = [weight_of(self.block.layer, linear) for linear in linears]
        in_features, device = weights[0].shape[1], weights[0].device
        rows = sum(map(len, weights))
        columns = in_features + -in_features % self.scheme.largest_group
        total = self.streams.total
        tokens = self.streams.hidden.tokens if tokens is None else tokens
        method, operations = self.scheme.choice, hessian_operations(tokens, columns)
        with self.streams.speed.timed("hessian", operations, device):
            return statistics(inputs, reference, tokens, rows, columns, method, total, device)

    def wanted(self, inputs: Shards, statistics: Statistics) -> Tensor | None:
        """Returns B of the residual stream, as `residual_products`, if the method uses it."""
        reference, method = self.streams.reference, self.scheme.choice
        if reference is None or not self.aims_at_residual:
            return None
        linear = self.block.block.end
        rotated = rotated_by(method)(weight_of(self.block.layer, linear))
        weight = padded_as(rotated, statistics)
        bias = getattr(self.block.layer.get_submodule(linear), "bias", None)
        inputs_of = runtime_inputs_of(method)

        def pairs(shard: int) -> Iterator[tuple[Tensor, RuntimeInputs]]:
            """What the linear should add, without its bias, to make the streams equal; its
            inputs."""
            hidden = self.streams.hidden.shards[shard]
            for target, x, shard_inputs in zip(
                reference.shards[shard], hidden, inputs[shard], strict=True
            ):
                added = self.block.after(target) - self.block.before(x)
                yield added if bias is None else added - bias, inputs_of(shard_inputs)

        products = self.streams.total(
            residual_products(pairs(shard), weight, method.drift == "shrunk")
            for shard in range(len(inputs))
        )
        return products.mul_(2 / max(self.streams.hidden.tokens, 1))

    def quantize(self, part: Part, statistics: Statistics, wanted: Tensor | None) -> None:
        """Quantizes the linears of a part, which share their input."""
        type = self.scheme.type_of(f"{self.name}.{part.name}")
        assert type is not None
        for linear in part.linears:
            self._quantize(linear, type, statistics, wanted)

    @exact_products()
    def _quantize(
        self, linear: str, type: WeightType, statistics: Statistics, wanted: Tensor | None
    ) -> None:
        name, weight = f"{self.name}.{linear}", weight_of(self.block.layer, linear)
        require_finite(weight, name)
        (rows, columns), method = weight.shape, self.scheme.choice
        weight = rotated_by(method)(weight)
        if type.in_groups:
            moved = wanted is not None or statistics.has_drift
            operations = update_operations(rows, len(statistics.hessian), method, moved)
            with self.streams.speed.timed("update", operations, weight.device):
                quantized = solve(weight, type, method, statistics, wanted, self.streams.ranks)
        else:
            target = target_weight(padded_as(weight, statistics), method, statistics, wanted)
            quantized = round_int8(target[:, :columns], name)
        quantized = replace(quantized, rotated=method.rotated(columns))
        quantize_linear(self.block.layer, linear, quantized)
        self.done(name, rows * columns)
