"""Attention of samples rounds what it multiplies where linears do, and the file says so."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import module_integers as integers
from support.module_nets import Block
from support.op_list import read_calls
from torch import nn

from delegates.op_list.graph import Constants
from delegates.op_list.match import find_ops
from delegates.op_list.op_list import OpList
from delegates.op_list.ops import SegmentAttention, Values
from delegates.op_list.peepholes import merge
from delegates.op_list.rewrite import rewrite, sample_of
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from quant.modules import QuantizedLinear
from quant.rounding.nearest import round_int8


@pytest.mark.parametrize(
    ("rows", "quantized", "rounds", "version"),
    [(150, True, True, 16), (150, False, False, 7), (100, True, False, 7)],
)
def test_where_attention_is_of_integers(
    rows: int, quantized: bool, rounds: bool, version: int
) -> None:
    block = Block(32, 2).requires_grad_(False)
    for name, linear in list(block.named_children()):
        if quantized and isinstance(linear, nn.Linear):
            weight = round_int8(linear.weight.detach(), name)
            setattr(block, name, QuantizedLinear(weight, linear.in_features, linear.bias))
    program = torch.export.export(block, (torch.randn(1, rows, 32),)).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    ops = OpList(find_ops(program.graph, Values(Constants(program), by_sample=True)).ops, [])
    merge(ops)
    found = [(op.integers, op.version) for op in ops if isinstance(op, SegmentAttention)]
    assert found == [(rounds, version)]


@pytest.mark.check
def test_the_file_computes_as_the_module(tmp_path: Path, cpp_build: Path) -> None:
    path = tmp_path / "module.pte"
    source = SourceName(Path(integers.__file__), "make_attending")
    made = export_module(ModuleOptions(source, path, "int8", delegate="cpu")).methods["forward"]
    assert made.agreement is not None and made.agreement.error < 3e-2
    (call,) = read_calls(path, tmp_path)
    kinds: list[Any] = [op["kind"] for op in call.program["ops"]]
    assert call.program["version"] == 16
    assert [kind["integers"] for kind in kinds if "max_seq_len" in kind] == [True]
