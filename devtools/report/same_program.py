"""Whether a `.pte` is the program that a profile was recorded from."""

from collections.abc import Mapping

from devtools.errors import BadRequest
from devtools.profile.profile_types import Profile
from devtools.report.program import Program

_RUNTIME = "the runtime"


def check_same_program(profile: Profile, program: Program) -> None:
    """Compares the backend of each instruction, the ids of the CPU delegate's operators, and the
    fingerprint of the file that ran, if the run recorded it, else that of the file that the
    ETRecord was written with.

    Raises:
        BadRequest: the program is another one, or has other weights.
    """
    difference = _difference(_steps_that_ran(profile), _steps_of(program))
    if difference is None:
        difference = _difference_inside(profile, program)
    if difference is not None:
        raise BadRequest(
            f"{profile.etdump} was recorded from another program than {program.path}: "
            f"{difference}; give the .pte that ran."
        )
    known = profile.facts.get("fingerprint")
    source, fingerprint = (
        (profile.etrecord, profile.written_with) if known is None else (profile.etdump, known)
    )
    if fingerprint and program.fingerprint is not None and fingerprint != program.fingerprint:
        raise BadRequest(
            f"{source} is of another export than {program.path}, such as one of other weights or "
            "of another quantization; give the .pte that ran."
        )


def _steps_that_ran(profile: Profile) -> dict[int, str]:
    """The backend of each recorded instruction, or the runtime itself."""
    steps = {}
    for call in profile.calls:
        for item in call.delegate_calls:
            steps[item.instruction_id] = item.backend
        for event in call.events:
            if event.backend is None and event.instruction_id is not None:
                steps[event.instruction_id] = _RUNTIME
    return steps


def _steps_of(program: Program) -> dict[int, str]:
    """The same of the program's instructions; those that only move values are never recorded."""
    kernels = (n for n, item in enumerate(program.instructions) if item.operator)
    return {**dict.fromkeys(kernels, _RUNTIME), **program.backends}


def _difference(ran: Mapping[int, str], here: Mapping[int, str]) -> str | None:
    for number in sorted({*ran, *here}):
        if number not in here:
            return f"it has no instruction {number}"
        if number not in ran:
            return f"its instruction {number} never ran"
        if ran[number] != here[number]:
            return f"instruction {number} ran on {ran[number]}, and is for {here[number]} in it"
    return None


def _difference_inside(profile: Profile, program: Program) -> str | None:
    """Of the CPU delegate's operators, which are all recorded in every call."""
    ran: dict[int, set[int | str | None]] = {}
    for event in profile.calls[-1].events if profile.calls else ():
        if event.instruction_id is not None:
            ran.setdefault(event.instruction_id, set()).add(event.delegate_debug_id)
    for number, item in enumerate(program.instructions):
        op_list = None if item.delegate is None else program.delegates[item.delegate].op_list
        if op_list is not None:
            listed = {debug_id for operator in op_list.operators for debug_id in operator.debug_ids}
            if listed != ran.get(number):
                return f"the delegate at instruction {number} has other operators in it"
    return None
