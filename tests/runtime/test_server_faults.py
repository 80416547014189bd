"""Where the memory of a server's model ends: a sentence, or its process ends and another begins. No
request waits for ever, and no answer is another one."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.fault_injection import Faults
from support.tiers import checked, soaked


@pytest.mark.parametrize("step", [*checked([211]), *soaked([1])])
def test_every_allocation_of_a_served_model(
    cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path, step: int
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    shutil.copy(stories_cpu_pte, folder / "model.pte")
    faults = Faults.build(folder, tmp_path / "faults.so")

    def run(*cases: str) -> list[tuple[int, list[str]]]:
        return faults.script("served.py", folder, *cases)

    ((allocations, (right, again)),) = run("malloc:0")
    assert right == again and allocations > 1000
    results = run("mmap:1", *(f"malloc:{n}" for n in range(1, allocations, step)))
    assert "cannot map" in results[0][1][0]
    for _, told in results:
        assert all(said in (right, "died") or said.startswith("refused: ") for said in told), told
        assert not any("export it" in said or "is null" in said for said in told), told


@pytest.mark.parametrize("step", [*checked([7]), *soaked([1])])
def test_every_allocation_of_an_engine_that_closes(
    cpp_build: Path, embedded_cpu_pte: Path, tmp_path: Path, step: int
) -> None:
    faults = Faults.build(tmp_path, tmp_path / "faults.so")

    def run(numbers: Iterable[int]) -> list[tuple[int, int, bool]]:
        return faults.script("closed.py", embedded_cpu_pte, *map(str, numbers))

    ((_, allocations, _),) = run([0])
    assert allocations > 100
    results = run(range(1, allocations, step))
    assert all(status == 0 and ended for status, _, ended in results), results
    assert any(left < 0 for _, left, _ in results)  # those after the first failed too
