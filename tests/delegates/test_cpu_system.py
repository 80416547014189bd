"""What the CPU delegate does where the system refuses it something: less, with the same tokens."""

import ctypes
import json
import os
import platform
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SET_THP_DISABLE = 38, 22, 41  # prctl's
_REQUEST_PERMISSION, _TILE_DATA = 0x1023, 18  # arch_prctl's


def run(
    runner: Path, model: Path, directory: Path, *options: str, before: Callable[[], None]
) -> tuple[str, str]:
    """The text, and what the program says it ran with; `before`: called in its process first."""
    stats = directory / "stats.json"
    command: list[str | Path] = [runner, model, "-p", "Once", "-n", "40", "--json", stats]
    result = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "THIMBLE_KERNELS": ""},
        preexec_fn=before,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(stats.read_text(encoding="utf-8"))["runs_with"]


def nothing() -> None:
    pass


def refuse_huge_pages() -> None:
    """From here on, also in the program that follows, advice to use huge pages is not taken."""
    if ctypes.CDLL(None).prctl(_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("PR_SET_THP_DISABLE")


@linux
def test_huge_pages(cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    runner = cpp_build / "runner"
    expected, in_place = run(runner, embedded_cpu_pte, tmp_path, before=nothing)
    assert in_place.endswith(", weights in place")
    for before in (nothing, refuse_huge_pages):
        text, how = run(runner, embedded_cpu_pte, tmp_path, "--huge-pages", before=before)
        assert text == expected
        found = re.search(
            r", weights in huge pages \((\d+) of (\d+) MB\)$", how.replace(" MB ", " ")
        )
        assert found is not None, how
        huge, size = map(int, found.groups())
        weights = embedded_cpu_pte.stat().st_size >> 20
        assert 2 <= size <= weights  # the weights are most of the file
        assert huge == 0 if before is refuse_huge_pages else 0 <= huge <= size


def has_tiles() -> bool:
    if platform.machine() != "x86_64" or sys.platform != "linux":
        return False
    asked = f"158, {_REQUEST_PERMISSION}, {_TILE_DATA}"
    ask = f"import ctypes; exit(ctypes.CDLL(None).syscall({asked}) != 0)"
    allowed = subprocess.run([sys.executable, "-c", ask]).returncode == 0
    return allowed and " amx_int8 " in Path("/proc/cpuinfo").read_text(encoding="utf-8")


class _Filter(ctypes.Structure):
    """sock_fprog: how many instructions, and where."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_tiles() -> None:
    """A seccomp filter (seccomp(2), classic BPF): arch_prctl(ARCH_REQ_XCOMP_PERM, ...) is refused
    with EPERM, in this process and what it becomes; all else is allowed."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD | W | ABS, BPF_JMP | JEQ | K, BPF_RET | K
    number, first_argument = 0, 16  # offsets in seccomp_data; the argument's low half
    allow, refuse = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ALLOW, _ERRNO | EPERM
    program = [
        (load, 0, 0, number),
        (equal, 0, 3, 158),  # x86-64's arch_prctl
        (load, 0, 0, first_argument),
        (equal, 0, 1, _REQUEST_PERMISSION),
        (give, 0, 0, refuse),
        (give, 0, 0, allow),
    ]
    instructions = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    rules = _Filter(len(program), instructions)
    if prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0 or (
        prctl(_SET_SECCOMP, 2, ctypes.byref(rules), 0, 0) != 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


@pytest.mark.skipif(not has_tiles(), reason="this CPU or its kernel has no AMX to refuse")
def test_without_the_permission_to_use_tiles(
    cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path
) -> None:
    """avx512vnni takes the place of amx_int8, and says the same."""
    expected, allowed = run(cpp_build / "runner", embedded_cpu_pte, tmp_path, before=nothing)
    assert allowed.startswith("kernels amx_int8, ")
    text, refused = run(cpp_build / "runner", embedded_cpu_pte, tmp_path, before=refuse_tiles)
    assert text == expected
    assert refused.startswith("kernels avx512vnni, ")


@pytest.mark.skipif(not has_tiles(), reason="this CPU or its kernel has no AMX to refuse")
def test_tiles_that_are_forced_and_refused(cpp_build: Path) -> None:
    result = subprocess.run(
        [cpp_build / "kernel_select_test", "--selected"],
        capture_output=True,
        text=True,
        env={**os.environ, "THIMBLE_KERNELS": "amx_int8"},
        preexec_fn=refuse_tiles,
    )
    assert result.returncode != 0
    assert (
        "THIMBLE_KERNELS is amx_int8, which this CPU cannot run: set it to one of avx512vnni, "
        in (result.stdout + result.stderr)
    )
