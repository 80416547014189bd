"""Three runs of one text side by side: the float model, the quantized model, the program."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from devtools.compare.figures import Distance, distance, median
from devtools.compare.graph_values import LoggedRows, Sink, positions
from devtools.compare.recording import Recorder
from devtools.compare.routing import LayerRouting
from devtools.profile.profile_types import Line

PREFILL, DECODE = "prefill", "decode"  # of a text
CALL = "call"  # of a module

# What rounding explains of one decoder layer, as Distance.relative. Program and model read the same
# input there, and round activations to int8: where the order of a few float32 additions, or a cache
# of float16, carries a number over the edge between two integers, it moves by a step, 1/255 of its
# token's range. That comes to 0.01 after the four roundings of a layer. A wrong zero point, scale
# or mask moves a line by 0.15 and more. Without rounding, 1e-3 is far more than float32 needs.
QUANTIZED_TOLERANCE = 0.03
FLOAT_TOLERANCE = 1e-3
# Weights of one method lose about the same in every line. One that loses many times as much is not
# a rounding of the right weights.
OUTLIER = 4.0
_LEAST_OUTLIER = 1e-5  # what float32 weights may differ by

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Calls:
    """How the program was run.

    Attributes:
        starts, lengths: the first position and the number of tokens of each call.
        prefill: how many of the calls, the first ones, count as prefill.
    """

    starts: Sequence[int]
    lengths: Sequence[int]
    prefill: int = 1

    def phase(self, call: int) -> str:
        return PREFILL if call < self.prefill else DECODE


@dataclass(frozen=True)
class Weights:
    """The effect of quantized weights alone: compared with float ones on the float model's input.

    Attributes:
        module_path, line: the module that has them, and where the model calls it.
    """

    module_path: str
    line: Line
    distance: Distance


@dataclass(frozen=True)
class Row:
    """One line of one decoder layer.

    Attributes:
        sink: what is compared.
        program: program compared with quantized model if both read the same input of the layer,
            the program's own; by phase.
        program_so_far: the same if each computes on its own from the tokens on.
        quantized_so_far: quantized model compared with float model, likewise.
        weights: of the line's operator, those that lose most; None if it has none.
    """

    sink: Sink
    program: Mapping[str, Distance]
    program_so_far: Distance
    quantized_so_far: Distance
    weights: Weights | None

    @property
    def layer(self) -> int | None:
        match = _LAYER.search(self.sink.place.module_path)
        return int(match.group(1)) if match else None

    @property
    def program_error(self) -> float:
        return max(item.relative for item in self.program.values())


@dataclass
class Comparison:
    """
    Attributes:
        rows: in the order in which the program computes them.
        unmatched: sinks that the model has no value for.
        routing: of each mixture of experts whose scores the program shows.
    """

    rows: list[Row] = field(default_factory=list)
    unmatched: list[Sink] = field(default_factory=list)
    routing: list[LayerRouting] = field(default_factory=list)

    def first_wrong(self, tolerance: float) -> Row | None:
        """The first line whose difference rounding does not explain."""
        return next((row for row in self.rows if not row.program_error <= tolerance), None)

    def odd_weights(self) -> list[Row]:
        """Lines whose weights lose more than OUTLIER times what is usual, the worst first."""
        losses = [(row, row.weights.distance.relative) for row in self.rows if row.weights]
        usual = median([loss for row, loss in losses if row.layer is not None])
        limit = max(OUTLIER * usual, _LEAST_OUTLIER)
        odd = [(row, loss) for row, loss in losses if not loss <= limit]
        return [row for row, _ in sorted(odd, key=lambda item: -item[1])]


@dataclass(frozen=True)
class Stage:
    """One stretch of the model, such as a decoder layer, recorded three times.

    Attributes:
        floats: the float model on its own values.
        quantized: the quantized model on its own.
        given: the quantized model on the program's.
        weights: of each module that has some: its quantized output compared with its float one,
            both on the float model's input.
    """

    floats: Recorder
    quantized: Recorder
    given: Recorder
    weights: Mapping[str, Distance]


def compare_stage(
    stage: Stage, logged: Sequence[LoggedRows], calls: Calls, tokens: int
) -> list[Row]:
    """The rows of the sinks that this stage computes.

    Args:
        logged: of the complete program; those of other stages are skipped.
        tokens: of the text, the rows of every recorded value.
    """
    compared: list[Row] = []
    unclaimed = dict(stage.weights)
    own = {item.sink.place.module_path for item in logged}
    for item in logged:
        width = item.sink.width
        references = [
            recorder.find(item.sink.place, _looks_like(tokens, width))
            for recorder in (stage.floats, stage.quantized, stage.given)
        ]
        if any(reference is None for reference in references):
            continue
        floats, quantized, given = (
            reference.reshape(tokens, width) for reference in references if reference is not None
        )
        program = {}
        for phase in (PREFILL, DECODE):
            part = {call: rows for call, rows in item.calls.items() if calls.phase(call) == phase}
            if part:
                where, values = positions(part, calls.starts, calls.lengths)
                program[phase] = distance(given[where], values)
        where, values = positions(item.calls, calls.starts, calls.lengths)
        compared.append(
            Row(
                item.sink,
                program,
                distance(quantized[where], values),
                distance(floats[where], quantized[where]),
                _take_weights(item.sink, unclaimed, own),
            )
        )
    return compared


def program_rows(
    logged: Sequence[LoggedRows], recorder: Recorder, value: Tensor, calls: Calls
) -> tuple[Tensor, Tensor] | None:
    """What the program computed for a value that a recorder saw the model compute.

    Returns:
        int64 (rows,) positions, float32 (rows, width); None if the program does not show it.
    """
    width = value.shape[-1]
    for item in reversed(logged):  # of several operators of a line, the last one's is the line's
        if item.sink.width != width:
            continue
        if recorder.find(item.sink.place, lambda other: other is value) is value:
            return positions(item.calls, calls.starts, calls.lengths)
    return None


def _looks_like(tokens: int, width: int) -> Callable[[Tensor], bool]:
    def looks_like(value: Tensor) -> bool:
        return value.is_floating_point() and value.numel() == tokens * width

    return looks_like


def _take_weights(sink: Sink, unclaimed: dict[str, Distance], own: set[str]) -> Weights | None:
    """The weights that lose most of those that a sink's operator uses and no other row has; those
    of a module whose output is a row of its own are for that row."""
    mine = [
        Weights(path, line, unclaimed.pop(path))
        for path, line in sink.modules
        if path in unclaimed and (path == sink.place.module_path or path not in own)
    ]
    return max(mine, key=lambda item: item.distance.relative, default=None)


def stacked(rows: tuple[Tensor, Tensor], like: Tensor) -> Tensor:
    """A copy of hidden states (1, tokens, width) with the program's rows in their places."""
    where, values = rows
    copy = torch.clone(like)
    copy[0, where] = values
    return copy
