"""Recorded runs for the tests of the profiler."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from torch import Tensor, nn
from torch.export import export

from delegates import Lowered
from delegates.xnnpack import lower

PROMPT = "Once upon a time there was a little"
TOKENS = 8  # calls of a recorded run: a prefill, then decoding

# From the name of a model's fixture to the ETDump of a run of it, and its ETRecord.
Recorded = Callable[[str], tuple[Path, Path]]


def record(
    build: Path,
    pte: Path,
    etdump: Path,
    tokens: int = TOKENS,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Runs a model with the C++ runner; what it recorded."""
    command = [build / "runner", pte, "-p", PROMPT, "-n", str(tokens), "--threads", "1"]
    subprocess.run(
        [*command, "--etdump", etdump],
        check=True,
        capture_output=True,
        timeout=100,
        env={**os.environ, **(environment or {})},
    )
    return etdump


def etrecord_of(pte: Path) -> Path:
    return pte.with_suffix(".etrecord")


def record_module(
    module: nn.Module, inputs: tuple[Tensor, ...], directory: Path, calls: int = 4
) -> tuple[Path, Path]:
    """Lowers a module to XNNPACK and runs it in Python; its ETDump and ETRecord."""
    module.eval().requires_grad_(False)
    lowered = lower(export(module, inputs), {}, {}, with_etrecord=True)
    write_pair(lowered, directory)
    program = _load_for_executorch(str(directory / "module.pte"), enable_etdump=True)
    for _ in range(calls):
        program.run_method("forward", inputs)
    program.write_etdump_result_to_file(str(directory / "run.etdp"))
    return directory / "run.etdp", directory / "module.etrecord"


def write_pair(lowered: Lowered, directory: Path) -> None:
    with open(directory / "module.pte", "wb") as file:
        lowered.program.write_to_file(file)
    assert lowered.etrecord is not None
    lowered.etrecord.save(str(directory / "module.etrecord"))


def seeded(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(len(shape)))
