"""Records modules that run eagerly: what each operator of each of their lines computed."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType, MappingProxyType
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from devtools.profile.profile_types import Line
from devtools.profile.stack import own_stack

# Names of one operation: as Python calls it, as the exported graph does.
_ALIASES = {
    "__getitem__": "slice",
    "flatten": "view",
    "narrow": "slice",
    "reshape": "view",
    "unflatten": "view",
    "truediv": "div",
}
_PIECES = ("slice", "select")  # which compute nothing: what else the line computes is not theirs
_DECORATION = re.compile(r"^_*r?(add|sub|mul|truediv|pow|matmul)_*$")


@dataclass(frozen=True)
class Place:
    """One operator of one line, in one module.

    Attributes:
        module_path: of the module that runs the line, such as model.layers.0.mlp.
        file: below the directory that modules are imported from, such as exporter/models/mlp.py.
        line: its number, the innermost in a module's forward, as torch.export has it.
        operator: what is called there, such as linear, mul or view.
        occurrence: which of the operators of this name on this line, in this module, from 0.
    """

    module_path: str
    file: str
    line: int
    operator: str
    occurrence: int

    def of_any_operator(self) -> tuple[str, str, int]:
        return self.module_path, self.file, self.line


def operator_name(name: str) -> str:
    """The plain name of an operator: of aten.view_copy.default and of Tensor.flatten `view`."""
    parts = name.split(".")
    base = parts[min(len(parts) - 1, 1)].removesuffix("_copy")
    decorated = _DECORATION.match(base)
    base = decorated.group(1) if decorated else base
    return _ALIASES.get(base, base)


class Recorder(TorchFunctionMode):
    """Keeps every tensor that a watched module's lines compute, and the inputs of its submodules.

    Attributes:
        values: by place; not to be changed.
        inputs: the first argument of every submodule, by path.
        outputs: what every submodule returned, by path, where that is a tensor.
    """

    def __init__(
        self, methods: Collection[str] = (), places: Mapping[str, Line] = MappingProxyType({})
    ) -> None:
        """
        Args:
            methods: whose lines count as those of a module's forward do.
            places: the lines of modules whose code is torch's own, by their paths.
        """
        super().__init__()
        self._places = places
        self._functions = {"forward", *methods}
        self.values: dict[Place, Tensor] = {}
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self._leaves: set[str] = set()
        self._paths = [""]
        self._counts: Counter[Place] = Counter()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            line = _own_line(sys._getframe(1), self._functions)
            if line is None and (made := self._places.get(self._paths[-1])) is not None:
                line = made.file, made.number
            if line is not None:
                name = operator_name(getattr(func, "__name__", str(func)))
                place = Place(self._paths[-1], *line, name, 0)
                count = self._counts[place]
                self._counts[place] = count + 1
                self.values[replace(place, occurrence=count)] = result
        return result

    @contextmanager
    def watching(self, module: nn.Module, path: str) -> Iterator[None]:
        """Records what a module does in the block; `path` is its own in the model."""
        hooks = []
        for name, submodule in module.named_modules():
            full = ".".join(part for part in (path, name) if part)
            if not list(submodule.children()):
                self._leaves.add(full)
            hooks.append(submodule.register_forward_pre_hook(self._enter(full)))
            hooks.append(submodule.register_forward_hook(self._leave(full)))
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def find(self, place: Place, like: Callable[[Tensor], bool]) -> Tensor | None:
        """Returns what was computed at a place: by that operator; else by the line's last similar
        operator, for a piece of a tensor another piece; else, if another module replaces the
        innermost one, what that returned."""
        exact = self.values.get(place)
        if exact is not None and like(exact):
            return exact
        on_line = [
            value
            for other, value in self.values.items()
            if other.of_any_operator() == place.of_any_operator()
            and (place.operator not in _PIECES or other.operator in _PIECES)
        ]
        if on_line:
            return next(filter(like, reversed(on_line)), None)
        if not place.module_path:  # the root's forward calls its methods, which are run alone
            around = [
                value
                for other, value in self.values.items()
                if (other.module_path, other.operator) == ("", place.operator)
            ]
            return next(filter(like, reversed(around)), None)
        if place.module_path not in self._leaves:
            return None
        returned = self.outputs.get(place.module_path)
        return returned if returned is not None and like(returned) else None

    def _enter(self, path: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def enter(_: nn.Module, args: tuple[Any, ...]) -> None:
            self._paths.append(path)
            if args and isinstance(args[0], Tensor):
                self.inputs[path] = args[0]

        return enter

    def _leave(self, path: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def leave(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self._paths.pop()
            if isinstance(output, Tensor):
                self.outputs[path] = output

        return leave


def _own_line(frame: FrameType | None, functions: Collection[str]) -> tuple[str, int] | None:
    """The innermost line that is in one of the functions and not torch's own."""
    while frame is not None:
        file = frame.f_code.co_filename
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name in functions and own_stack((Line(file, 1),)):
            short = module.replace(".", "/") + ".py"
            return (short if file.endswith("/" + short) else file), frame.f_lineno
        frame = frame.f_back
    return None
