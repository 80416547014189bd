"""A program that shows its values as it computes them."""

from pathlib import Path

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from support.recorded_runs import write_pair
from torch import Tensor, nn
from torch.export import ExportedProgram, export

import runtime.watch
from delegates import DelegationReport, Lowered, get_delegate
from delegates.to_executorch import finish
from devtools.compare.graph_values import Collector
from devtools.compare.logged import Log
from devtools.profile.etrecord import read_etrecord
from runtime import RunnerError
from runtime.watch import WatchedProgram

VOCABULARY = 512
TOKENS = [1, 403, 407, 261]


def drop(instruction: int, debug_id: str | None, values: memoryview) -> None:
    """Takes a value and keeps nothing."""


def test_its_logits_are_those_of_executorchs_own_python(
    cpp_build: Path, stories_cpu_pte: Path
) -> None:
    step = get_delegate("cpu").load(stories_cpu_pte)
    assert step is not None
    with WatchedProgram(stories_cpu_pte, VOCABULARY) as program:
        for start, tokens in ((0, TOKENS), (len(TOKENS), TOKENS[:1])):
            expected = step(torch.tensor([tokens]), torch.tensor([start]))
            found = program.call(tokens, start, drop)
            assert torch.equal(torch.frombuffer(found, dtype=torch.float32), expected[0])


def test_it_shows_operators_inside_the_delegate(cpp_build: Path, stories_cpu_pte: Path) -> None:
    shown: list[tuple[int, str | None, int]] = []
    with WatchedProgram(stories_cpu_pte, VOCABULARY) as program:
        program.call(TOKENS, 0, lambda *value: shown.append((*value[:2], len(value[2]))))
    inside = [size for _, debug_id, size in shown if debug_id is not None]
    assert len(inside) > 5 * len(TOKENS)  # of five layers
    assert inside[-1] == 4 * VOCABULARY  # the logits


def test_what_the_caller_raises_ends_the_showing(cpp_build: Path, stories_cpu_pte: Path) -> None:
    shown = 0

    def stop(instruction: int, debug_id: str | None, values: memoryview) -> None:
        nonlocal shown
        shown += 1
        raise KeyboardInterrupt

    with WatchedProgram(stories_cpu_pte, VOCABULARY) as program:
        with pytest.raises(KeyboardInterrupt):
            program.call(TOKENS, 0, stop)
        assert shown == 1
        program.call(TOKENS, 0, drop)  # it can go on


def test_refusals(cpp_build: Path, stories_cpu_pte: Path, tmp_path: Path) -> None:
    absent = tmp_path / "absent.pte"
    with pytest.raises(RunnerError, match=f"loading the method forward of {absent} failed"):
        WatchedProgram(absent, VOCABULARY)
    (tmp_path / "text.pte").write_text("no program")
    with pytest.raises(RunnerError, match=r"text.pte failed \(.*\): check the file with runner"):
        WatchedProgram(tmp_path / "text.pte", VOCABULARY)
    with WatchedProgram(stories_cpu_pte, 7) as program:
        with pytest.raises(RunnerError, match=r"is not float32 \(1, 7\): export it with"):
            program.call(TOKENS, 0, drop)
    get_delegate("cpu").load(stories_cpu_pte)
    with WatchedProgram(stories_cpu_pte, VOCABULARY) as program:
        with pytest.raises(RunnerError, match=f"a call of {stories_cpu_pte} failed"):
            program.call(TOKENS, -1, drop)


def test_a_library_that_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.watch, "BUILD_DIR", tmp_path)
    monkeypatch.setattr(runtime.watch, "_library", runtime.watch._library.__wrapped__)
    with pytest.raises(RunnerError, match="is not built: run thimble-runtime build"):
        WatchedProgram(tmp_path / "model.pte", VOCABULARY)


class Scaled(nn.Module):
    """A program that computes something of its weights alone in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0), requires_grad=False)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        scale = self.weight.sin()
        return (tokens.float() + input_pos).cos() * scale


def lower_to_kernels(program: ExportedProgram) -> Lowered:
    """Without any delegate."""
    edge = to_edge(
        program,
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        generate_etrecord=True,
    )
    return finish(edge, DelegationReport("none", calls=0), {}, with_etrecord=True)


def test_what_is_computed_of_weights_alone_is_not_kept(cpp_build: Path, tmp_path: Path) -> None:
    inputs = (torch.tensor([TOKENS]), torch.tensor([2]))
    write_pair(lower_to_kernels(export(Scaled().eval(), inputs)), tmp_path)
    record = read_etrecord(tmp_path / "module.etrecord")
    shown: set[int] = set()
    with Log() as log, WatchedProgram(tmp_path / "module.pte", len(TOKENS)) as program:
        collector = Collector(record, log)

        def take(instruction: int, debug_id: str | None, values: memoryview) -> None:
            shown.add(instruction)
            collector.take(instruction, debug_id, values)

        program.call(TOKENS, 2, take)
        rows = {item.sink.place.operator: item.calls[0].read() for item in collector.rows()}
    sine = next(node for node in record.nodes if "sin." in node.operator)
    (instruction,) = (n for n, ids in record.instructions.items() if sine.debug_handle in ids)
    assert instruction in shown
    assert "sin" not in rows and "cos" in rows
    assert torch.equal(rows["cos"].flatten(), (inputs[0].float() + 2).cos().flatten())
