"""Exports in a process of their own that run out of room or are interrupted: nothing is left."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.tiers import checked, soaked

from exporter.file.pte import verify

OLD = b"the file that was there before"
ROOT = Path(__file__).resolve().parents[2]


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(one_layer_checkpoint: Path, calibration_text: Path, out: Path) -> Start:
    """Starts an export to `out`, which may write files of at most `limit` bytes, some of its
    standard streams closed; `flags` are Python's."""

    def run(
        limit: int | None = None, flags: Sequence[str] = (), closed: Sequence[int] = ()
    ) -> subprocess.Popen[str]:
        def prepare() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            for number in closed:
                os.close(number)

        command = [
            sys.executable,
            *flags,
            "-m",
            "exporter",
            one_layer_checkpoint,
            "--quant",
            "none",
        ]
        command += ["--calibration", calibration_text, "--out", out]
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=prepare,
        )

    return run


def _wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the export ended before it said {text!r}: {process.wait()}")


def _is_untouched(out: Path) -> bool:
    return out.read_bytes() == OLD and list(out.parent.iterdir()) == [out]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    path.write_bytes(OLD)
    return path


@pytest.mark.check
def test_a_file_is_kept_though_standard_output_is_closed(start: Start, out: Path) -> None:
    process = start(closed=[1])
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1 and stdout == ""
    assert stderr.splitlines()[-2:] == [
        f"{out} was written; the summary could not be printed.",
        "Error: standard output cannot be written (Bad file descriptor).",
    ]
    verify(out, everything=True)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.check
def test_a_file_is_kept_though_its_readers_have_gone(start: Start, out: Path) -> None:
    process = start()
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=300) == 1
    verify(out, everything=True)


@pytest.mark.check
def test_no_room_for_the_file(start: Start, out: Path) -> None:
    process = start(limit=200_000)  # the file takes twice that
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1 and stdout == ""
    assert stderr.splitlines()[-1] == (
        f"Error: The disk of {out} cannot store more (File too large) and nothing was written; "
        "free some space or choose another place."
    )
    assert _is_untouched(out)


@pytest.mark.parametrize("number", [*checked([signal.SIGINT]), *soaked([signal.SIGTERM])])
def test_a_signal_in_the_middle(start: Start, out: Path, number: signal.Signals) -> None:
    process = start()
    _wait_for_line(process, "Capturing")
    while _is_untouched(out) and process.poll() is None:  # until the temporary file is there
        time.sleep(0.01)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert stdout == ""
    is_told = stderr.endswith("Interrupted; nothing was written.\n")
    assert is_told == (number == signal.SIGINT) and "Traceback" not in stderr
    assert _is_untouched(out)


@pytest.mark.parametrize("number", [signal.SIGINT, *checked([signal.SIGTERM])])
@pytest.mark.parametrize("module", ["torch.nn", *checked(["click.core", "numpy"])])
def test_a_signal_while_libraries_are_imported(
    start: Start, out: Path, module: str, number: signal.Signals
) -> None:
    """They catch exceptions that a signal's handler raises in them; the command ends nonetheless,
    whichever of them is at it when the module named here is imported."""
    process = start(flags=["-X", "importtime"])
    _wait_for_line(process, f" {module}\n")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 128 + number and stdout == ""
    said = "Interrupted; nothing was written." if number == signal.SIGINT else ""
    ours = [line for line in stderr.splitlines() if not line.startswith("import time:")]
    rest = [line for line in ours if line != "Starting PyTorch"]
    assert "\n".join(rest) == said
    assert _is_untouched(out)
