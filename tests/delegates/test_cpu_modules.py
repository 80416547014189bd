"""The CPU delegate takes users' modules whole: one call, with eager's numbers, for any batch."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support.module_nets as nets
import torch
from support.tiers import checked, checked_rows, soaked_rows
from torch.utils._pytree import tree_leaves

from delegates import DelegateError
from delegates.op_list.graph import Constants
from delegates.op_list.match import find_ops
from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Linear, Values
from delegates.op_list.peepholes import merge
from delegates.op_list.rewrite import rewrite, sample_of, settle
from delegates.xnnpack.gelu import rewrite_gelu
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from quant.modules import QuantizedConvolution
from quant.rounding.nearest import round_int8
from runtime import Program

SOURCE = Path(nets.__file__)


@pytest.mark.parametrize(
    "name",
    [
        *("hearing", "folding", "norming"),
        *checked(["seeing", "turning", "remembering", "recalling", "filtering"]),
        *checked(["looking", "summing"]),
    ],
)
def test_a_module_is_one_call(name: str, tmp_path: Path, cpp_build: Path) -> None:
    path = tmp_path / "module.pte"
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), path, delegate="cpu")
    made = export_module(options).methods["forward"]
    assert (made.delegation.calls, made.delegation.left) == (1, {}), made.delegation.lines
    assert made.agreement is not None
    # Norms subtract a mean of 100, so the convolution's last bits weigh more there.
    assert made.agreement.error < (1e-4 if name == "norming" else 1e-5)
    made: Any = getattr(nets, f"make_{name}")()
    module = made[0].eval().double()
    with Program(path) as program:
        for batch in (3, 1) if len(made) > 2 else (1,):
            given = [torch.randn(batch, *example.shape[1:]) for example in made[1]]
            with torch.no_grad():  # with float64: float32 may be further from it than the file
                want = tree_leaves(module(*(x.double() for x in given)))
            found = program(*(x.numpy() for x in given))
            got = list(found.values()) if isinstance(found, dict) else [found]
            for expected, numbers in zip(want, got, strict=True):
                assert numbers.shape == tuple(expected.shape)
                np.testing.assert_allclose(numbers, expected.numpy(), rtol=1e-4, atol=1e-4)


def test_batch_norms_are_folded() -> None:
    """Of convolutions, depthwise and grouped too: what is left is within rounding of eager."""
    module, inputs, _ = nets.make_filtering()
    program = torch.export.export(module.eval(), inputs).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    names = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    assert names["thimble.depthwise.default"] == 3 and names["aten.linear.default"] == 5
    assert not any("norm" in name or name == "aten.div.Tensor" for name in names)
    assert names["aten.mul.Tensor"] == 1, names  # of the slopes
    # Of repeated channels and both outputs; the uneven zeros are in the windows.
    assert names["thimble.gather.default"] == 3 and "aten.pad.default" not in names, names
    with torch.no_grad():
        for want, got in zip(module(*inputs), program.module()(*inputs), strict=True):
            assert (want - got).abs().max() < 1e-5 * want.abs().max()


def test_dense_convolutions_read_windows_where_they_are() -> None:
    """Of whole fours of channels in rows: others are copied first, as those of the input."""
    module = torch.nn.Sequential(
        *(torch.nn.Conv2d(*sides, 3) for sides in ((3, 8), (8, 6), (6, 4)))
    )
    program = torch.export.export(module.eval(), (torch.randn(1, 3, 9, 8),)).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    ops = find_ops(program.graph, Values(Constants(program), by_sample=True)).ops
    merged = OpList(ops, [])
    merge(merged)
    kinds = [(op.label, isinstance(op, Linear) and op.sides is not None) for op in merged]
    copied, read = [("patches", False), ("linear", False)], [("linear", True)]
    assert kinds[:5] == [*copied, *read, *copied], kinds
    assert {op.version for op in merged if isinstance(op, Linear)} == {6, 15}


def test_a_gelu_by_tanh_is_left_to_no_other_delegate() -> None:
    """One behind this one would write it in seven operators."""
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU("tanh"), torch.nn.Linear(8, 4)
    )
    x = torch.randn((2, 3, 4), generator=torch.Generator().manual_seed(0))
    program = torch.export.export(module.eval(), (x,)).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    assert rewrite_gelu(program) == 0
    assert (program.module()(x) - module(x)).abs().max() < 1e-6


def test_columns_become_rows_where_a_gather_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a norm of each channel, as speech models have it, and of an output."""
    monkeypatch.setattr(settle, "_MOST_PIECES", 8)
    module = torch.nn.Sequential(torch.nn.Conv1d(3, 5, 3), torch.nn.GroupNorm(5, 5)).eval()
    x = torch.randn((2, 3, 12), generator=torch.Generator().manual_seed(0))
    program = torch.export.export(module, (x,)).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    names = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    assert names["thimble.gather.default"] == 0 and names["thimble.patches.default"] == 4, names
    assert not any("group_norm" in name or "transpose" in name for name in names)
    assert (program.module()(x) - module(x)).abs().max() < 1e-5


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "quant"), [*soaked_rows([("seeing", "int8")]), ("hearing", "int4")]
)
def test_linears_of_integers(name: str, quant: str, tmp_path: Path, cpp_build: Path) -> None:
    """In one call, within rounding of the same integers in eager."""
    source, path = SourceName(SOURCE, f"make_{name}"), tmp_path / "module.pte"
    made = export_module(ModuleOptions(source, path, quant, delegate="cpu")).methods["forward"]
    assert (made.delegation.calls, made.delegation.left) == (1, {}), made.delegation.lines
    assert made.quantized is not None and made.quantized.quality.mean_cosine > 0.98
    assert made.agreement is not None and made.agreement.error < made.agreement.tolerance


@pytest.mark.parametrize(
    ("convolution", "shape"),
    [
        (torch.nn.Conv1d(6, 20, 3, stride=2, padding=1), (2, 6, 17)),
        (torch.nn.Conv2d(5, 8, (3, 2), padding=(2, 0), dilation=(2, 1)), (1, 5, 9, 7)),
        (torch.nn.Conv2d(16, 24, 1, bias=False), (1, 16, 4, 4)),
    ],
)
def test_convolutions_of_integers_are_linears(convolution: Any, shape: tuple[int, ...]) -> None:
    weight = round_int8(convolution.weight.detach().flatten(1), "weight")
    module = torch.nn.Sequential(QuantizedConvolution(weight, convolution)).requires_grad_(False)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        floats = convolution(x)
    integers = module(x)
    assert integers.shape == floats.shape
    assert (integers - floats).abs().max() < 0.03 * floats.abs().max()
    program = torch.export.export(module, (x,)).run_decompositions({})
    sample = sample_of(program)
    assert sample is not None
    rewrite(program, sample)
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "thimble.linear.default" in names and "thimble.convolution.default" not in names
    assert (program.module()(x) - integers).abs().max() < 1e-5 * integers.abs().max()


@pytest.mark.check
def test_masks_that_inputs_give_are_in_the_call(tmp_path: Path, cpp_build: Path) -> None:
    path = tmp_path / "module.pte"
    options = ModuleOptions(SourceName(SOURCE, "make_reading"), path, delegate="cpu")
    made = export_module(options).methods["forward"]
    assert made.delegation.calls == 1, made.delegation.lines
    assert made.delegation.delegated["thimble::full_attention"] == 2
    assert made.delegation.left["view_copy"] == 2  # of masks: that of tokens changes nothing
    module: Any = nets.make_reading()
    tokens = torch.arange(27).view(3, 9)
    seen = torch.tensor([[1] * 9, [0] * 4 + [1] * 5, [0] * 9])
    with torch.no_grad():
        want = module[0].eval()(tokens, seen)
    with Program(path) as program:
        got = program(tokens.numpy(), seen.numpy())
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.check
@pytest.mark.parametrize(("name", "claimed"), [("odd", True), ("averaging", False)])
def test_what_it_does_not_take_is_right(
    name: str, claimed: bool, tmp_path: Path, cpp_build: Path
) -> None:
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), tmp_path / "m.pte", delegate="cpu")
    made = export_module(options).methods["forward"]
    assert made.agreement is not None and {"batch = 5"} <= set(made.agreement.inputs)
    assert made.agreement.error < 1e-5 and made.delegation.calls >= 1
    ours = [each for each in made.delegation.delegated if each.startswith("thimble::")]
    assert bool(ours) == claimed and not any("thimble" in each for each in made.delegation.left)


@pytest.mark.parametrize(("name", "calls"), [("beside", 1), *checked_rows([("tall", 0)])])
def test_pictures_are_no_rows_of_a_sequence(
    name: str, calls: int, tmp_path: Path, cpp_build: Path
) -> None:
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), tmp_path / "m.pte", delegate="cpu")
    made = export_module(options).methods["forward"]
    assert made.delegation.calls == calls
    assert made.agreement is not None and made.agreement.error < 1e-5


@pytest.mark.check
def test_an_operator_of_ours_that_is_left_is_refused(tmp_path: Path) -> None:
    """A linear of integers of one vector: neither the op list nor a kernel has it."""
    options = ModuleOptions(
        SourceName(SOURCE, "make_averaging"), tmp_path / "m.pte", "int8", delegate="cpu"
    )
    with pytest.raises(
        DelegateError, match=r"the linear with integers at .*module_nets.py:\d+, and"
    ):
        export_module(options)


@pytest.mark.check
def test_int8_linears_of_a_module_are_in_the_call(tmp_path: Path, cpp_build: Path) -> None:
    path = tmp_path / "module.pte"
    options = ModuleOptions(SourceName(SOURCE, "make_seeing"), path, "int8", delegate="cpu")
    made = export_module(options).methods["forward"]
    assert (made.delegation.calls, made.delegation.left) == (1, {}), made.delegation.lines
    assert made.agreement is not None and made.agreement.error < 1e-2
    assert made.quantized is not None
    assert made.delegation.delegated["thimble::linear"] == made.quantized.report["layers"] > 10
    assert made.quantized.quality.worst_cosine > 0.99
