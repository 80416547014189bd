"""What every delegate's lowering returns."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule, Node

from delegates.source_map import keep_view_handles

if TYPE_CHECKING:
    from executorch.exir import (
        EdgeProgramManager,
        ExecutorchBackendConfig,
        ExecutorchProgramManager,
    )

NAMED_DATA_ALIGNMENT = 16


@dataclass(frozen=True)
class DelegationReport:
    """Where the nodes of a lowered program went.

    Attributes:
        delegate: the delegate's name.
        calls: delegate calls in one run of the program.
        delegated: nodes inside those calls, by operator.
        left: operators outside them, by name; bookkeeping of sizes and tuples not counted.
    """

    delegate: str
    calls: int
    delegated: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)

    @property
    def linears(self) -> int:
        """Linear layers in the whole program."""
        return self.delegated.get("linear", 0) + self.left.get("linear", 0)

    @property
    def linears_delegated(self) -> int:
        return self.delegated.get("linear", 0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Lowered:
    """A finished program and what became of it.

    Attributes:
        program: writes the `.pte`.
        report: where the nodes went.
        etrecord: ExecuTorch's record for its Inspector, where it was asked for.
    """

    program: "ExecutorchProgramManager"
    report: DelegationReport
    etrecord: Any | None


def delegation_report(delegate: str, graph_module: GraphModule) -> DelegationReport:
    """Counts the operators inside and outside the delegate calls of an edge program's graph."""
    calls, inside, outside = 0, Counter[str](), Counter[str]()
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target.__name__ == "executorch_call_delegate":
            calls += 1
            lowered = getattr(graph_module, node.args[0].target)
            for inner in lowered.original_module.graph.nodes:
                if inner.op == "call_function" and not _is_bookkeeping(inner):
                    inside[_operator_name(inner)] += 1
        elif not _is_bookkeeping(node):
            outside[_operator_name(node)] += 1
    return DelegationReport(
        delegate, calls, dict(sorted(inside.items())), dict(sorted(outside.items()))
    )


def finish(
    edge: "EdgeProgramManager",
    report: DelegationReport,
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    config: "ExecutorchBackendConfig | None" = None,
) -> Lowered:
    """Turns a program whose parts are with their delegates into the one to write.

    Args:
        edge: the program; what it holds is taken over.
        report: where its nodes went.
        named_data: blobs that ride along in the file.
        with_etrecord: keep the record that ExecuTorch's Inspector needs.
        config: how ExecuTorch lays the file out; by default as it likes.
    """
    for key, data in named_data.items():
        edge._named_data_store.add_named_data(key, data, alignment=NAMED_DATA_ALIGNMENT)
    finished = edge.to_executorch(config)
    if with_etrecord:
        keep_view_handles(finished)
    return Lowered(finished, report, finished.get_etrecord() if with_etrecord else None)


def _operator_name(node: Node) -> str:
    """`aten.linear.default` and its edge twin are both `linear`; mutations go by their own name."""
    target: Any = node.args[0] if "auto_functionalized" in str(node.target) else node.target
    schema = getattr(target, "_schema", None) or getattr(target, "_op", target)._schema
    namespace, name = schema.name.split("::")
    return name if namespace == "aten" else f"{namespace}::{name}"


def _is_bookkeeping(node: Node) -> bool:
    """Tuple items, sizes, size arithmetic and assertions: they compute no tensor."""
    if not hasattr(node.target, "_schema") and not hasattr(node.target, "_op"):
        return "auto_functionalized" not in str(node.target)
    return "sym_" in str(node.target) or "_assert" in str(node.target)
