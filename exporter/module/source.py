"""Reads `module.py:make`: imports the user's file and calls the function that makes modules."""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, clone, nn
from torch.utils._pytree import tree_leaves, tree_map

from delegates.methods import FORWARD
from exporter.errors import ExportError
from exporter.module.places import is_users, noting_places, places_of
from exporter.module.shorter import Shorter
from exporter.module.source_name import SourceName
from exporter.module.types import check_type

_PARTS = ("module", "inputs", "dynamic_shapes", "calibration")
_RETURNS = (
    "it must return (module, inputs), optionally with dynamic_shapes and calibration, or a "
    "dictionary of such by the names of methods"
)


@dataclass(frozen=True)
class Inputs:
    """What a module is called with; every leaf is a tensor, contiguous."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def leaves(self) -> list[Tensor]:
        """Returns the tensors in the order of the program's inputs."""
        return tree_leaves((self.args, dict(self.kwargs)))

    def with_leaves(self, leaves: Sequence[Tensor]) -> "Inputs":
        """Returns the same structure with other tensors, in the order of leaves()."""
        rest = iter(leaves)
        args, kwargs = tree_map(lambda _: next(rest), (self.args, dict(self.kwargs)))
        return Inputs(args, kwargs)

    def call(self, module: Callable[..., Any]) -> Any:
        """Calls a module, which may change what it is given: that is a copy."""
        args, kwargs = tree_map(clone, (self.args, dict(self.kwargs)))
        return module(*args, **kwargs)


@dataclass(frozen=True)
class Made:
    """What the user's function returned for one method.

    Attributes:
        module: in eval mode, without gradients.
        inputs: an example of its inputs.
        dynamic_shapes: as torch.export takes them; None: every size is fixed.
        calibration: further examples, on which integers are calibrated and numbers are checked.
        refuses_nan: whether calls refuse a NaN that would be lost.
        shorter: inputs that may have fewer rows; None: there are none.
        places: frames of a trace that made the module's parts, by their names.
    """

    module: nn.Module
    inputs: Inputs
    dynamic_shapes: Any
    calibration: Sequence[Inputs]
    refuses_nan: bool = True
    shorter: Shorter | None = None
    places: Mapping[str, str] = field(default_factory=dict)


def make_methods(source: SourceName) -> dict[str, Made]:
    """Imports the file and calls its function; returns the modules by their methods' names.

    Raises:
        ExportError: the file cannot be imported, has no such function, or the function fails or
            returns something else; the sentence has the user's line.
    """
    make = getattr(_import(source), source.function, None)
    if not callable(make):
        raise ExportError(
            f"{source.path} has no function {source.function}; name the one that makes the module, "
            f"as in {source.path.name}:make."
        )
    try:
        with noting_places() as lines:
            made = make()
    except (Exception, SystemExit) as error:
        raise failure(f"{source.function}() of {source.path.name} failed", error) from error
    methods = _read_methods(source, made)
    return {
        name: replace(one, places=places_of(one.module, lines, make))
        for name, one in methods.items()
    }


def _read_methods(source: SourceName, made: Any) -> dict[str, Made]:
    if not _is_methods(made):
        return {FORWARD: _read(str(source), made)}
    for name in made:
        if not isinstance(name, str) or not name.isidentifier():
            raise ExportError(
                f"{source} returns a method named {name!r}; a method's name must be an identifier, "
                "such as encode."
            )
    return {name: _read(f"{source}, method {name}", one) for name, one in made.items()}


def _is_methods(made: Any) -> bool:
    """Whether it is modules by their methods' names."""
    named = isinstance(made, Mapping) and made and not any(part in made for part in _PARTS)
    return bool(named) and all(isinstance(one, tuple | Mapping) for one in made.values())


def _read(where: str, made: Any) -> Made:
    parts = _parts(where, made)
    module = parts["module"]
    if not isinstance(module, nn.Module):
        raise ExportError(
            f"{where} returns {_shown(module)} as the module, which is not a torch.nn.Module; "
            f"{_RETURNS}."
        )
    module.eval().requires_grad_(False)
    inputs = _read_inputs(where, module, parts["inputs"], "inputs")
    calibration = [
        _read_inputs(where, module, sample, f"calibration[{index}]")
        for index, sample in enumerate(parts.get("calibration") or ())
    ]
    shapes = _of_variable_arguments(module, inputs, parts.get("dynamic_shapes"))
    return Made(module, inputs, shapes, calibration)


def _of_variable_arguments(module: nn.Module, inputs: Inputs, shapes: Any) -> Any:
    """Returns dynamic_shapes of one item for each input as torch.export takes them of `*args`: as
    a tuple of their own."""
    first = _first_variable(module)
    if first is None or not isinstance(shapes, tuple | list) or len(shapes) != len(inputs.args):
        return shapes
    rest = shapes[first:]
    is_nested = len(rest) == 1 and isinstance(rest[0], tuple | list)
    return shapes if is_nested else (*shapes[:first], tuple(rest))


def flat_shapes(made: Made) -> Any:
    """Returns the dynamic_shapes of what torch.export made of a module: it takes those of `*args`
    one by one."""
    first, shapes = _first_variable(made.module), made.dynamic_shapes
    if first is None or not isinstance(shapes, tuple | list):
        return shapes
    return (*shapes[:first], *(item for rest in shapes[first:] for item in rest))


def _first_variable(module: nn.Module) -> int | None:
    """The place of the first of `*args`, if `forward` takes such."""
    parameters = inspect.signature(module.forward).parameters.values()
    kinds = [parameter.kind for parameter in parameters]
    variable = inspect.Parameter.VAR_POSITIONAL
    return kinds.index(variable) if variable in kinds else None


def failure(what: str, error: BaseException) -> ExportError:
    """Returns the sentence for an error that the user's code raised, with the user's line."""
    lines = [one.strip() for one in str(error).splitlines() if one.strip()] or ["no message"]
    of_torch = type(error).__module__.startswith("torch")  # its further lines are of its own code
    message = lines[0] if of_torch else " ".join(lines)
    line = user_line(error)
    where = f" at {line}" if line else ""
    return ExportError(f"{what}{where}: {type(error).__name__}: {message.rstrip('.')}.")


def user_line(error: BaseException) -> str | None:
    """Returns the innermost line of an error outside of libraries, as `model.py:12 (code)`."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{Path(error.filename).name}:{error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    if not own:
        return None
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} ({(own[-1].line or '').strip()})"


def _import(source: SourceName) -> Any:
    path = source.path
    source.check_file()
    # A file may have the name of a module that others need.
    taken = path.stem in sys.modules and getattr(sys.modules[path.stem], "__file__", "") != str(
        path
    )
    name = f"{path.stem}_of_user" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ExportError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    directory = str(path.resolve().parent)  # what lies beside it can be imported
    if directory not in sys.path:
        sys.path.insert(0, directory)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise failure(f"{path} cannot be imported", error) from error
    return module


def _parts(where: str, made: Any) -> dict[str, Any]:
    if isinstance(made, Mapping):
        unknown = [name for name in made if name not in _PARTS]
        if unknown or "module" not in made or "inputs" not in made:
            what = f"has only {', '.join(map(str, made))}" if made else "is empty"
            what = f"has {unknown[0]!r}" if unknown else what
            raise ExportError(f"{where} returns a dictionary that {what}; {_RETURNS}.")
        return dict(made)
    if not isinstance(made, tuple) or not 2 <= len(made) <= len(_PARTS):
        raise ExportError(f"{where} returns {_shown(made)}; {_RETURNS}.")
    return dict(zip(_PARTS, made, strict=False))


def _read_inputs(where: str, module: nn.Module, given: Any, what: str) -> Inputs:
    """Reads a tensor, a tuple or list of arguments, or a mapping of arguments by name."""
    if isinstance(given, Mapping):
        read = Inputs((), dict(given))
    elif isinstance(given, tuple | list):
        read = Inputs(tuple(given))
    else:
        read = Inputs((given,))
    try:
        bound = inspect.signature(module.forward).bind(*read.args, **read.kwargs)
    except TypeError as error:
        raise ExportError(f"{where}: {what} do not fit forward(): {error}.") from None
    for name, value in bound.arguments.items():
        for leaf in tree_leaves(value):
            if not isinstance(leaf, Tensor):
                raise ExportError(
                    f"{where}: {what} have {_shown(leaf)} for {name}, but a program takes only "
                    "tensors; set it in the module, or make it a tensor."
                )
            check_type(name, leaf.dtype)
    # ExecuTorch exports an example with other strides, and then fails to run the file.
    leaves = [leaf.detach().contiguous().clone() for leaf in read.leaves()]
    return read.with_leaves(leaves)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
