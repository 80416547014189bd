"""A model that is in memory already, as where there are no files to map."""

import subprocess
from pathlib import Path


def run_from_memory(build: Path, model: Path) -> subprocess.CompletedProcess[str]:
    command = [build / "memory_cli", model, "Once upon a time", "40"]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_same_text_as_from_the_file(cpp_build: Path, stories_cpu_pte: Path) -> None:
    options = ["-p", "Once upon a time", "-n", "40", "--threads", "1"]
    mapped = subprocess.run(
        [cpp_build / "runner", stories_cpu_pte, *options], capture_output=True, text=True
    )
    result = run_from_memory(cpp_build, stories_cpu_pte)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == mapped.stdout != ""


def test_damaged_bytes_are_refused(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    data = bytearray(stories_cpu_pte.read_bytes())
    path = tmp_path / "damaged.pte"
    path.write_bytes(data[:-30000])
    assert "the model is truncated: it has" in run_from_memory(cpp_build, path).stderr
    data[100] ^= 1
    path.write_bytes(data)
    result = run_from_memory(cpp_build, path)
    assert result.returncode == 1 and result.stderr.startswith("the model is damaged in its ")
    path.write_bytes(b"")
    assert "the model is not a Thimble program" in run_from_memory(cpp_build, path).stderr
