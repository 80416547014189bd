"""Delegates that take a decoder whole or not at all, since they keep its caches themselves."""

from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.finish import delegation_report
from delegates.lines import UNKNOWN, source_line


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
        f"{title} leaves {outside} of the program out ({line}); its state needs all of it in one "
        "call: export with another --delegate."
    )
