"""Several methods of one program: lowered one after the other, then joined."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager

FORWARD = "forward"  # the method of a program that has one
_METHOD: ContextVar[str] = ContextVar("method", default=FORWARD)


@contextmanager
def lowering(method: str) -> Iterator[None]:
    """Marks a block that lowers a method."""
    token = _METHOD.set(method)
    try:
        yield
    finally:
        _METHOD.reset(token)


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
    record: Any = first._etrecord
    if record is not None:
        programs = {name: _recorded(edge) for name, edge in edges.items()}
        record.edge_dialect_program = programs
    return first


def _recorded(edge: "EdgeProgramManager") -> Any:
    record: Any = edge._etrecord
    return record.edge_dialect_program
