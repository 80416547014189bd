"""What a `.pte` says of memory: the runtime's plan, and the CPU delegate's list of operators.

Only the program itself is read, not the weights. The formats are ExecuTorch's program.fbs, read by
the classes that its package has for it, and delegates/cpu/program.fbs.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from devtools.errors import BadRequest
from devtools.report.op_list import OpList, read_op_list

if TYPE_CHECKING:
    from executorch.exir import schema

_HEADER = struct.Struct("<4x4s4sIQQQ")  # "ET12", "eh00", length, program size, base, data size
_ITEM_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 15: 2}  # by ScalarType
_CPU_DELEGATE = "ThimbleCpuBackend"
_REPORT = "thimble.report"


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
    """The method `forward` of a `.pte`.

    Attributes:
        arenas: sizes of the planned buffers in bytes, by their number.
        inputs, outputs: values that the caller hands over, and gets.
        report: what the exporter wrote into the file about the model; empty where it did not.
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


def read_program(path: Path) -> Program:
    """
    Raises:
        BadRequest: no such file, or no whole ExecuTorch program.
    """
    try:
        with open(path, "rb") as file:
            return _read(path, file)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({error.strerror}); name a .pte.") from None
    except (struct.error, IndexError, UnicodeDecodeError, json.JSONDecodeError):
        raise BadRequest(f"{path} is cut short or damaged; copy or export it again.") from None


def _read(path: Path, file: BinaryIO) -> Program:
    from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
    from executorch.exir.schema import DataLocation

    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or head[4:6] != b"ET" or head[8:12] != b"eh00":
        raise BadRequest(f"{path} is not an ExecuTorch program; name a .pte.")
    *_, program_size, base, data_size = _HEADER.unpack(head)
    file_bytes = file.seek(0, 2)
    if file_bytes < base + data_size:
        raise BadRequest(
            f"{path} is cut short: {file_bytes} bytes of {base + data_size}; copy it again."
        )
    program = _flatbuffer_to_program(_bytes(file, 0, program_size))
    places = [(base + segment.offset, segment.size) for segment in program.segments]
    named = {item.key: places[item.segment_index] for item in program.named_data or []}
    plan = next((item for item in program.execution_plan if item.name == "forward"), None)
    if plan is None:
        raise BadRequest(f"{path} has no method named forward; name a .pte of a language model.")
    sizes = {key: size for key, (_, size) in named.items()}
    delegates = []
    for item in plan.delegates:
        op_list = None
        if item.id == _CPU_DELEGATE:
            data = item.processed
            if data.location is DataLocation.SEGMENT:
                op_list = read_op_list(_bytes(file, *places[data.index]), sizes)
            else:
                op_list = read_op_list(program.backend_delegate_data[data.index].data, sizes)
        delegates.append(Delegate(item.id, op_list))
    return Program(
        path=path,
        file_bytes=file_bytes,
        arenas={i: size for i, size in enumerate(plan.non_const_buffer_sizes) if i and size},
        inputs=tuple(plan.inputs),
        outputs=tuple(plan.outputs),
        planned=tuple(_planned(plan)),
        instructions=tuple(_instruction(plan, item) for item in plan.chains[0].instructions),
        delegates=tuple(delegates),
        report=json.loads(_bytes(file, *named[_REPORT])) if _REPORT in named else {},
    )


def _bytes(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _planned(plan: "schema.ExecutionPlan") -> list[Planned]:
    from executorch.exir.schema import Tensor

    found = []
    for number, value in enumerate(plan.values):
        tensor = value.val
        if not isinstance(tensor, Tensor) or tensor.allocation_info is None:
            continue
        place = tensor.allocation_info
        found.append(
            Planned(
                value=number,
                sizes=tuple(tensor.sizes),
                arena=place.memory_id,
                offset=(place.memory_offset_high << 32) + place.memory_offset_low,
                size=prod(tensor.sizes) * _ITEM_BYTES[tensor.scalar_type],
            )
        )
    return found


def _instruction(plan: "schema.ExecutionPlan", instruction: "schema.Instruction") -> Instruction:
    from executorch.exir.schema import DelegateCall, KernelCall

    step = instruction.instr_args
    if isinstance(step, KernelCall):
        operator = plan.operators[step.op_index]
        name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        return Instruction(name, None, tuple(step.args))
    if isinstance(step, DelegateCall):
        return Instruction("", step.delegate_index, tuple(step.args))
    return Instruction("", None, ())
