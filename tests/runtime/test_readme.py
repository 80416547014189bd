"""The programs that the READMEs print run as they are printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def printed(language: str, readme: str = "README.md", section: str = "") -> str:
    """The first block of that language; a section has one, and so has the top README."""
    text = (ROOT / readme).read_text(encoding="utf-8").partition(section)[2] if section else ""
    text = text.partition("\n## ")[0] or (ROOT / readme).read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return block


def run_python(program: str, directory: Path) -> str:
    """What a program prints that is run in a directory."""
    command = [sys.executable, "-c", f"import sys; sys.path[0] = {str(ROOT)!r}\n{program}"]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def directory(embedded_cpu_pte: Path, tmp_path: Path) -> Path:
    """Where model.pte is."""
    (tmp_path / "model.pte").symlink_to(embedded_cpu_pte)
    return tmp_path


def test_python(cpp_build: Path, directory: Path) -> None:
    assert len(run_python(printed("python"), directory)) > 20


FROM_PYTHON = "## From Python\n"
PLACES = ("cpp/engine", "chat_format", "server")  # below runtime/, each with a page of its own


def test_the_runners_example(cpp_build: Path, directory: Path) -> None:
    said = run_python(printed("python", "runtime/README.md", FROM_PYTHON), directory)
    assert re.search(r"\n\d+ tokens a second\n$", said)


@pytest.mark.check
def test_the_runners_other_examples(cpp_build: Path, directory: Path) -> None:
    """All but those that need a chat template, an adapter, a server or another kind of file."""
    pages = ["README.md", "SESSIONS.md", *(f"{place}/README.md" for place in PLACES)]
    text = "".join((ROOT / "runtime" / page).read_text(encoding="utf-8") for page in pages)
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    others = ("Chat", "ask", "adapter", "openai", "Program", "Embedder")
    chosen = [block for block in blocks[1:] if not any(word in block for word in others)]
    assert len(chosen) == 4
    for program in chosen:
        run_python(program, directory)
    for program in blocks:
        names = ["ruff", "check", "--isolated", "--select", "F821", "--stdin-filename", "x.py", "-"]
        subprocess.run([sys.executable, "-m", *names], input=program, text=True, check=True)


@pytest.mark.check
def test_the_exporters_example(tmp_path: Path) -> None:
    said = run_python(printed("python", "exporter/README.md", FROM_PYTHON), tmp_path)
    size = (tmp_path / "model.pte").stat().st_size
    assert re.fullmatch(rf"model\.pte: {size} bytes, KL 0\.\d+ nats\n", said)


@pytest.mark.check
def test_quantizations_example(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes((ROOT / "exporter/embedded/encyclopedia.txt").read_bytes())
    said = run_python(printed("python", "quant/README.md", FROM_PYTHON), tmp_path)
    assert re.match(r"\d\.\d\d bits a weight, KL 0\.\d+ nats\ntorch\.Size\(\[1, ", said)


def test_c(cpp_build: Path, directory: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) is installed")
    (directory / "main.c").write_text(printed("c"))
    (directory / "runtime").symlink_to(ROOT / "runtime")
    (directory / "build").symlink_to(cpp_build)
    said = re.search(r"From C \(`(cc [^`]+)`\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert said is not None
    subprocess.run(f"{said[1]} -Wall -Werror", shell=True, cwd=directory, check=True)
    program = [directory / "a.out"]
    result = subprocess.run(program, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0 and len(result.stdout) > 20, result.stdout + result.stderr
    (directory / "model.pte").unlink()
    result = subprocess.run(program, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 1 and "model.pte" in result.stdout
