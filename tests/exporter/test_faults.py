"""Where a call of the system fails in an export, or the process is killed: no file is lost."""

from pathlib import Path

import pytest
from support.fault_injection import Faults
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


@pytest.mark.check
@pytest.mark.parametrize("cases", [CASES, *soaked([SWEEP])], ids=["some", "all"])
def test_exports(cpp_build: Path, tmp_path: Path, cases: list[tuple[str, ...]]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    out = folder / "model.pte"
    out.write_bytes(b"old")
    faults = Faults.build(folder, tmp_path / "faults.so")
    results = faults.forked("exports.py", cases)
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
