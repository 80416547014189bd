"""XNNPACK's events against an oracle: the same program with one operator in each delegate call,
whose line ExecuTorch's own map tells."""

import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from executorch.backends.xnnpack.partition import xnnpack_partitioner
from support.exported import Quiet
from support.recorded_runs import etrecord_of, record, record_module, seeded
from support.tiers import checked
from torch import Tensor, nn

from devtools.profile import Event, Phase, load_profile
from devtools.profile.etdump import Run, read_etdump
from devtools.profile.etrecord import Record, read_etrecord
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

_NUMBER = re.compile(r" #\d+$")
# Which of these a product is called depends on what else is in its call.
_SAME = {"QDU8": "QD8", "QP8": "QD8"}


def kind(name: str) -> str:
    """The event's name without its number, and without the choice of a kernel."""
    text = _NUMBER.sub("", name)
    for variant, plain in _SAME.items():
        text = text.replace(variant, plain)
    return text


def oracle_events(run: Run, oracle: Record) -> list[tuple[str, frozenset[int]]]:
    """In the order in which they ran: each event's kind, and the handles of its delegate call."""
    found = []
    for item in run.records:
        if isinstance(item.delegate_debug_id, str):
            handles = frozenset(oracle.instructions[item.instruction_id])
            found.append((kind(item.delegate_debug_id), handles))
    return found


def check_against_oracle(fused: list[Event], whole: Record, truth: list) -> None:
    """Of each call, the n-th event of a kind is of a node that the oracle ran alone, as the n-th
    of this kind among the nodes of that call."""
    calls: dict[int, list[Event]] = defaultdict(list)
    for event in fused:
        if event.backend == "XnnpackBackend":
            assert event.instruction_id is not None
            calls[event.instruction_id].append(event)
    assert len(calls) > 5
    for instruction, events in calls.items():
        members = set(whole.instructions[instruction])
        expected: dict[str, list[frozenset[int]]] = defaultdict(list)
        for name, handles in truth:
            if handles <= members:
                expected[name].append(handles)
        seen: dict[str, int] = defaultdict(int)
        for event in events:
            name = kind(event.name)
            alone = expected[name][seen[name]]
            assert set(event.debug_handles) <= alone, (instruction, event.name)
            seen[name] += 1
        for name, count in seen.items():
            assert count == len(expected[name]), (instruction, name)


def export_rtn4(model: str, out: Path) -> Path:
    options = ExportOptions(
        model=model, out=out, scheme=Scheme("rtn4"), delegate="xnnpack", etrecord=etrecord_of(out)
    )
    return export_model(options, Quiet()).out


def check_model(model: str, fused_pte: Path, build: Path, directory: Path) -> None:
    """Every event of the program, prefill and decode, against those of its oracle.

    Args:
        fused_pte: of the same graph as the model, whatever its weights.
    """
    real = xnnpack_partitioner.XnnpackPartitioner
    alone = functools.partial(real, per_op_mode=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xnnpack_partitioner, "XnnpackPartitioner", alone)
        out = export_rtn4(model, directory / "oracle.pte")
    fused_run = record(build, fused_pte, directory / "fused.etdp", tokens=4)
    oracle_run = record(build, out, directory / "oracle.etdp", tokens=4)
    whole, oracle = read_etrecord(etrecord_of(fused_pte)), read_etrecord(etrecord_of(out))
    assert [(node.name, node.debug_handle) for node in whole.nodes] == [
        (node.name, node.debug_handle) for node in oracle.nodes
    ]
    profile = load_profile(fused_run, etrecord_of(fused_pte))
    runs = [run for run in read_etdump(oracle_run) if run.name.startswith(("prefill", "decode"))]
    assert {call.phase for call in profile.calls} == {Phase.PREFILL, Phase.DECODE}
    assert profile.coverage.event_count == 1
    for call, run in zip(profile.calls, runs, strict=True):
        check_against_oracle(list(call.events), whole, oracle_events(run, oracle))


@pytest.mark.soak
def test_one_layer(one_layer_checkpoint: Path, cpp_build: Path, tmp_path: Path) -> None:
    model = str(one_layer_checkpoint)
    check_model(model, export_rtn4(model, tmp_path / "fused.pte"), cpp_build, tmp_path)


@pytest.mark.soak
def test_stories(
    stories_gptq_pte: Path, shared_data: Path, cpp_build: Path, tmp_path: Path
) -> None:
    check_model(str(shared_data / "stories260K"), stories_gptq_pte, cpp_build, tmp_path)


@pytest.mark.soak
def test_embedded(embedded_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    check_model("llama3", embedded_pte, cpp_build, tmp_path)


class Products(nn.Module):
    """Three products of one kind in one delegate call, one of which is large."""

    def __init__(self, large: int) -> None:
        super().__init__()
        self.large = large

    def forward(
        self, small: Tensor, large: Tensor, other_small: Tensor, other_large: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        a = [large if self.large == at else small for at in range(3)]
        b = [other_large if self.large == at else other_small for at in range(3)]
        first = a[0] * b[0]
        second = a[1] * b[1]
        third = a[2] * b[2]
        return first.sigmoid(), second.sigmoid(), third.sigmoid()


def operands(small: int, large: int) -> tuple[Tensor, ...]:
    return tuple(seeded(1, size) for size in (small, large, small, large))


@pytest.mark.parametrize("large", [1, *checked([0, 2])])
def test_time_is_where_the_work_is(large: int, tmp_path: Path) -> None:
    """By what the events took, not by their names: the large product's line has the time."""
    profile = load_profile(*record_module(Products(large), operands(8, 1 << 21), tmp_path))
    texts = ["first = a[0]", "second = a[1]", "third = a[2]"]
    times = [0, 0, 0]
    for call in profile.calls:
        products = [event for event in call.events if event.op_kind == "mul"]
        assert len({event.instruction_id for event in products}) == 1
        for event in products:
            assert event.line is not None and event.line.file.endswith(Path(__file__).name)
            (at,) = [at for at, text in enumerate(texts) if event.line.text.startswith(text)]
            times[at] += event.duration_ns
    # 2 million products against 8: thousands of times the work.
    assert times[large] > 10 * (sum(times) - times[large])


class Zoo(nn.Module):
    """One of everything that XNNPACK names in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.linear(x)
        x = torch.cat([x, y], dim=1)
        x = x.permute(0, 2, 1)
        x = torch.softmax(x, dim=-1)
        x = torch.clamp(x - 0.5, 0.0, 6.0)
        x = torch.exp(x).abs() + torch.tanh(x)
        x = x * x + 0.25
        x = x / (torch.sqrt(x) + 1.0)
        return torch.maximum(x[:, :8], torch.neg(x[:, 8:]))


def test_names_of_many_kinds(tmp_path: Path) -> None:
    """Every event of a graph of many kinds has a line, and the right one for its kind."""
    inputs = (seeded(1, 8, 16), seeded(1, 8, 16))
    profile = load_profile(*record_module(Zoo(), inputs, tmp_path))
    events = [event for event in profile.calls[1].events if event.backend]
    words = {
        "Fully Connected": "self.linear",
        "Copy": "torch.cat",
        "Transpose": "permute",
        "Softmax": "softmax",
        "Subtract": "x - 0.5",
        "Clamp": "clamp",
        "Exp": "exp",
        "Abs": "abs",
        "TanH": "tanh",
        "Square Root": "sqrt",
        "Square (": "x * x",
        "Divide": "sqrt",
        "Maximum": "maximum",
        "Negate": "neg",
    }
    for event in events:
        word = next((word for word in words if event.name.startswith(word)), None)
        if word is not None:
            assert event.line is not None, event.name
            assert words[word] in event.line.text, (event.name, event.line)
    resolved = sum(bool(event.lines) for event in events)
    assert resolved >= 0.95 * len(events), [event.name for event in events if not event.lines]


def test_a_fused_event_makes_its_kind_uncertain(tmp_path: Path) -> None:
    """An event that is missing may be any of its kind: none of them is given a line."""
    etdump, etrecord = record_module(Products(1), operands(8, 64), tmp_path)
    data = etdump.read_bytes()
    assert b"Multiply (ND) #2" in data
    etdump.write_bytes(data.replace(b"Multiply (ND) #2", b"Multiplx (ND) #2"))
    profile = load_profile(etdump, etrecord)
    products = [event for event in profile.calls[1].events if event.name.startswith("Multipl")]
    assert len(products) == 3 and not any(event.lines for event in products)
    assert profile.coverage.event_count < 1
    assert {item.name for item in profile.coverage.unresolved} >= {"Multiply (ND) #1"}
