"""Several methods of one program: lowered one after the other, then joined."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from delegates.errors import DelegateError

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram

FORWARD = "forward"  # the method of a program that has one
_METHOD: ContextVar[str] = ContextVar("method", default=FORWARD)


def check_takes_methods(name: str, delegate: object) -> None:
    """
    Raises:
        DelegateError: it writes programs of one method.
    """
    if not hasattr(delegate, "lower_methods"):
        raise DelegateError(
            f"{name} writes language models of one method; for several use --delegate cpu or "
            "xnnpack."
        )


@contextmanager
def lowering(method: str) -> Iterator[None]:
    """Marks a block that lowers a method."""
    token = _METHOD.set(method)
    try:
        yield
    finally:
        _METHOD.reset(token)


def current_method() -> str:
    """Returns the method of the block that this is called in."""
    return _METHOD.get()


def only_program(edge: "EdgeProgramManager") -> "ExportedProgram":
    """Returns the program of the only method."""
    (method,) = edge.methods
    return edge.exported_program(method)


def own_key(kind: str, name: str) -> str:
    """Returns the key of a blob that a delegate stores, which no other method's blob has. Blobs of
    the same bytes are stored once, whatever their keys."""
    method = _METHOD.get()
    return f"{kind}/{name}" if method == FORWARD else f"{kind}/{method}/{name}"


def join(edges: "Mapping[str, EdgeProgramManager]") -> "EdgeProgramManager":
    """Returns edge programs of one method each as one program; their contents are taken over."""
    first, *others = edges.values()
    for other in others:
        first._edge_programs.update(other._edge_programs)
        data = other._named_data_store.get_named_data_store_output()
        first._named_data_store.merge_named_data_store(data)
    records: dict[str, Any] = {name: edge._etrecord for name, edge in edges.items()}
    if list(edges) != [FORWARD] and first._etrecord is not None:
        programs = {name: one.edge_dialect_program for name, one in records.items()}
        records[next(iter(edges))].edge_dialect_program = programs
    return first


def recorded_program(record: Any, method: str) -> "ExportedProgram":
    """Returns the edge program of a method in ExecuTorch's ETRecord."""
    programs = record.edge_dialect_program
    program: ExportedProgram = programs[method] if isinstance(programs, dict) else programs
    return program
