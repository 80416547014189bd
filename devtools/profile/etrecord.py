"""Reads an ETRecord: the graph that was exported, and which of its nodes each instruction runs.

It is a zip file: maps in JSON, and the program in the edge dialect in the JSON form of
torch.export's schema. Only those are read, none of the weights beside them, without importing
torch, so that a record of any size opens in a moment and needs no definition of its operators.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from devtools.errors import BadRequest
from devtools.profile.profile_types import Line
from devtools.profile.stack import ShortNames, own_stack, parse_stack

_IDENTIFIER = "ETRECORD_V0"
_GRAPH = "edge_dialect_exported_program"
_SCHEMA_MAJOR = {5, 6, 7, 8}  # of torch.export; what is read here is the same in all of these
_MUTATING = "auto_functionalized"
_COMPRESSIONS = ZIP_STORED, ZIP_DEFLATED
_MOST_BYTES = 1 << 30  # of JSON; the largest models have a hundredth of it
# Errors from JSON of another shape, or with too deep nesting.
_ODD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)


@dataclass(frozen=True)
class Tensor:
    """What a node makes: sizes, those that vary by the name of their symbol, and the type."""

    sizes: tuple[int | str, ...]
    dtype: str


@dataclass(frozen=True)
class Node:
    """One operator of the graph.

    Attributes:
        name: in the graph.
        operator: with its overload, such as aten.linear.default; of one that writes into its
            arguments, what it wraps.
        target: what the file names as its target.
        debug_handle: of the node; several nodes may share one.
        frames: of its stack, the outermost first, as exported.
        stack: those down to the model's own line.
        module_path: of the innermost module it was called in.
        modules: of the whole way there: (path, class) each, the outermost first.
        inputs: names of the values it reads.
        outputs: names of the tensors it makes.
        constants: its other arguments, by name.
        output: the first tensor that it makes; None where it makes none.
        stack_trace, nn_module_stack: as they stand in the file.
    """

    name: str
    operator: str
    target: str
    debug_handle: int | None
    frames: tuple[Line, ...]
    stack: tuple[Line, ...]
    module_path: str
    modules: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Any]
    output: Tensor | None
    stack_trace: str | None
    nn_module_stack: str | None


@dataclass(frozen=True)
class Delegate:
    """The delegate that an instruction calls: its backend, and the nodes of its debug ids."""

    backend: str
    handles: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Record:
    """An ETRecord, by what a profile needs of it.

    Attributes:
        arguments: names of a call's arguments.
        nodes: in the graph's order.
        tensors: what every value is, inputs and weights included.
        instructions: the debug handles of each instruction, some of them repeatedly.
        delegates: by instruction.
        files: the exporting machine's names of files, by their short ones.
        fingerprint: of the `.pte` that it was written with; empty where it does not tell.
    """

    arguments: tuple[str, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    instructions: Mapping[int, tuple[int, ...]]
    delegates: Mapping[int, Delegate]
    files: Mapping[str, str]
    fingerprint: str = ""


def read_etrecord(path: Path, method: str = "forward") -> Record:
    """Reads what it contains about one method of a program.

    Raises:
        BadRequest: there is no such file, it is not an ETRecord, it is cut or damaged, or a version
            of torch wrote it that is not supported.
    """
    try:
        with ZipFile(path) as archive:
            names = set(archive.namelist())
            if _IDENTIFIER not in names:
                raise BadZipFile  # or, where it is cut, one that lies inside of it
            graphs = (f"{_GRAPH}/{method}", _GRAPH)  # the second where there is one method alone
            graph_name = next((name for name in graphs if name in names), None)
            if graph_name is None or "debug_handle_map" not in names:
                raise BadRequest(
                    f"{path} has no graph of the method {method}; write it with "
                    "thimble-export --etrecord."
                )
            handles = _json(archive, "debug_handle_map")[method]
            delegates = (
                _json(archive, "delegate_map").get(method, {}) if "delegate_map" in names else {}
            )
            program = _json(archive, graph_name)
            fingerprint = archive.comment.decode("ascii", "replace")
        version = program.get("schema_version", {}).get("major")
        if version not in _SCHEMA_MAJOR:
            raise BadRequest(
                f"{path} holds a graph of torch.export's schema {version}; this reads "
                f"{min(_SCHEMA_MAJOR)} to {max(_SCHEMA_MAJOR)}: export again with the torch that "
                "this package asks for."
            )
        record = _record(program["graph_module"], handles, delegates)
        return replace(record, fingerprint=fingerprint)
    except BadRequest:
        raise
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be read ({error.strerror}); name the file that thimble-export "
            "--etrecord wrote."
        ) from error
    except (BadZipFile, EOFError, zlib.error, struct.error) as error:
        if not _begins_as_one(path):
            raise BadRequest(
                f"{path} is not an ETRecord; name the file that thimble-export --etrecord wrote."
            ) from error
        raise BadRequest(f"{path} is cut or damaged; copy it again, or export again.") from error
    except _ODD as error:
        raise BadRequest(f"{path} is damaged; copy it again, or export again.") from error


def _json(archive: ZipFile, name: str) -> Any:
    """Raises BadZipFile if it is compressed otherwise than the exporter does, or beyond reason."""
    entry = archive.getinfo(name)
    if entry.compress_type not in _COMPRESSIONS or entry.file_size > _MOST_BYTES:
        raise BadZipFile
    return json.loads(archive.read(entry))


def _begins_as_one(path: Path) -> bool:
    """Whether the first file in the archive is the one that every ETRecord begins with."""
    with open(path, "rb") as file:
        return _IDENTIFIER.encode() in file.read(64)


def _record(module: dict[str, Any], handles: dict[str, Any], delegates: dict[str, Any]) -> Record:
    graph = module["graph"]
    tensors = {
        name: Tensor(tuple(map(_size, value["sizes"])), _DTYPES.get(value["dtype"], "unknown"))
        for name, value in graph["tensor_values"].items()
    }
    traces = {
        trace: parse_stack(trace)
        for node in graph["nodes"]
        if (trace := node["metadata"].get("stack_trace"))
    }
    stacks = {
        text: _modules(text)
        for node in graph["nodes"]
        if (text := node["metadata"].get("nn_module_stack"))
    }
    files = {line.file for frames in traces.values() for line in frames}
    classes = {kind.rpartition(".")[0] for modules in stacks.values() for _, kind in modules}
    short = ShortNames(files, classes)
    shortened = {trace: _shortened(frames, short) for trace, frames in traces.items()}
    # What is the model's own shows in full names only: a short one may begin anywhere.
    own = {trace: len(own_stack(frames)) for trace, frames in traces.items()}
    nodes = []
    for node in graph["nodes"]:
        metadata = node["metadata"]
        trace, text = metadata.get("stack_trace"), metadata.get("nn_module_stack")
        frames = shortened.get(trace, ())
        modules = stacks.get(text, ())
        handle = metadata.get("debug_handle")
        outputs = [name for output in node["outputs"] for name in _tensor_names(output)]
        nodes.append(
            Node(
                _text(node["name"]),
                _operator(node),
                _text(node["target"]),
                int(handle) if handle is not None else None,
                frames,
                frames[: own.get(trace, 0)],
                modules[-1][0] if modules else "",
                modules,
                tuple(name for item in node["inputs"] for name in _value_names(item["arg"])),
                tuple(outputs),
                {item["name"]: _constant(item["arg"]) for item in node["inputs"]},
                next((tensors[name] for name in outputs if name in tensors), None),
                trace,
                text,
            )
        )
    return Record(
        tuple(_arguments(module["signature"])),
        tuple(nodes),
        tensors,
        {int(number): _numbers(value) for number, value in handles.items()},
        {
            int(number): Delegate(
                _text(value["name"]),
                {str(key): _numbers(ids) for key, ids in (value["delegate_map"] or {}).items()},
            )
            for number, value in delegates.items()
        },
        {short.shorten(file): file for file in files},
    )


def _arguments(signature: dict[str, Any]) -> list[str]:
    given = [spec["user_input"]["arg"] for spec in signature["input_specs"] if "user_input" in spec]
    return [name for value in given for name in _value_names(value)]


def _shortened(frames: tuple[Line, ...], short: ShortNames) -> tuple[Line, ...]:
    return tuple(
        Line(short.shorten(line.file), line.number, line.function, line.text) for line in frames
    )


def _modules(text: str) -> tuple[tuple[str, str], ...]:
    """(path, class) of each level of a module stack, which reads key,path,class;key,..."""
    levels = [level.split(",") for level in text.split(";")]
    return tuple(
        (level[1], level[2]) for level in levels if len(level) == 3 and not level[0].startswith("_")
    )


def _operator(node: dict[str, Any]) -> str:
    """Of an operator that writes into its arguments, the one that was wrapped."""
    target = node["target"]
    if _MUTATING in target:
        wrapped = (item["arg"].get("as_operator") for item in node["inputs"])
        target = next((name for name in wrapped if name), target)
    return target.split(".ops.")[-1].removeprefix("_operator.")


def _numbers(value: int | list[int]) -> tuple[int, ...]:
    return tuple(map(int, value)) if isinstance(value, list) else (int(value),)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value} is no text")
    return value


def _size(size: dict[str, Any]) -> int | str:
    return int(size["as_int"]) if "as_int" in size else _text(size["as_expr"]["expr_str"])


def _tensor_names(value: dict[str, Any]) -> list[str]:
    if "as_tensor" in value:
        return [_text(value["as_tensor"]["name"])]
    return [_text(item["name"]) for item in value.get("as_tensors", [])]


def _value_names(value: dict[str, Any]) -> list[str]:
    names = _tensor_names(value)
    for kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        if "as_name" in value.get(kind, {}):
            names.append(_text(value[kind]["as_name"]))
    for item in value.get("as_sym_ints", []):
        if "as_name" in item:
            names.append(_text(item["as_name"]))
    return names


def _constant(value: dict[str, Any]) -> Any:
    (item,) = value.values()
    return item


# torch.export's numbers of element types.
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
}
