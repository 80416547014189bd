"""Signals that come at an awkward moment, in a process of their own."""

import os
import signal
import subprocess
import sys
from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl
from pathlib import Path

import pytest
from support.tiers import soaked_rows

ROOT = Path(__file__).resolve().parents[2]
START = """
import os, signal
from exporter.command_line.interruption import (
    interruptible, nothing_to_clean_up, raise_if_interrupted, say_from_now
)
"""
SIGNAL = "os.kill(os.getpid(), {number})"


def run(script: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + script.replace("SIGNAL", SIGNAL.format(number=number))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (
            """
with interruptible("Interrupted."):
    try:
        print("at work")
        SIGNAL
        print("not reached")
    finally:
        print("cleaned up")
""",
            "at work\ncleaned up\n",
        ),
        (
            """
with interruptible("Interrupted."):
    try:
        SIGNAL
    except BaseException:
        print("swallowed")
    raise_if_interrupted()
    print("not reached")
""",
            "swallowed\n",
        ),
        (
            """
with interruptible("Interrupted."):
    try:
        SIGNAL
    except BaseException:
        pass
    raise RuntimeError("a module that was imported by half")
""",
            "",
        ),
        (
            """
with interruptible("Interrupted."):
    with nothing_to_clean_up():
        try:
            SIGNAL
        except BaseException:
            print("not reached")
""",
            "",
        ),
    ],
    ids=["cleans up", "swallowed", "a failure that it caused", "nothing to clean up"],
)
def test_it_ends_with_the_signals_number(script: str, printed: str, number: signal.Signals) -> None:
    result = run(script, number)
    assert result.returncode == 128 + number
    assert result.stdout == printed
    assert result.stderr == ("Interrupted.\n" if number == signal.SIGINT else "")


def test_what_is_true_of_it_may_change() -> None:
    script = """
with interruptible("Interrupted; nothing was written."):
    say_from_now("Interrupted; the file was written.")
    SIGNAL
"""
    result = run(script, signal.SIGINT)
    assert (result.returncode, result.stderr) == (130, "Interrupted; the file was written.\n")


@pytest.mark.parametrize(
    ("block", "error", "printed"),
    [
        (
            "nothing_to_clean_up()",
            "OSError('libtorch.so: failed to map segment from shared object')",
            "A library could not be loaded (libtorch.so: failed to map segment from shared object)"
            ": free some memory, or raise its limit (ulimit -v).",
        ),
        (
            "interruptible('')",
            "ImportError('libgomp.so.1: cannot open shared object file')",
            "A library could not be loaded (libgomp.so.1: cannot open shared object file): "
            "install the package again.",
        ),
        (
            "interruptible('')",
            "MemoryError()",
            "There is not enough memory: free some memory, or raise its limit (ulimit -v).",
        ),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(block: str, error: str, printed: str) -> None:
    script = f"with interruptible(''):\n    with {block}:\n        raise {error}"
    result = run(script, signal.SIGINT)
    assert (result.returncode, result.stderr) == (1, f"Error: {printed}\n")


def test_a_line_of_a_block() -> None:
    script = """
from exporter.command_line.interruption import saying
with interruptible("Interrupted."):
    with saying("Interrupted; the build goes on."):
        pass
    SIGNAL
"""
    assert run(script, signal.SIGINT).stderr == "Interrupted.\n"


@pytest.mark.check
def test_standard_output_that_takes_no_more() -> None:
    command = [sys.executable, "-m", "exporter", "--list-delegates"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert result.returncode == 1
    assert result.stderr == (
        "Error: standard output cannot be written (No space left on device).\n"
    )


@pytest.mark.check
@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(
    ("command", "code"),
    [("exporter --help", 0), ("exporter --no-such", 2), *soaked_rows([("quant cache", 0)])],
)
def test_streams_that_were_closed_before(command: str, code: int, closed: tuple[int, ...]) -> None:
    """What was to be printed is missed; what nobody was to read is not."""

    def close() -> None:
        for number in closed:
            os.close(number)

    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=close,
    )
    loses = 1 in closed and code == 0
    assert result.returncode == (1 if loses else code)
    said = "Error: standard output cannot be written (Bad file descriptor).\n"
    if 2 in closed:
        assert result.stderr == ""
    elif code == 0:
        assert result.stderr == (said if loses else "")
    assert "Traceback" not in result.stderr and (1 not in closed or result.stdout == "")


@pytest.mark.check
@pytest.mark.parametrize("command", ["exporter --help", "exporter --no-such", "quant cache"])
def test_readers_that_have_gone(command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    wrong = command.endswith("--no-such")
    assert result.returncode == (2 if wrong else 1)
    assert wrong or result.stderr == ""
    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=write_end,
        timeout=60,
    )
    assert result.returncode == (2 if wrong else 0)
    os.close(write_end)


@pytest.mark.parametrize("waits", [False, True])
def test_an_end_without_finalization(waits: bool) -> None:
    """Where PyTorch is imported: all is written, what is registered for the end runs, and a thread
    that Python waits for ends first."""
    script = f"""
import atexit, threading, time
sys.modules["torch"] = sys
class Late:
    def __del__(self): os.write(1, b"finalized ")
late = Late()
late.itself = late
gc.disable()
def work():
    time.sleep(0.2)
    print("waited", end=" ")
with interruptible("Interrupted."):
    threading.Thread(target=work, daemon={not waits}).start()
    atexit.register(lambda: print("at exit", end=" "))
    print("written", end=" ")
    raise SystemExit(3)
"""
    result = run("import gc, sys\n" + script, signal.SIGINT)
    assert (result.returncode, result.stderr) == (3, "")
    kept = "written waited at exit finalized " if waits else "written at exit "
    assert result.stdout == kept


def test_what_comes_without_a_signal_is_untouched() -> None:
    result = run("with interruptible('Interrupted.'): raise SystemExit(2)", signal.SIGINT)
    assert (result.returncode, result.stderr) == (2, "")


def test_a_signal_that_the_parent_ignores_is_ignored() -> None:
    script = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
with interruptible("Interrupted."):
    SIGNAL
    print("went on")
"""
    result = run(script, signal.SIGINT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "went on\n", "")


@pytest.mark.parametrize("package", ["quant", "devtools"])
def test_a_command_that_is_still_starting(package: str) -> None:
    """Its output is a pipe that is full: it cannot end before the signal comes."""
    command = [sys.executable, "-X", "importtime", "-m", package, "--help"]
    read_end, write_end = os.pipe()
    os.write(write_end, b" " * fcntl(write_end, F_GETPIPE_SZ))
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert process.stderr is not None
    for line in process.stderr:
        if line.endswith(" click.core\n"):
            break
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1].startswith("Interrupted")
    with open(read_end, encoding="utf-8") as output:
        assert output.read().strip() == ""


def test_an_answer_that_is_still_coming(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    command = [sys.executable, "-m", "runtime", "generate", embedded_cpu_pte, "-p", ""]
    command += ["--temperature", "100", "--seed", "4"]  # nonsense, of some 10,000 bytes
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    fcntl(process.stdout, F_SETPIPE_SZ, 4096)  # half of it waits to be read
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.endswith(b"Interrupted.\n")
