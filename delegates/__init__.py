"""Delegates: each turns the one captured program into a program its hardware runs.

A delegate is a module with two functions:

    lower(program, constant_methods, named_data, with_etrecord) -> Lowered
    load(path) -> Callable[[Tensor, Tensor], Tensor] | None

`lower` takes the captured program over (its graph is rewritten in place). `load` opens a finished
`.pte` in a stock runtime on this machine, for checking its numbers; None where there is none.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

from torch import Tensor
from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.lowered import DelegationReport, Lowered

__all__ = [
    "DEFAULT_DELEGATE",
    "DELEGATES",
    "Delegate",
    "DelegateError",
    "DelegationReport",
    "Lowered",
    "get_delegate",
]

DELEGATES = {
    "xnnpack": "delegates.xnnpack",
    "cpu": "delegates.cpu",
    "coreml": "delegates.coreml",
    "tosa": "delegates.tosa",
}
DEFAULT_DELEGATE = "xnnpack"

Step = Callable[[Tensor, Tensor], Tensor]  # tokens (1, seq_len), input_pos (1,) -> (1, vocab_size)


class Delegate(Protocol):
    """What a delegate's module offers."""

    def lower(
        self,
        program: ExportedProgram,
        constant_methods: Mapping[str, object],
        named_data: Mapping[str, bytes],
        with_etrecord: bool,
    ) -> Lowered: ...

    def load(self, path: Path) -> Step | None: ...


def get_delegate(name: str) -> Delegate:
    """The delegate of that name, imported on first use.

    Raises:
        DelegateError: no delegate has that name.
    """
    if name not in DELEGATES:
        raise DelegateError(
            f"delegate {name!r} is not known; it must be one of {', '.join(DELEGATES)}."
        )
    return cast(Delegate, importlib.import_module(DELEGATES[name]))
