"""An export made in this process, with the models it went through kept for comparison."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchProgramManager
from torch import Tensor
from torch.export import ExportedProgram

import delegates.xnnpack
import exporter.capture.program
from delegates import Lowered, Step, get_delegate
from exporter.commands.display import STAGES
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from quant.progress import Progress


class Quiet:
    """A listener that says nothing, and remembers the stages, which are known to the display."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stage(self, name: str) -> None:
        assert name in STAGES
        self.stages.append(name)

    def progress(self, progress: Progress) -> None:
        pass


@dataclass(frozen=True)
class Exported:
    """One export and its three forms: eager, captured, in the file.

    Attributes:
        eager: the quantized model, with its cache.
        captured: the program as torch.export captured it, before any delegate rewrote it.
        lowered: the `.pte` in ExecuTorch's stock Python runtime.
        manager: ExecuTorch's view of the finished program.
    """

    result: ExportResult
    eager: CausalLM
    captured: torch.nn.Module
    lowered: Step
    manager: ExecutorchProgramManager

    @property
    def path(self) -> Path:
        return self.result.out

    def forms(self) -> dict[str, Step]:
        return {"eager": self.eager, "captured": self.captured, "lowered": self.lowered}


def export_for_tests(options: ExportOptions) -> Exported:
    """Runs the whole pipeline to XNNPACK; copies the model and the captured program on their way
    through, since lowering takes their weights."""
    options = replace(options, delegate="xnnpack")
    kept: list[tuple[CausalLM, torch.nn.Module]] = []
    real_capture = exporter.capture.program.capture

    def keeping_capture(model: CausalLM, context: int, seq_len: int) -> ExportedProgram:
        program = real_capture(model, context, seq_len)
        kept.append((copy.deepcopy(model), copy.deepcopy(program.module())))
        return program

    managers: list[ExecutorchProgramManager] = []
    real_lower = delegates.xnnpack.lower

    def keeping_lower(*args: Any) -> Lowered:
        lowered = real_lower(*args)
        managers.append(lowered.program)
        return lowered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter.capture.program, "capture", keeping_capture)
        patch.setattr(delegates.xnnpack, "lower", keeping_lower)
        result = export_model(options, Quiet())
    model, captured = kept[0]
    step = get_delegate(options.delegate).load(result.out)
    assert step is not None
    return Exported(result, model, captured, step, managers[0])


def feed(step: Step, tokens: Tensor, lengths: list[int]) -> Tensor:
    """Logits (calls, vocab_size) after each of several calls that follow one another from 0."""
    logits, at = [], 0
    with torch.no_grad():
        for length in lengths:
            logits.append(step(tokens[None, at : at + length], torch.tensor([at])))
            at += length
    return torch.cat(logits)
