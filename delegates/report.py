"""Reports which delegate runs each node of a lowered program, or why none does."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from delegates.errors import DelegateError
from delegates.source_lines import UNKNOWN, source_line

MOST_LINES = 40  # of what is not delegated: the layers of a decoder share lines


@dataclass(frozen=True)
class DelegateShare:
    """What one delegate of several took.

    Attributes:
        delegate: its name.
        calls: the number of its calls in one run of the program.
        delegated: nodes inside them, by operator.
        refused: why it took nothing, if the reason is not a single operator.
    """

    delegate: str
    calls: int = 0
    delegated: dict[str, int] = field(default_factory=dict)
    refused: str | None = None


@dataclass(frozen=True)
class Leftover:
    """Operators of one line of the model that no delegate took: ExecuTorch's kernels run them.

    Attributes:
        operator: its name.
        line: their line, such as `exporter/models/norm.py:19`.
        count: how many.
        reason: why no delegate took them.
    """

    operator: str
    line: str
    count: int
    reason: str


@dataclass(frozen=True)
class DelegationReport:
    """Which delegate runs each node of a lowered program.

    Attributes:
        delegate: the delegate's name; several as requested.
        calls: delegate calls in one run of the program.
        delegated: nodes inside those calls, by operator.
        left: operators outside them, by name, without bookkeeping of sizes and tuples.
        parts: of several delegates, what each took.
        lines: those of `left` with their lines, at most MOST_LINES.
    """

    delegate: str
    calls: int
    delegated: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    parts: tuple[DelegateShare, ...] = ()
    lines: tuple[Leftover, ...] = ()

    @property
    def linears(self) -> int:
        """The number of linear layers in the complete program."""
        return self.linears_delegated + _linears(self.left)

    @property
    def linears_delegated(self) -> int:
        return _linears(self.delegated)

    @property
    def users(self) -> tuple[str, ...]:
        """The delegates that a run of the program needs; all where none of them is called."""
        called = tuple(part.delegate for part in self.parts if part.calls)
        return called or tuple(self.delegate.split(","))

    def to_dict(self) -> dict[str, Any]:
        """Returns it for JSON, with lists instead of tuples."""
        facts = asdict(self).items()
        return {name: list(value) if isinstance(value, tuple) else value for name, value in facts}


def _linears(operators: Mapping[str, int]) -> int:
    """Counts linears of floats and of integers."""
    return operators.get("linear", 0) + operators.get("thimble::linear", 0)


def delegation_report(
    delegate: str, graph_module: GraphModule, reasons: Mapping[str, str] | None = None
) -> DelegationReport:
    """Counts the operators inside and outside the delegate calls of an edge program's graph.

    Args:
        reasons: why nodes were left outside, by their names, if the delegate reports it.
    """
    nobody = f"none of {delegate} takes" if "," in delegate else f"{delegate} does not take"
    calls, inside, outside = 0, Counter[str](), Counter[str]()
    lines = Counter[tuple[str, str, str]]()
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if is_delegate_call(node):
            calls += 1
            inside += operators_inside(node, graph_module)
        elif not _is_bookkeeping(node):
            name = operator_name(node)
            outside[name] += 1
            reason = (reasons or {}).get(node.name, f"{nobody} it")
            lines[name, source_line(node), reason] += 1
    return DelegationReport(
        delegate,
        calls,
        dict(sorted(inside.items())),
        dict(sorted(outside.items())),
        lines=tuple(
            Leftover(operator, line, count, reason)
            for (operator, line, reason), count in lines.most_common(MOST_LINES)
        ),
    )


def share_of(delegate: str, calls: Sequence[Counter[str]]) -> DelegateShare:
    """Returns what a delegate took, of the operators inside each of its calls."""
    return DelegateShare(delegate, len(calls), dict(sorted(sum(calls, Counter[str]()).items())))


def is_delegate_call(node: Node) -> bool:
    return getattr(node.target, "__name__", "") == "executorch_call_delegate"


def operators_inside(call: Node, graph_module: GraphModule) -> Counter[str]:
    """Counts the operators of one delegate call by name."""
    lowered: Any = getattr(graph_module, cast(Node, call.args[0]).target)  # type: ignore[arg-type]
    nodes = lowered.original_module.graph.nodes
    return Counter(
        operator_name(node)
        for node in nodes
        if node.op == "call_function" and not _is_bookkeeping(node)
    )


def operator_name(node: Node) -> str:
    """`aten.linear.default` and its edge twin are both `linear`; mutations go by their own name."""
    target: Any = node.args[0] if "auto_functionalized" in str(node.target) else node.target
    schema = getattr(target, "_schema", None) or getattr(target, "_op", target)._schema
    namespace, name = schema.name.split("::")
    return name if namespace == "aten" else f"{namespace}::{name}"


def own_operator(graph: Graph) -> Node | None:
    """Returns the first node outside calls whose operator is of this project: no kernel computes
    it."""
    for node in graph.nodes:
        if node.op != "call_function" or is_delegate_call(node) or _is_bookkeeping(node):
            continue
        if operator_name(node).startswith("thimble::"):
            return node
    return None


def _is_bookkeeping(node: Node) -> bool:
    """Tuple items, sizes, size arithmetic and assertions: they compute no tensor."""
    if not hasattr(node.target, "_schema") and not hasattr(node.target, "_op"):
        return "auto_functionalized" not in str(node.target)
    return "sym_" in str(node.target) or "_assert" in str(node.target)


def check_whole(title: str, program: ExportedProgram) -> None:
    """Checks that a lowered edge program is one delegate call and nothing else.

    Args:
        title: the delegate's name in a sentence.

    Raises:
        DelegateError: names the first operator left outside and the line it came from.
    """
    report = delegation_report("", program.graph_module)
    if report.calls == 1 and not report.left:
        return
    outside = next(iter(report.left), "part")
    line = next(
        (source_line(node) for node in program.graph.nodes if outside in str(node.target)), UNKNOWN
    )
    raise DelegateError(
        f"{title} does not take {outside} ({line}), but its state needs the complete program in "
        "one call: export with another --delegate."
    )
