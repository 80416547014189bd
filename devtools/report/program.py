"""What a `.pte` contains about memory: the runtime's plan, and the CPU delegate's op list.

Only the program itself is read, not the weights. The formats are ExecuTorch's
exir/_serialize/program.fbs and delegates/op_list/program.fbs. Read here, and not through
ExecuTorch, whose import takes seconds.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from devtools.errors import BadRequest
from devtools.profile.profile_types import FORWARD
from devtools.report.flatbuffer import Damaged, Table
from devtools.report.op_list import OpList, read_op_list

_HEADER = struct.Struct("<4x4s4sIQQQ")  # "ET12", "eh00", length, program size, base, data size
_FOOTER = struct.Struct("<II8s")  # of the exporter's integrity record: its size, CRC-32, "THIMBLE1"
_FOOTER_MAGIC = b"THIMBLE1"
_ITEM_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 15: 2}  # by ScalarType
_CPU_DELEGATE = "ThimbleCpuBackend"
_REPORT = "thimble.report"

# Numbers of fields in the schema's tables, and of members in its unions.
_PLANS, _INLINE, _SEGMENTS, _NAMED = 1, 3, 4, 7
_NAME, _VALUES, _INPUTS, _OUTPUTS, _CHAINS, _OPERATORS, _DELEGATES, _ARENAS = 0, 2, 3, 4, 5, 6, 7, 8
_SCALAR_TYPE, _SIZES, _ALLOCATION = 0, 2, 6
_INSTRUCTIONS = 2
_TENSOR = 5
_KERNEL_CALL, _DELEGATE_CALL = 1, 2
_SEGMENT = 1


@dataclass(frozen=True)
class Planned:
    """A tensor that the memory plan has a place for.

    Attributes:
        value: its number in the program.
        sizes: the largest that it can have.
        arena: the number of the buffer that it lies in.
        offset, size: bytes in that buffer.
    """

    value: int
    sizes: tuple[int, ...]
    arena: int
    offset: int
    size: int


@dataclass(frozen=True)
class Instruction:
    """What the runtime does in one step.

    Attributes:
        operator: the name of a kernel, such as aten::mul.out; empty for others.
        delegate: the number of the delegate that is called; None for others.
        values: the values that it reads or writes; a kernel's last one is what it writes.
    """

    operator: str
    delegate: int | None
    values: tuple[int, ...]


@dataclass(frozen=True)
class Delegate:
    """One part of the program that a delegate runs; op_list: of the CPU delegate."""

    backend: str
    op_list: OpList | None


@dataclass(frozen=True)
class Program:
    """A method of a `.pte`.

    Attributes:
        arenas: sizes of the planned buffers in bytes, by their number.
        inputs, outputs: values that the caller passes, and gets.
        report: what the exporter wrote into the file about the model; empty if it did not.
        fingerprint: what the runner records about the file that it runs; None for a file without
            the exporter's record of checksums.
    """

    path: Path
    file_bytes: int
    arenas: Mapping[int, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    planned: tuple[Planned, ...]
    instructions: tuple[Instruction, ...]
    delegates: tuple[Delegate, ...]
    report: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None

    @property
    def backends(self) -> dict[int, str]:
        """The backend of each instruction that calls a delegate, by the instruction's number."""
        return {
            number: self.delegates[item.delegate].backend
            for number, item in enumerate(self.instructions)
            if item.delegate is not None
        }


def read_program(path: Path, method: str = FORWARD) -> Program:
    """
    Raises:
        BadRequest: there is no such file, it is not a complete ExecuTorch program, or has no such
            method.
    """
    try:
        with open(path, "rb") as file:
            return _read(path, file, method)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({error.strerror}); name a .pte.") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise BadRequest(f"{path} is damaged; copy or export it again.") from None


def _read(path: Path, file: BinaryIO, method: str) -> Program:
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or head[4:6] != b"ET" or head[8:12] != b"eh00":
        raise BadRequest(f"{path} is not an ExecuTorch program; name a .pte.")
    *_, program_size, base, data_size = _HEADER.unpack(head)
    file_bytes = file.seek(0, 2)
    if file_bytes < max(program_size, base + data_size):
        raise BadRequest(
            f"{path} is cut: it holds {file_bytes} of its {base + data_size} bytes; copy it again."
        )
    program = Table.root(_bytes(file, 0, program_size))
    places = [
        (base + segment.number(0, "<Q"), segment.number(1, "<Q"))
        for segment in program.tables(_SEGMENTS)
    ]
    named = {item.text(0): places[item.number(1)] for item in program.tables(_NAMED)}
    plans = {plan.text(_NAME): plan for plan in program.tables(_PLANS)}
    plan = plans.get(method)
    if plan is None:
        raise BadRequest(f"{path} has no method {method}; it has {', '.join(plans)}.")
    sizes = {key: size for key, (_, size) in named.items()}
    delegates = []
    for item in plan.tables(_DELEGATES):
        backend, op_list, data = item.text(0), None, item.table(1)
        if backend == _CPU_DELEGATE and data is not None:
            index = data.number(1)
            if data.number(0, "<b") == _SEGMENT:
                blob = _bytes(file, *places[index])
            else:
                blob = program.tables(_INLINE)[index].bytes(0)
            op_list = read_op_list(blob, sizes)
        delegates.append(Delegate(backend, op_list))
    arenas = plan.numbers(_ARENAS, "<q")
    (chain,) = plan.tables(_CHAINS)
    operators = [_operator_name(item) for item in plan.tables(_OPERATORS)]
    return Program(
        path=path,
        file_bytes=file_bytes,
        arenas={index: size for index, size in enumerate(arenas) if index and size},
        inputs=plan.numbers(_INPUTS, "<i"),
        outputs=plan.numbers(_OUTPUTS, "<i"),
        planned=tuple(_planned(plan)),
        instructions=tuple(_instruction(item, operators) for item in chain.tables(_INSTRUCTIONS)),
        delegates=tuple(delegates),
        report=_report(file, named, method),
        fingerprint=_fingerprint(file, file_bytes),
    )


def _report(file: BinaryIO, named: Mapping[str, tuple[int, int]], method: str) -> Mapping[str, Any]:
    """The exporter's report of a method, with what it says of the whole file."""
    if _REPORT not in named:
        return {}
    report = json.loads(_bytes(file, *named[_REPORT]))
    return {**report, **report.get("methods", {}).get(method, {})}


def _fingerprint(file: BinaryIO, file_bytes: int) -> str | None:
    """The checksum of the record of all checksums, and the size of the data that they cover, in one
    number (PteFile::fingerprint)."""
    end = file_bytes - _FOOTER.size
    record_size, crc, magic = _FOOTER.unpack(_bytes(file, end, _FOOTER.size))
    return str(crc << 32 ^ end - record_size) if magic == _FOOTER_MAGIC else None


def _bytes(file: BinaryIO, offset: int, size: int) -> bytes:
    """Raises Damaged if the file ends before them."""
    if not 0 <= offset <= file.seek(0, 2) - size:
        raise Damaged
    file.seek(offset)
    return file.read(size)


def _operator_name(operator: Table) -> str:
    name, overload = operator.text(0), operator.text(1)
    return f"{name}.{overload}" if overload else name


def _planned(plan: Table) -> list[Planned]:
    buffers = []
    for number, value in enumerate(plan.tables(_VALUES)):
        tensor = value.table(1) if value.number(0, "<B") == _TENSOR else None
        place = tensor.table(_ALLOCATION) if tensor is not None else None
        if tensor is None or place is None:
            continue
        sizes = tensor.numbers(_SIZES, "<i")
        buffers.append(
            Planned(
                value=number,
                sizes=sizes,
                arena=place.number(0),
                offset=(place.number(2) << 32) + place.number(1),
                size=prod(sizes) * _ITEM_BYTES[tensor.number(_SCALAR_TYPE, "<b")],
            )
        )
    return buffers


def _instruction(instruction: Table, operators: list[str]) -> Instruction:
    kind, step = instruction.number(0, "<B"), instruction.table(1)
    if step is not None and kind == _KERNEL_CALL:
        return Instruction(operators[step.number(0, "<i")], None, step.numbers(1, "<i"))
    if step is not None and kind == _DELEGATE_CALL:
        return Instruction("", step.number(0, "<i"), step.numbers(1, "<i"))
    return Instruction("", None, ())
