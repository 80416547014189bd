"""What the CPU delegate is told to compute is what the model computes: its op list, executed in
numpy from the file, beside the eager model."""

from pathlib import Path

import pytest
import torch
from support.cpu_models import MODELS, LowerArchitecture, lower_architecture
from support.op_list import OpList
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export

from delegates.op_list.graph import Constants
from exporter.file.agreement import compare, require_agreement
from quant.scheme import Scheme

_READS = ("input", "query", "key", "value", "gate", "up", "scores")


def check_slots(call: OpList) -> None:
    """Every slot that is read was written, every number is one of those that there are, and
    nothing is written where it is read but by ops that may and the residual stream."""
    program = call.program
    slots = len(program["slots"])
    written = {item["slot"] for item in program["inputs"] if item["role"] == "rows"}
    for op in program["ops"]:
        kind, name = op["kind"], op["kind_type"]
        reads = [kind[k] for k in _READS if k in kind]
        if kind.get("function") in ("add", "multiply"):
            reads.append(kind["other"])
        assert all(slot in written for slot in reads), op["name"]
        if kind.get("accumulate"):
            assert kind["output"] in written
        if name not in ("Norm", "LayerNorm", "Xielu", "Rotate", "Elementwise", "Glu"):
            assert kind["output"] not in reads
        assert 0 <= kind["output"] < slots
        written.add(kind["output"])
        if "weight" in kind and isinstance(kind["weight"], int):
            assert kind["weight"] < len(program["weights"])
        if name == "Attention":
            assert kind["cache"] < len(program["caches"])
    assert all(item["slot"] in written for item in program["outputs"])


@pytest.mark.parametrize(("name", "scheme"), MODELS, ids=lambda x: str(getattr(x, "name", x)))
def test_the_op_list_computes_the_model(
    name: str, scheme: Scheme, lowered_architecture: LowerArchitecture
) -> None:
    model = lowered_architecture(name, scheme)
    (call,) = model.calls
    check_slots(call)
    agreement = compare(model.reference, call.step)
    require_agreement(agreement)  # within what rounding explains
    assert agreement.error < (1e-5 if scheme.name == "none" else 0.05)
    report = model.lowered.report
    assert report.calls == 1 and report.left == {}
    assert report.linears_delegated == report.linears == 7 * len(call.caches) + 1


def test_a_program_of_single_tokens(tmp_path: Path) -> None:
    model = lower_architecture("qwen3", Scheme("none"), tmp_path, max_seq_len=1)
    (call,) = model.calls
    check_slots(call)
    assert compare(model.reference, call.step).error < 1e-5
    assert call.program["ops"][-1]["kind"]["last_row"]


def test_a_constant_of_unknown_value_is_no_number() -> None:
    """As the edge dialect makes them of torch.sqrt(torch.tensor(8.0) * 2)."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factor", torch.tensor(3.0))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.factor

    program = export(Scaled(), (torch.ones(2),))
    node = next(iter(program.graph.nodes))
    assert Constants(program).number(node) == (3.0, [])
    with FakeTensorMode():
        unknown = torch.empty(())
    assert Constants(program, {"factor": unknown}).number(node) is None
