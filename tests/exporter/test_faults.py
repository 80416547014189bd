"""Where a call of the system fails in an export, or the process is killed: no file is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fault_injection import LONGEST, SOURCES, Faults
from support.tiers import soaked

CASES = [
    ("write", "1", "0", " cannot store more (No space left on device) and nothing was written; "),
    ("rename", "1", "0", " cannot be written (Input/output error) and nothing was changed; "),
    ("rename", "1", "1", ""),
]
SWEEP = [  # every call but the first write, which writes the program, and those after the last
    *((call, str(n), "0", "") for call in ("write", "mmap") for n in range(1, 9)),
    *(("write", str(n), "1", "") for n in range(1, 9)),
]


def exports(faults: Faults, cases: list[tuple[str, ...]]) -> list[tuple[int, int, str]]:
    """How each export ended, what was left of its n, and the sentence of its error."""
    command = [sys.executable, SOURCES / "exports.py", faults.library, faults.folder]
    ended = subprocess.run(
        [*command, *(":".join(case[:3]) for case in cases)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LONGEST * 10,
        env=os.environ | {"LD_PRELOAD": str(faults.library), "PYTHONPATH": str(SOURCES.parents[2])},
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    return [tuple(json.loads(line)) for line in lines]


@pytest.mark.check
@pytest.mark.parametrize("cases", [CASES, *soaked([SWEEP])], ids=["some", "all"])
def test_exports(cpp_build: Path, tmp_path: Path, cases: list[tuple[str, ...]]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    out = folder / "model.pte"
    out.write_bytes(b"old")
    faults = Faults.build(folder, tmp_path / "faults.so")
    results = exports(faults, cases)
    assert len(results) == len(cases)
    for (_, _, kills, said), (status, left, sentence) in zip(cases, results, strict=True):
        if kills == "1" and status == -9:
            continue
        assert status == 0 and "Traceback" not in sentence, sentence
        assert said in sentence and (sentence or left > 0)
    is_new = any(left > 0 and not sentence for _, left, sentence in results)
    assert is_new or out.read_bytes() == b"old"
    left = {path.name for path in folder.iterdir()} - {out.name}
    killed = sum(status == -9 for status, _, _ in results)
    assert len(left) <= killed  # those of killed processes, which the next export removes
