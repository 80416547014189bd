"""Where a call of the system fails, or the process is killed: one sentence, and no file is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.fault_injection import CALLS, LONGEST, SOURCES, Faults
from support.tiers import soaked

STEPS = [97, *soaked([1])]  # between two n of allocations, of which there are a thousand


@pytest.fixture
def faults(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> Faults:
    folder = tmp_path / "files"
    folder.mkdir()
    shutil.copy(stories_cpu_pte, folder / "model.pte")
    return Faults.build(folder, tmp_path / "faults.so")


def runner_of(build: Path, folder: Path, prompt: str) -> list[str | Path]:
    options = ["-n", "3", "--temperature", "0", "--quiet", "--threads", "1"]
    session = ["--session", folder / "session"]
    return [build / "runner", folder / "model.pte", "-p", prompt, *options, *session]


@pytest.mark.parametrize("kills", [False, True], ids=["fails", "is killed"])
@pytest.mark.parametrize("step", STEPS)
def test_every_call_of_a_runner(faults: Faults, cpp_build: Path, step: int, kills: bool) -> None:
    """The session is the old one, complete, or the new one, and the model stays as it is."""
    session, model = faults.folder / "session", faults.folder / "model.pte"
    pte = model.read_bytes()
    subprocess.run(runner_of(cpp_build, faults.folder, "Once"), check=True, capture_output=True)
    old = session.read_bytes()
    command = runner_of(cpp_build, faults.folder, "Once upon a time")
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    new = session.read_bytes()
    assert old != new
    for call in CALLS:
        reached, n = True, 1
        while reached:
            session.write_bytes(old)
            ended, reached = faults.run(command, call, n, kills)
            assert session.read_bytes() in ((old,) if ended.returncode else (new,)), (call, n)
            if ended.returncode == 0:  # also without memory that is not needed
                assert ended.stdout == said and (call == "malloc" or not reached)
            elif not kills:
                assert ended.returncode in (1, 2), (call, n, ended)
                assert ended.stderr.startswith("runner: ") and ended.stderr.count("\n") == 1
                assert {path.name for path in faults.folder.iterdir()} == {"model.pte", "session"}
            else:
                assert ended.returncode == -9
            n += step if call == "malloc" else 1
        assert n > 1, f"no {call} was counted"
    assert model.read_bytes() == pte
    # What killed processes left is removed by the next one.
    subprocess.run(command, check=True, capture_output=True)
    assert {path.name for path in faults.folder.iterdir()} == {"model.pte", "session"}


@pytest.mark.parametrize("step", STEPS)
def test_every_allocation_of_a_call(faults: Faults, step: int) -> None:
    """A function of the library that fails changes nothing: the next call answers as ever."""
    model = faults.folder / "model.pte"
    command = [sys.executable, SOURCES / "calls.py", faults.library, model, faults.folder]
    root = SOURCES.parents[2]
    ended = subprocess.run(
        [*command, "1", str(step)],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        env=os.environ | {"LD_PRELOAD": str(faults.library), "PYTHONPATH": str(root)},
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said.keys() == {"load", "generate", "save", "restore", "set", "fork", "constrain"}
    for sentences in said.values():
        assert "" in sentences and all("\n" not in sentence for sentence in sentences)
        assert not any("export it" in sentence for sentence in sentences)  # the file is sound
    assert any("there is not enough memory" in sentence for sentence in said["load"])


@pytest.mark.check
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_full_disk(faults: Faults, cpp_build: Path) -> None:
    """The session before stays where the new one does not fit."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", faults.folder / "disk"]
    (faults.folder / "disk").mkdir()
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this system lets nobody mount a file system")
    session = faults.folder / "disk" / "session"
    try:
        command = runner_of(cpp_build, faults.folder, "Once upon a time " * 20)
        session.write_bytes(b"old")
        told = subprocess.run([*command[:-1], session], capture_output=True, text=True)
        assert told.returncode == 2 and session.read_bytes() == b"old"  # it is no session
        session.unlink()
        told = subprocess.run([*command[:-1], session], capture_output=True, text=True)
        assert told.returncode == 1 and "No space left on device" in told.stderr
        assert not list(session.parent.iterdir())
    finally:
        subprocess.run(["umount", faults.folder / "disk"], check=True)
