"""PyTorch's own attention is captured with the samples in front, and is one call of `cpu`."""

import random
from pathlib import Path
from typing import Any

import pytest
import support.attention_nets as nets
import torch
from support.tiers import checked
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from delegates.source_lines import source_line
from exporter.capture.attention import attention_opened
from exporter.module.capture import capture_module
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source import make_methods
from exporter.module.source_name import SourceName

SOURCE = Path(nets.__file__)


class Case:
    """An attention module of any kind, and what it is called with."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.chance = random.Random(seed)
        heads = self.chance.choice((1, 2, 3))
        width, first = heads * self.chance.choice((1, 4, 8)), self.likely(0.5)
        self.batch, self.rows, self.keys = (self.chance.choice((1, 3, 4)) for _ in range(3))
        self.has_batch, self.samples_first = self.likely(0.7), first
        other = self.likely(0.4)
        key_width, value_width = (5, 7) if other else (width, width)
        self.module = nn.MultiheadAttention(
            *(width, heads, self.chance.choice((0.0, 0.3)), self.likely(0.7)),
            *(self.likely(0.1), self.likely(0.1)),
            *(key_width, value_width) if other else (None, None),
            batch_first=first,
        ).eval()
        query = self.rows_of(self.rows, width)
        if other:
            keys, values = (self.rows_of(self.keys, x) for x in (key_width, value_width))
        elif self.likely(0.5):
            keys = values = query
            self.keys = self.rows
        else:
            keys = values = self.rows_of(self.keys, width)
        self.given = query, keys, values
        self.options = {
            "need_weights": self.likely(0.5),
            "average_attn_weights": self.likely(0.5),
            **self.masks(heads),
        }

    def likely(self, share: float) -> bool:
        return self.chance.random() < share

    def rows_of(self, rows: int, width: int) -> Tensor:
        x = torch.randn(self.batch, rows, width)
        if not self.has_batch:
            return x[0]
        return x if self.samples_first else x.transpose(0, 1)

    def masks(self, heads: int) -> dict[str, Any]:
        batch, size = self.batch if self.has_batch else 1, (self.rows, self.keys)
        hidden = torch.rand(batch, self.keys) < 0.4
        hidden[:, 0] = False
        padding = self.chance.choice((None, hidden, hidden * -1e4))
        if padding is not None and not self.has_batch:
            padding = padding[0]
        kinds = [
            None,
            torch.randn(size),
            torch.randn(batch * heads, *size),
            hidden[:1].expand(size),
        ]
        if self.rows == self.keys:
            kinds.append(nn.Transformer.generate_square_subsequent_mask(self.rows))
        mask = self.chance.choice(kinds)
        is_causal = mask is kinds[-1] and len(kinds) == 5 and self.likely(0.6)
        return {"key_padding_mask": padding, "attn_mask": mask, "is_causal": is_causal}


@torch.no_grad()
def test_it_computes_what_pytorch_computes() -> None:
    """With each kind of mask, of width, of bias, and with its weights."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for seed in range(150):
            case = Case(seed)
            want = case.module(*case.given, **case.options)
            with attention_opened(case.module) as module:
                got = module(*case.given, **case.options)
            assert [x is None for x in got] == [x is None for x in want], seed
            for expected, numbers in zip(tree_leaves(want), tree_leaves(got), strict=True):
                if expected is not None:
                    torch.testing.assert_close(numbers, expected, rtol=1e-5, atol=2e-6)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@pytest.mark.parametrize("name", ["crossing", *checked(["encoding", "translating"])])
def test_it_is_one_call_of_any_batch(name: str, tmp_path: Path, cpp_build: Path) -> None:
    path = tmp_path / "module.pte"
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), path, delegate="cpu")
    made = export_module(options).methods["forward"]
    assert (made.delegation.calls, made.delegation.left) == (1, {}), made.delegation.lines
    assert made.agreement is not None and made.agreement.error < 1e-5


@pytest.mark.parametrize("name", ["later_hidden", *checked(["positions_first"])])
def test_positions_in_front_are_one_call(name: str, tmp_path: Path, cpp_build: Path) -> None:
    """Between two views: the inputs are one sample."""
    source = SourceName(SOURCE, f"make_{name}")
    made = export_module(ModuleOptions(source, tmp_path / "m.pte", delegate="cpu"))
    delegation = made.methods["forward"].delegation
    assert (delegation.calls, sum(delegation.left.values())) == (1, 2), delegation.left


@pytest.mark.parametrize("delegate", ["xnnpack", "xnnpack,cpu"])
@pytest.mark.parametrize("name", ["pooled", *checked(["translating"])])
def test_xnnpack_reads_parts_of_weights(
    name: str, delegate: str, tmp_path: Path, cpp_build: Path
) -> None:
    """Which its writer takes for the whole."""
    options = ModuleOptions(
        SourceName(SOURCE, f"make_{name}"), tmp_path / "m.pte", delegate=delegate
    )
    agreement = export_module(options).methods["forward"].agreement
    assert agreement is not None and agreement.error < 1e-5


@pytest.mark.parametrize("quant", ["int8", *checked(["int4"])])
def test_its_linears_take_integers(quant: str, tmp_path: Path, cpp_build: Path) -> None:
    """Those of queries, keys, values and outputs, and the two behind them, in two layers."""
    path = tmp_path / "module.pte"
    source = SourceName(SOURCE, "make_encoding")
    made = export_module(ModuleOptions(source, path, quant=quant, delegate="cpu"))
    quantized = made.methods["forward"].quantized
    assert quantized is not None
    assert quantized.report["layers"] + len(quantized.report["left_in_float"]) == 12
    assert made.methods["forward"].delegation.calls == 1


def test_its_line_is_the_users() -> None:
    (made,) = make_methods(SourceName(SOURCE, "make_crossing")).values()
    program = capture_module(made)
    linears = program.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert [source_line(node) for node in linears] == ["attention_nets.py:29"] * 4
