"""The programs that README.md prints run as they are printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def printed(language: str) -> str:
    """The one block of that language."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return block


@pytest.fixture
def directory(embedded_cpu_pte: Path, tmp_path: Path) -> Path:
    """Where model.pte is."""
    (tmp_path / "model.pte").symlink_to(embedded_cpu_pte)
    return tmp_path


def test_python(cpp_build: Path, directory: Path) -> None:
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path[0] = {str(ROOT)!r}\n{printed('python')}",
    ]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout) > 20


def test_c(cpp_build: Path, directory: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) is installed")
    source = directory / "example.c"
    source.write_text(f'#include <stdio.h>\n#include "thimble.h"\n\n{printed("c")}')
    include = ROOT / "runtime" / "cpp" / "runner"
    command = [compiler, "-Wall", "-Werror", "-I", include, source, cpp_build / "libthimble.so"]
    command += [f"-Wl,-rpath,{cpp_build}", "-o", directory / "example"]
    subprocess.run(command, check=True)
    result = subprocess.run([directory / "example"], cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0 and len(result.stdout) > 20, result.stdout + result.stderr
