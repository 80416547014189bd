"""Passes over a finished program do not trace what is inside its calls; the file is the same."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from support.cpu_models import ARCHITECTURES, CONTEXT
from support.small_models import random_model
from torch.export import ExportedProgram

import delegates.to_executorch
from delegates.cpu import lower
from delegates.passes.traced_calls import calls_not_traced
from exporter.capture.program import capture


def written(directory: Path) -> bytes:
    program = capture(random_model(ARCHITECTURES["llama"]), CONTEXT, CONTEXT)
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lower(program, {}, {}, with_etrecord=False).program.write_to_file(file)
    return path.read_bytes()


@pytest.mark.check
def test_the_file_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    module = ExportedProgram.module

    def counting(self: ExportedProgram, check_guards: bool = True) -> torch.nn.Module:
        ran.append("module")
        return module(self, check_guards)

    monkeypatch.setattr(ExportedProgram, "module", counting)
    with monkeypatch.context() as patch:
        patch.setattr(delegates.to_executorch, "calls_not_traced", lambda _: nullcontext())
        traced = written(tmp_path)
        times = len(ran)
    assert times > 0
    ran.clear()
    assert written(tmp_path) == traced
    assert len(ran) < times


def test_the_program_is_restored() -> None:
    from delegates.cpu.backend import ThimbleCpuBackend
    from delegates.cpu.lower import partition, to_edge_program

    program = capture(random_model(ARCHITECTURES["llama"]), CONTEXT, CONTEXT)
    edge = partition(to_edge_program(program, {}, False), ThimbleCpuBackend, releasing=False).edge
    graph_module = edge.exported_program().graph_module
    ((_, lowered),) = [
        item for item in graph_module.named_children() if hasattr(item[1], "original_module")
    ]
    before = lowered.original_module
    with calls_not_traced(graph_module):
        (logits,) = lowered.original_module.module()()
        assert logits.shape == (1, 90) and lowered.original_module.graph is before.graph
    assert lowered.original_module is before
