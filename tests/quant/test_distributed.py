"""Several processes quantize one model: the bits of one, and nothing hangs when one dies."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from support.families.qwen3_moe import MIXTURE
from support.family_models import Case, reference_model
from support.hybrid_models import HYBRIDS, SHARED
from support.tiers import soaked
from support.torchrun import Starter, entries, finish

from exporter.catalogue.names import EMBEDDED
from quant.errors import QuantError
from quant.machine.ranks import Ranks

BEFORE = 2  # files in front of the layers': what bits cost each part, and the two ends


@pytest.fixture(scope="module")
def starter(shared_data: Path) -> Starter:
    return Starter(
        shared_data / "stories260K", shared_data / "text" / "tinystories_calibration.txt"
    )


@pytest.fixture(scope="module")
def alone(starter: Starter, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The cache's files of one process."""
    directory = tmp_path_factory.mktemp("alone")
    process = starter.start(1, directory)
    out, error = process.communicate()
    assert process.returncode == 0, error
    assert "5 layers" in out and "KL 0.0" in out
    return entries(directory)


@pytest.mark.soak  # the run that resumes ends alike
def test_two_are_bit_identical_to_one(
    starter: Starter, alone: dict[str, bytes], tmp_path: Path
) -> None:
    finish(starter.start(2, tmp_path))
    assert entries(tmp_path) == alone and len(alone) == BEFORE + 5 + 1  # and the quality


@pytest.mark.soak
def test_four_are_bit_identical_to_one(
    starter: Starter, alone: dict[str, bytes], tmp_path: Path
) -> None:
    finish(starter.start(4, tmp_path))
    assert entries(tmp_path) == alone


@pytest.mark.soak
def test_one_that_dies_stops_the_others_and_the_run_resumes(
    starter: Starter, alone: dict[str, bytes], tmp_path: Path
) -> None:
    process = starter.start(2, tmp_path)
    while process.poll() is None and len(entries(tmp_path)) <= BEFORE:
        time.sleep(0.05)
    victim = next(pid for pid in children(process.pid) if rank(pid) == "1")
    os.kill(victim, signal.SIGKILL)
    _, error = process.communicate(timeout=300)  # gloo itself waits 1800
    assert process.returncode != 0
    assert "Signal 9" in error  # torchrun's own account of who died, and of what
    kept = len(entries(tmp_path)) - BEFORE
    assert 1 <= kept < 6
    assert f"{kept} of them from earlier runs" in finish(starter.start(2, tmp_path))
    assert entries(tmp_path) == alone


MIXTURE_CASE = Case("qwen3_moe", "small", {**MIXTURE, "vocab_size": 4096, "num_hidden_layers": 2})


@pytest.mark.parametrize(
    "name",
    soaked(["delta rule", "experts", "short convolutions", "shared keys"]),
)
def test_two_share_other_kinds_of_layers(name: str, shared_data: Path, tmp_path: Path) -> None:
    case = {**HYBRIDS, **SHARED, "experts": MIXTURE_CASE}[name]
    reference_model(case).save_pretrained(tmp_path / "model")
    shutil.copy(EMBEDDED / "tokenizer.json", tmp_path / "model")
    text = shared_data / "text" / "tinystories_calibration.txt"
    starter = Starter(tmp_path / "model", text)
    for count in (1, 2):
        process = starter.start(count, tmp_path / str(count), "--calibration-tokens", "512")
        finish(process, case.fields["num_hidden_layers"])
    assert entries(tmp_path / "1") == entries(tmp_path / "2") != {}


def children(pid: int) -> list[int]:
    """Of a process, as the kernel lists them."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def rank(pid: int) -> str:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(v.decode().split("=", 1) for v in variables if b"=" in v).get("RANK", "")


def test_a_bad_request_is_reported_once(starter: Starter, tmp_path: Path) -> None:
    process = starter.start(1, tmp_path, "--quant", "none")
    _, error = process.communicate()
    assert process.returncode == 2
    assert error == (
        "Error: --quant none does not quantize anything; use a scheme such as gptq4.\n"
    )


def test_three_cannot_share() -> None:
    with pytest.raises(QuantError) as error:
        Ranks(0, 3)
    assert str(error.value) == (
        "3 processes cannot share the work; it must be 1, 2, 4 or 8 of them."
    )
