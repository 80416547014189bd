"""A runner that is interrupted in the midst of an answer, however fast it speaks."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path


def interrupt(
    command: list[str | Path], lines: str = "", number: signal.Signals = signal.SIGINT
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command that catches a signal, and sends it one while it answers.

    Nobody reads what it says until then: a full pipe keeps the answer from ending.
    """
    read_end, write_end = os.pipe()
    filled = _fill(write_end)
    process = subprocess.Popen(
        ["env", f"--default-signal={number.name[3:]}", *command],  # tests may run under nohup
        stdin=subprocess.PIPE,
        stdout=write_end,
        stderr=subprocess.PIPE,
    )
    os.close(write_end)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(lines.encode())
    process.stdin.close()
    while not (_catches(process.pid, number) and _is_held_up(process.pid)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(number)
    with open(read_end, "rb") as pipe:
        text = pipe.read()[filled:]
    errors = process.stderr.read()
    process.stderr.close()
    code = process.wait(timeout=60)
    return subprocess.CompletedProcess(command, code, text, errors)


def _fill(pipe: int) -> int:
    """Leaves no room in a pipe; how many bytes that took."""
    filled = 0
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            filled += os.write(pipe, b" " * 4096)
    os.set_blocking(pipe, True)
    return filled


def _catches(process: int, number: int) -> bool:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught & 1 << (number - 1))


def _is_held_up(process: int) -> bool:
    """Whether a thread waits for room in a pipe; or just waits, where the system tells no more."""
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError):
            place = (task / "wchan").read_text()
            waits = "\nState:\tS" in (task / "status").read_text()
            if "pipe_w" in place or (waits and place in ("", "0")):
                return True
    return False
