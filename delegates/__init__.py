"""Delegates: each turns the one captured program into a program its hardware runs.

A delegate is a module with two functions and a table of facts:

    lower(program, constant_methods, named_data, with_etrecord) -> Lowered
    load(path) -> Callable[[Tensor, Tensor], Tensor] | None
    LIMITS: Limits

`lower` takes over the captured program and rewrites its graph in place. `load` opens a finished
`.pte` in a stock runtime on this machine, to check its results; None if there is none. `LIMITS`
lists what the delegate supports and requires; that of our own is in delegates/limits_of.

Several in order of preference, such as `coreml,cpu`, are also a delegate: delegates/combined.py.
    delegates/contract.py defines what a delegate needs to share a program with others.

Another package can add a delegate with an entry point of the group `thimble.delegates`: its name is
the delegate's, its value such a module.
"""

import importlib
import importlib.metadata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from delegates.errors import DelegateError

if TYPE_CHECKING:
    from delegates.contract import Delegate, Step, Unfused
    from delegates.limits import Limits
    from delegates.report import DelegationReport
    from delegates.to_executorch import Lowered

__all__ = [
    "DEFAULT_DELEGATE",
    "DELEGATES",
    "Delegate",
    "DelegateError",
    "DelegationReport",
    "Limits",
    "Lowered",
    "Step",
    "Unfused",
    "check_delegate",
    "check_installed",
    "delegate_names",
    "get_delegate",
    "get_delegates",
    "get_limits",
    "load_program",
]

DELEGATES = {
    "cpu": "delegates.cpu",
    "xnnpack": "delegates.xnnpack",
    "coreml": "delegates.coreml",
    "mps": "delegates.mps",
    "tosa": "delegates.tosa",
    "vulkan": "delegates.vulkan",
    "mlx": "delegates.mlx",
    "qnn": "delegates.qnn",
}
DEFAULT_DELEGATE = "cpu"
# The modules of the other public names: they import torch, which checking a name does not need.
_MODULES = {
    "Delegate": "delegates.contract",
    "DelegationReport": "delegates.report",
    "Limits": "delegates.limits",
    "Lowered": "delegates.to_executorch",
    "Step": "delegates.contract",
    "Unfused": "delegates.contract",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def delegate_names() -> list[str]:
    """Returns our own delegates, then those of other packages."""
    return [*DELEGATES, *sorted(_offered().keys() - DELEGATES.keys())]


def check_delegate(name: str) -> None:
    """Checks a delegate's name, or several in order of preference, without importing them.

    Raises:
        DelegateError: no delegate has that name, or one is repeated.
    """
    names = _names(name)
    twice = next((part for part, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DelegateError(f"delegate {twice!r} is repeated in {name!r}; use each only once.")
    unknown = next((part for part in names if part not in delegate_names()), None)
    if unknown is not None:
        raise DelegateError(
            f"delegate {unknown!r} is not known; it must be one of {', '.join(delegate_names())}."
        )


def check_installed(name: str) -> None:
    """Checks that our own delegates of a name, or of several, can lower here; those of other
    packages are checked when they are imported. Imports no large library.

    Raises:
        DelegateError: something must be installed first.
    """
    for part in _names(name):
        if part in DELEGATES:
            get_limits(part).check_installed()


def get_delegate(name: str) -> "Delegate":
    """Returns the delegate of a name, or of several in order of preference, such as `coreml,cpu`;
    it is imported on first use.

    Raises:
        DelegateError: no delegate has that name, one is repeated, or another package's cannot be
            imported.
    """
    delegates = get_delegates(name)
    if len(delegates) == 1:
        return next(iter(delegates.values()))
    from delegates.combined import Preference

    return Preference(delegates)


def get_delegates(name: str) -> "dict[str, Delegate]":
    """Returns one delegate, or several in order of preference, by their names.

    Raises:
        DelegateError: as get_delegate().
    """
    check_delegate(name)
    return {part: _get_one(part) for part in _names(name)}


def get_limits(name: str) -> "Limits":
    """Returns the LIMITS of a delegate, or of several in order of preference; for our own, no large
    library is imported.

    Raises:
        DelegateError: as get_delegate().
    """
    check_delegate(name)
    limits = [_limits_of(part) for part in _names(name)]
    if len(limits) == 1:
        return limits[0]
    from delegates.limits import combined_limits

    return combined_limits(limits)


def load_program(report: "DelegationReport", path: Path) -> "Step | None":
    """Opens a finished `.pte` in a stock runtime with the delegates that it needs.

    Args:
        report: the report of its lowering.

    Returns:
        None if this machine cannot run one of them.
    """
    return get_delegate(",".join(report.users)).load(path)


def _names(name: str) -> list[str]:
    return [part.strip() for part in name.split(",")]


def _limits_of(name: str) -> "Limits":
    if name in DELEGATES:
        module = importlib.import_module(f"delegates.limits_of.{name}")
        return cast("Limits", module.LIMITS)
    return _get_one(name).LIMITS


def _get_one(name: str) -> "Delegate":
    if name in DELEGATES:
        return cast("Delegate", importlib.import_module(DELEGATES[name]))
    entry_point = _offered()[name]
    try:
        delegate = entry_point.load()
    except (ImportError, AttributeError) as error:
        raise DelegateError(
            f"delegate {name!r} ({entry_point.value}) cannot be imported: {error}; repair the "
            "package that provides it, or choose another --delegate."
        ) from error
    lacking = [part for part in ("LIMITS", "load", "lower") if not hasattr(delegate, part)]
    if lacking:
        raise DelegateError(
            f"delegate {name!r} ({entry_point.value}) has no {' and no '.join(lacking)}; repair "
            "the package that provides it, or choose another --delegate."
        )
    return cast("Delegate", delegate)


def _offered() -> dict[str, importlib.metadata.EntryPoint]:
    entries = importlib.metadata.entry_points(group="thimble.delegates")
    return {entry_point.name: entry_point for entry_point in entries}
