"""Explains what an export does with each line of a model, and why, without writing a file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch.export import ExportedProgram

from delegates import DelegationReport, Limits, Unfused, get_limits
from delegates.contract import Delegate
from exporter.capture.decompositions import Decomposition, decompositions, operators_by_line
from exporter.capture.program import capture
from exporter.capture.shapes import Shapes, explain_shapes, noting_conditions
from exporter.listener import Listener
from exporter.models.low_rank import attach
from exporter.options import ExportOptions
from exporter.pipeline import load_quantized
from exporter.plan.cache_type import cached_bytes
from exporter.plan.kv_caches import CACHED_BYTES, KvCaches, States, kv_caches, states
from exporter.plan.plan import Plan
from exporter.plan.planning import read_plan
from quant.scheme import FOUR_BITS, METHODS, Scheme

_TYPES = {1: "int8", 2: "float16", 4: "float32"}  # of keys and values, by their bytes


@dataclass(frozen=True)
class Explanation:
    """
    Attributes:
        scheme: the scheme of the weights, as asked for.
        rotation: what it rotates (quant.method), as the delegate can.
        shapes: sizes, and the program's conditions on them.
        decompositions: operators that were replaced.
        delegation: what runs where, and why delegates did not take the rest.
        cache_type: of keys and values, such as "float16".
        caches: the sizes of the key/value caches, as the delegate that takes the program keeps
            them.
        states: the sizes of what layers without attention keep.
        cache_sizes: bytes of all key/value caches by the types that a runner may be told to keep
            (--kv-cache); empty where it keeps the file's own.
        unfused: operators that the delegate runs separately though it can fuse their kind; None if
            the delegate does not report them.
        imatrix: the importance matrix by which scales are searched, as in a file's report; None:
            none is.
    """

    scheme: str
    rotation: str
    shapes: Shapes
    decompositions: Sequence[Decomposition]
    delegation: DelegationReport
    cache_type: str
    caches: Sequence[KvCaches]
    states: Sequence[States]
    unfused: Sequence[Unfused] | None
    cache_sizes: Mapping[str, int] = field(default_factory=dict)
    imatrix: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns it for JSON: objects and lists by the names of the attributes, here and in each
        part; what no delegate took is in delegation.lines."""
        return {
            "scheme": self.scheme,
            "rotation": self.rotation,
            "shapes": {
                "varying": [asdict(size) for size in self.shapes.varying],
                "fixed": dict(self.shapes.fixed),
                "conditions": [asdict(item) for item in self.shapes.conditions],
            },
            "decompositions": [
                {
                    "line": change.line,
                    "captured": dict(change.captured),
                    "became": dict(change.became),
                    "reason": change.reason,
                }
                for change in self.decompositions
            ],
            "delegation": self.delegation.to_dict(),
            "cache_type": self.cache_type,
            "caches": [asdict(item) for item in self.caches],
            "cache_sizes": dict(self.cache_sizes),
            "states": [asdict(item) for item in self.states],
            "unfused": [asdict(item) for item in self.unfused or ()],
            **({} if self.imatrix is None else {"imatrix": dict(self.imatrix)}),
        }


def explain_export(options: ExportOptions, listener: Listener) -> Explanation:
    """Captures and lowers a model as an export does.

    The graph does not depend on the integers of the weights. So 4-bit weights are rounded to
    nearest, which needs no calibration, and nothing is measured or checked.

    Raises:
        ExportError, QuantError, DelegateError: with the sentence to show.
    """
    plan = read_plan(options, listener, with_text=False)
    name = plan.scheme.name
    rotation = plan.scheme.choice.rotation if name in METHODS else "none"
    imatrix = None if plan.importance is None else plan.importance.facts
    plan = replace(plan, scheme=quick_scheme(plan.scheme), importance=None)
    delegate, context, seq_len = plan.delegate, plan.max_context_len, plan.max_seq_len
    model, _ = load_quantized(plan, listener)
    attach(model, plan.checkpoint.adapters)
    listener.stage("capture")
    with noting_conditions() as lines:
        program = capture(model, context, seq_len)
    spec = model.config
    del model
    explained = explain_program(plan.scheme, program, lines, delegate, listener)
    limits, item_bytes = _cache_keeper(plan, explained.delegation)
    sizes = {
        type: sum(item.size for item in kv_caches(spec, limits, own, context, seq_len))
        for type, own in CACHED_BYTES.items()
    }
    return replace(
        explained,
        scheme=name,
        rotation=rotation,
        cache_type=_TYPES[item_bytes],
        caches=kv_caches(spec, limits, item_bytes, context, seq_len),
        cache_sizes=sizes if limits.name == "cpu" else {},
        states=states(spec),
        imatrix=imatrix,
    )


def explain_program(
    scheme: Scheme,
    program: ExportedProgram,
    lines: Mapping[str, str],
    delegate: Delegate,
    listener: Listener,
) -> Explanation:
    """Lowers a captured program, which has no caches and no states.

    Args:
        lines: of noting_conditions() while it was captured.
    """
    shapes = explain_shapes(program, lines)
    captured = operators_by_line(program.graph)
    listener.stage("lower")
    lowered = delegate.lower(program, {}, {}, True)
    edge: Any = lowered.etrecord.edge_dialect_program if lowered.etrecord is not None else None
    changes: list[Decomposition] = []
    unfused: list[Unfused] | None = None
    if edge is not None:
        changes = decompositions(captured, operators_by_line(edge.graph))
        if hasattr(delegate, "why_unfused"):
            unfused = delegate.why_unfused(edge)
    return Explanation(
        scheme=scheme.name,
        rotation="none",
        shapes=shapes,
        decompositions=changes,
        delegation=lowered.report,
        cache_type="",
        caches=(),
        states=(),
        unfused=unfused,
    )


def _cache_keeper(plan: Plan, report: DelegationReport) -> tuple[Limits, int]:
    """The limits of the delegate that keeps the caches, and bytes of a number in them: of several,
    the first that took anything."""
    takers = [part.delegate for part in report.parts if part.calls]
    if not takers:
        return plan.limits, plan.item_bytes
    limits = get_limits(takers[0])
    own = cached_bytes(plan.empty, plan.scheme, limits)
    # The preferred one has decided whether the model rounds keys and values to int8.
    return limits, 2 if own == 1 < plan.item_bytes else own


def quick_scheme(scheme: Scheme) -> Scheme:
    """Returns a scheme with the same graph that needs no calibration: a rotation that is learned
    and folded into weights leaves the graph of one that is not learned."""
    if scheme.name not in METHODS:
        return scheme
    name = "rtn4" if scheme.name in FOUR_BITS else scheme.name
    rotation = scheme.choice.rotation
    rotation = "hadamard" if rotation == "learned" else rotation
    return replace(scheme, name=name, method=replace(METHODS[name], rotation=rotation))
