"""The result of a comparison, for a table and for JSON."""

from dataclasses import dataclass, field
from typing import Any

from devtools.compare.figures import LogitDistance
from devtools.compare.rows import Comparison, Row, Weights


@dataclass(frozen=True)
class Outcome:
    """
    Attributes:
        tolerance: what rounding explains; None of a quantized module, whose lines are compared with
            float ones.
        wrong: the first line that the program computes wrongly; None if there is none.
        odd: lines whose weights are not a rounding of the checkpoint's, the worst first.
        logits: their distances, by the pair that is compared.
        cosines: likewise, of the row that a model of embeddings makes of the text.
    """

    facts: dict[str, Any]
    comparison: Comparison
    tolerance: float | None
    wrong: Row | None
    odd: list[Row]
    logits: dict[str, LogitDistance] = field(default_factory=dict)
    cosines: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.facts,
            "tolerance": self.tolerance,
            "first_divergence": _row(self.wrong) if self.wrong else None,
            "odd_weights": [_weights(row.weights) for row in self.odd if row.weights],
            "logits": {name: item.to_dict() for name, item in self.logits.items()},
            "cosines": self.cosines,
            "lines": [_row(row) for row in self.comparison.rows],
            "routing": [layer.to_dict() for layer in self.comparison.routing],
            "not_compared": [
                {"module": sink.place.module_path, "line": sink.lines[0].location}
                for sink in self.comparison.unmatched
            ],
        }


def _row(row: Row) -> dict[str, Any]:
    return {
        "layer": row.layer,
        "module": row.sink.place.module_path,
        "operator": row.sink.place.operator,
        "line": row.sink.lines[0].location,
        "text": row.sink.lines[0].text,
        "lines": [line.location for line in row.sink.lines],
        "delegate": row.sink.backend,
        "only_at_the_calls_boundary": row.sink.at_boundary,
        "weights": _weights(row.weights) if row.weights else None,
        "quantized_so_far": row.quantized_so_far.to_dict(),
        "program": {phase: item.to_dict() for phase, item in row.program.items()},
        "program_so_far": row.program_so_far.to_dict(),
    }


def _weights(weights: Weights) -> dict[str, Any]:
    return {
        "module": weights.module_path,
        "line": weights.line.location,
        **weights.distance.to_dict(),
    }
