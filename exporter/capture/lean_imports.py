"""Imports of PyTorch's and ExecuTorch's compilers without what no export uses: a quarter of it."""

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_COMPILERS = "torch._dynamo", "executorch.exir"  # which fails before the first
_WIDTHS = "wcwidth"  # of Asian characters in tables; optional to the package that imports it
# Imported for its functions that draw, which nothing calls.
_DRAWS = "networkx"
# Inductor, imported for one function, which is needed where a program has one of these operators.
_INDUCTOR = "torch._inductor.fx_passes.post_grad"
_FUNCTION = "decompose_auto_functionalized"
_OPERATORS = {"auto_functionalized", "auto_functionalized_v2", "control_deps"}


@contextmanager
def without_collection() -> Iterator[None]:
    """Imports make many objects and no garbage, which Python would look for all the time, and once
    more after them, if they did not count as old."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()


def import_compilers() -> None:
    """Imports what captures and lowers programs. Modules that are left out stay importable."""
    with without_collection(), _left_out():
        for name in _COMPILERS:
            importlib.import_module(name)


@contextmanager
def _left_out() -> Iterator[None]:
    stand_ins: dict[str, Any] = {name: _StandIn(name) for name in (_DRAWS, _INDUCTOR)}
    stand_ins[_WIDTHS] = None  # the import fails
    stand_ins[_DRAWS].__spec__ = importlib.util.find_spec(_DRAWS)  # PyTorch looks where it is
    setattr(stand_ins[_INDUCTOR], _FUNCTION, _decompose)
    stand_ins = {name: one for name, one in stand_ins.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


class _StandIn(ModuleType):
    """Imports the module when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as the import system does, and inspect of every module
            raise AttributeError(name)
        return getattr(_imported(self.__name__), name)


def _imported(name: str) -> ModuleType:
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return importlib.import_module(name)


def _decompose(graph: Any) -> None:
    if any(getattr(node.target, "__name__", "") in _OPERATORS for node in graph.nodes):
        getattr(_imported(_INDUCTOR), _FUNCTION)(graph)
