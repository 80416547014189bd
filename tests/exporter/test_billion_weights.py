"""A model of Llama 3.2 1B's exact shape, random weights: it exports in bounded memory and runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

REPOSITORY = Path(__file__).resolve().parents[2]
# ExecuTorch's own export of this shape peaks at 8.9 GB; half of that is the bound.
PEAK_BYTES = 4_450_000_000


@pytest.fixture(scope="module")
def checkpoint(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("billion") / "llama3.2-1b"
    script = shared_data.parent / "tools" / "make_checkpoint.py"
    subprocess.run([sys.executable, script, "llama3.2-1b", directory], check=True)
    tokenizer = shared_data / "tokenizers" / "llama3_tokenizer.model"
    (directory / "tokenizer.model").symlink_to(tokenizer)
    return directory


def test_exports_in_half_the_memory_and_runs(
    checkpoint: Path, cpp_build: Path, tmp_path: Path
) -> None:
    model, stats = tmp_path / "model.pte", tmp_path / "stats.json"
    command = ["-m", "exporter", str(checkpoint), "--quant", "rtn4", "--out", str(model)]
    process = subprocess.Popen([sys.executable, *command], cwd=REPOSITORY)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_maxrss * 1024 <= PEAK_BYTES

    # 16 layers at 4.5 bits, embedding and head at 8: 0.55 + 2 x 0.26 GB, and the tokenizer.
    assert model.stat().st_size < 1.2e9
    subprocess.run(
        [cpp_build / "runner", model, "-p", "Once", "-n", "4", "--json", stats], check=True
    )
    assert json.loads(stats.read_text())["generated_tokens"] == 4


def test_lowers_to_core_ml_in_less_than_a_gigabyte(checkpoint: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pte"
    command = ["-m", "exporter", str(checkpoint), "--quant", "rtn4", "--out", str(model)]
    subprocess.run([sys.executable, *command, "--delegate", "coreml"], cwd=REPOSITORY, check=True)
    # 16 layers at 4.5 bits, one table of 8 bits for embedding and head: 0.55 + 0.26 GB.
    assert model.stat().st_size < 0.9e9
