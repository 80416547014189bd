"""The report's model beside its recording: another's is refused, and what no delegate took has its
own time."""

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.recorded_runs import Recorded

from devtools.commands.cli import main
from devtools.profile import load_profile
from devtools.report.delegation import delegation_map
from devtools.report.program import read_program


@pytest.mark.check
@pytest.mark.parametrize(
    ("ran", "given"), [("cpu", "xnnpack"), ("xnnpack", "cpu"), ("cpu", "tiny")]
)
def test_another_programs_file_is_refused(
    recorded: Recorded,
    embedded_cpu_pte: Path,
    embedded_pte: Path,
    stories_cpu_pte: Path,
    tmp_path: Path,
    ran: str,
    given: str,
) -> None:
    """On another delegate, or of another number of layers on the same one."""
    etdump, etrecord = recorded("embedded_cpu_pte" if ran == "cpu" else "embedded_pte")
    pte = {"cpu": embedded_cpu_pte, "xnnpack": embedded_pte, "tiny": stories_cpu_pte}[given]
    differs = {
        "cpu": "instruction 0 ran on the runtime, and is for ThimbleCpuBackend in it",
        "xnnpack": "instruction 0 ran on ThimbleCpuBackend, and is for the runtime in it",
        "tiny": "the delegate at instruction 0 has other operators in it",
    }[given]
    out = tmp_path / "report.html"
    arguments = ["report", etdump, "--etrecord", etrecord, "--pte", pte, "--out", out]
    result = CliRunner().invoke(main, [str(word) for word in arguments])
    assert result.exit_code == 2 and result.stdout == "" and not out.exists()
    assert result.stderr == (
        f"Error: {etdump} was recorded from another program than {pte}: {differs}; give the .pte "
        "that ran.\n"
    )


def test_a_damaged_file_is_not_another_program(
    recorded: Recorded, embedded_cpu_pte: Path, tmp_path: Path
) -> None:
    data = bytearray(embedded_cpu_pte.read_bytes())
    data[data.index(b"ThimbleCpuBackend") + 5] ^= 1
    pte = tmp_path / "model.pte"
    pte.write_bytes(data)
    etdump, etrecord = recorded("embedded_cpu_pte")
    arguments = [
        "report",
        etdump,
        "--etrecord",
        etrecord,
        "--pte",
        pte,
        "--out",
        tmp_path / "r.html",
    ]
    result = CliRunner().invoke(main, [str(word) for word in arguments])
    assert result.exit_code == 2
    assert result.stderr == f"Error: {pte} is damaged in its program; copy or export it again.\n"


@pytest.mark.check
def test_time_of_what_is_left_is_counted_once(embedded_pte: Path, recorded: Recorded) -> None:
    """Each operator at a line has its own events' time, however many reasons it has."""
    profile = load_profile(*recorded("embedded_pte"))
    left = delegation_map(profile, read_program(embedded_pte)).left
    kernels = [event for call in profile.calls for event in call.events if event.backend is None]
    times = Counter[tuple[str, str]]()
    for event in kernels:
        assert event.line is not None
        times[event.op_kind, event.line.location] += event.duration_ns
    kinds = {"llama::custom_sdpa": "attention", "llama::update_cache": "cache", "mean": "mean"}
    found = {(item.operator, item.location): item for item in left}
    assert len(found) == len(left)
    (attention,) = [item for item in left if item.operator == "llama::custom_sdpa"]
    assert ("llama::update_cache", attention.location) in found  # two operators of one line
    for item in left:
        if item.operator in kinds:
            assert item.time_ns == times[kinds[item.operator], item.location]
    assert all(item.time_ns is not None for item in left)
    unlisted = sum(event.duration_ns for event in kernels if event.op_kind in ("size", "add"))
    whole = sum(event.duration_ns for event in kernels)
    assert sum(item.time_ns or 0 for item in left) == whole - unlisted
