"""Several delegates in order of preference: each takes what it supports, the next gets the rest.

The first that takes anything determines the form of the program, because its own first pass
rewrites it; the others take what they recognise of the rest. A delegate that stores its caches
itself takes a complete decoder or nothing. A missing SDK is an error, as for a single delegate: the
file must not depend on the machine that writes it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.export import ExportedProgram

from delegates.contract import Delegate, Taken
from delegates.errors import DelegateError
from delegates.limits import Limits, combined_limits
from delegates.methods import FORWARD
from delegates.passes.stock_operators import restore_mutations
from delegates.passes.weights import copy_graph
from delegates.report import (
    DelegateShare,
    delegation_report,
    is_delegate_call,
    operators_inside,
    share_of,
)
from delegates.to_executorch import Lowered, finish

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager

_NOTHING_LEFT = "Nothing was left for it."


class Preference:
    """A delegate that combines others.

    Args:
        delegates: two or more by name, in order of preference.
    """

    def __init__(self, delegates: Mapping[str, Delegate]) -> None:
        self._delegates = dict(delegates)
        self._name = ",".join(delegates)

    @property
    def LIMITS(self) -> Limits:
        """Theirs, each field by its rule."""
        return combined_limits([delegate.LIMITS for delegate in self._delegates.values()])

    def lower(
        self,
        program: ExportedProgram,
        constant_methods: Mapping[str, object],
        named_data: Mapping[str, bytes],
        with_etrecord: bool,
    ) -> Lowered:
        """Lowers the captured program as its delegates would, in their order.

        Raises:
            DelegateError: something is not installed, none of them takes anything, or an operator
                is left that no kernel computes.
        """
        self.LIMITS.check_installed()
        parts: list[DelegateShare] = []
        waiting = list(self._delegates.items())
        while waiting:
            name, delegate = waiting.pop(0)
            own = copy_graph(program) if waiting else program
            try:
                delegate.LIMITS.check_program(own)
                if waiting and hasattr(delegate, "take"):
                    taken: Taken = delegate.take(own, constant_methods, with_etrecord)
                    shared = _Shared(self._name, parts, taken, name)
                    shared.offer(waiting)
                    return shared.finish(self._delegates, named_data, with_etrecord)
                lowered = delegate.lower(own, constant_methods, named_data, with_etrecord)
            except DelegateError as error:
                parts.append(DelegateShare(name, refused=str(error)))
                continue
            report = lowered.report
            parts.append(DelegateShare(name, report.calls, report.delegated))
            parts += [DelegateShare(other, refused=_NOTHING_LEFT) for other, _ in waiting]
            report = replace(report, delegate=self._name, parts=tuple(parts))
            return replace(lowered, reports={FORWARD: report})
        refusals = " ".join(f"{part.delegate}: {part.refused}" for part in parts)
        raise DelegateError(f"None of {self._name} takes the program. {refusals}")

    def load(self, path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Opens a program of several of these delegates; None if one of them cannot run here."""
        steps = [delegate.load(path) for delegate in self._delegates.values()]
        return None if None in steps else steps[-1]


class _Shared:
    """A program that several delegates share.

    Args:
        name: the delegates as requested.
        parts: the shares of those before the first that took anything.
        taken: the result of that first one.
        first: its name.
    """

    def __init__(self, name: str, parts: Sequence[DelegateShare], taken: Taken, first: str) -> None:
        self._name = name
        self._edge = taken.edge
        self._reasons = {node: [reason] for node, reason in taken.reasons.items()}
        self._parts = [*parts, _part(first, taken.edge, frozenset())]

    def offer(self, delegates: Sequence[tuple[str, Delegate]]) -> None:
        """Lets each delegate take what it supports of the rest."""
        for name, delegate in delegates:
            left = delegation_report(name, self._edge.exported_program().graph_module).left
            if not left:
                self._parts.append(DelegateShare(name, refused=_NOTHING_LEFT))
            elif not hasattr(delegate, "take_rest"):
                self._parts.append(
                    DelegateShare(name, refused="It takes a complete program or nothing.")
                )
            else:
                self._take(name, delegate)

    def _take(self, name: str, delegate: Any) -> None:
        before = frozenset(_calls(self._edge))
        try:
            taken: Taken = delegate.take_rest(self._edge)
        except DelegateError as error:
            self._parts.append(DelegateShare(name, refused=str(error)))
            return
        self._edge = taken.edge
        for node, reason in taken.reasons.items():
            self._reasons.setdefault(node, []).append(reason)
        self._parts.append(_part(name, taken.edge, before))

    def finish(
        self,
        delegates: Mapping[str, Delegate],
        named_data: Mapping[str, bytes],
        with_etrecord: bool,
    ) -> Lowered:
        """Returns the program to write.

        Raises:
            DelegateError: an operator is left that no kernel computes.
        """
        program = self._edge.exported_program()
        reasons = {node: "; ".join(texts) for node, texts in self._reasons.items()}
        report = delegation_report(self._name, program.graph_module, reasons)
        for leftover in report.lines:
            if leftover.operator.startswith(("torchao::", "thimble::")):
                raise DelegateError(
                    f"{leftover.operator} ({leftover.line}) is left in a form that nothing can "
                    f"run: {leftover.reason}; export with another --quant or --delegate."
                )
        restore_mutations(program)
        users: list[Any] = [delegates[part.delegate] for part in self._parts if part.calls]
        for user in users:
            if with_etrecord and hasattr(user, "add_source_map"):
                user.add_source_map(program.graph_module)
        layouts = [user.file_layout() for user in users if hasattr(user, "file_layout")]
        report = replace(report, parts=tuple(self._parts))
        return finish(self._edge, report, named_data, with_etrecord, next(iter(layouts), None))


def _calls(edge: "EdgeProgramManager") -> dict[str, Counter[str]]:
    """Returns the operators inside each delegate call, by the name of its module."""
    module = edge.exported_program().graph_module
    calls = [node for node in module.graph.nodes if is_delegate_call(node)]
    return {str(node.args[0].target): operators_inside(node, module) for node in calls}


def _part(name: str, edge: "EdgeProgramManager", before: Collection[str]) -> DelegateShare:
    """Returns what one delegate took: the calls that did not exist before."""
    new = [inside for module, inside in _calls(edge).items() if module not in before]
    return share_of(name, new)
