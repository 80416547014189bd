"""What a captured module takes and returns."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from exporter.module.source import Made
from exporter.module.types import check_type

UNBOUNDED = 1 << 31  # more than a size of a tensor


@dataclass(frozen=True)
class Size:
    """One size of a shape.

    Attributes:
        least, most: its range; most is UNBOUNDED if it has no end.
        symbol: the name of its Dim; "" if it has none. The size is factor * symbol + offset.
    """

    least: int
    most: int
    symbol: str = ""
    factor: int = 1
    offset: int = 0

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        end = "or more" if self.most >= UNBOUNDED else f"to {self.most}"
        named = f"{self.symbol}: " if self.symbol else ""
        return f"{named}{self.least} {end}"


@dataclass(frozen=True)
class TensorSpec:
    """
    Attributes:
        type: its element type's name.
        hides_nan: of an input: why the program would lose a NaN in it; "" if it does not.
    """

    name: str
    type: str
    sizes: tuple[Size, ...]
    hides_nan: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.type} ({', '.join(map(str, self.sizes))})"


@dataclass(frozen=True)
class Signature:
    """
    Attributes:
        name: of the method.
        state: the buffers that a call changes, by their names in the module.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def signature_of(name: str, program: ExportedProgram, made: Made) -> Signature:
    """Returns the signature of a captured module.

    Args:
        name: of its method.

    Raises:
        ExportError: a tensor has a type that programs do not have.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    names = _dim_names(program, made, values)
    inputs = [
        _spec(name, values[name], program, names)
        for name in signature.user_inputs
        if isinstance(name, str)
    ]
    outputs = [
        spec.arg.name for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
    ]
    described = [
        _spec(shown, values[name], program, names)
        for shown, name in zip(_output_names(program, len(outputs)), outputs, strict=True)
    ]
    state = tuple(dict.fromkeys(signature.buffers_to_mutate.values()))
    return Signature(name, tuple(inputs), tuple(described), state)


def _spec(name: str, value: Any, program: ExportedProgram, names: Mapping[Any, str]) -> TensorSpec:
    type = check_type(name, value.dtype if isinstance(value, Tensor) else value.__class__)
    sizes = tuple(_size(size, program, names) for size in value.shape)
    return TensorSpec(name, type, sizes)


def _size(size: Any, program: ExportedProgram, names: Mapping[Any, str]) -> Size:
    if isinstance(size, int):
        return Size(size, size)
    expression = size.node.expr
    least, most = _bounds(program, expression)
    symbols = list(expression.free_symbols)
    if len(symbols) == 1:
        polynomial = expression.as_poly(symbols[0])
        if polynomial is not None and polynomial.degree() == 1:
            factor, offset = (int(coefficient) for coefficient in polynomial.all_coeffs())
            return Size(least, most, names.get(symbols[0], str(symbols[0])), factor, offset)
    return Size(least, most)


def _bounds(program: ExportedProgram, expression: Any) -> tuple[int, int]:
    """Returns the range of a size, from those of its symbols; of an expression that neither rises
    nor falls with each, any size."""
    ends = []
    for end in ("lower", "upper"):
        known = {
            symbol: getattr(program.range_constraints[symbol], end)
            for symbol in expression.free_symbols
            if symbol in program.range_constraints
        }
        value = expression.subs(known)
        ends.append(int(value) if value.is_Integer else None)
    least, most = ends
    if least is None or most is None or least > most or most >= UNBOUNDED:
        return max(least or 0, 0), UNBOUNDED
    return least, most


def _dim_names(program: ExportedProgram, made: Made, values: Mapping[str, Any]) -> dict[Any, str]:
    """Returns the user's names of the symbols."""
    names: dict[Any, str] = {}
    dims = _flat_dims(made)
    user_inputs = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    for name, sizes in zip(user_inputs, dims, strict=False):
        for index, dim in sizes.items():
            size = values[name].shape[index]
            if not isinstance(size, int) and isinstance(dim, Dim) and size.node.expr.is_Symbol:
                names.setdefault(size.node.expr, dim.__name__)
    return names


def _flat_dims(made: Made) -> list[dict[int, Any]]:
    """Returns the sizes that were named, for each leaf of the inputs."""
    given = made.dynamic_shapes
    if given is None:
        return []
    if isinstance(given, Mapping):
        order = list(made.inputs.kwargs) if made.inputs.kwargs else list(given)
        given = [given.get(name) for name in order]
    dims: list[dict[int, Any]] = []

    def walk(value: Any) -> None:
        if value is None:
            dims.append({})
        elif isinstance(value, Mapping) and all(isinstance(key, int) for key in value):
            dims.append(dict(value))
        elif isinstance(value, tuple | list):
            if any(isinstance(item, Dim | int) for item in value):
                dims.append(dict(enumerate(value)))
            else:
                for item in value:
                    walk(item)
        elif isinstance(value, Mapping):
            for item in value.values():
                walk(item)

    for item in given:
        walk(item)
    return dims


def _output_names(program: ExportedProgram, count: int) -> list[str]:
    """Returns `output`, or the outputs' keys or numbers in what the module returns."""
    spec = program.call_spec.out_spec
    if spec is None:
        return [f"output_{index}" for index in range(count)]
    paths, _ = tree_flatten_with_path(tree_unflatten(list(range(count)), spec))
    names = []
    for path, _ in paths:
        parts = [
            str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path
        ]
        name = re.sub(r"\W+", "_", "_".join(parts))
        names.append(f"output_{name}" if not name or name[0].isdigit() else name)
    names = ["output" if name == "output_" else name for name in names]
    return names if len(set(names)) == count else [f"output_{index}" for index in range(count)]
