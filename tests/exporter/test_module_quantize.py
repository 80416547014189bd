"""Integers in a module: what becomes int8 and int4, what stays in float, what is refused."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support.module_integers as integers
import torch
from support.exported import Quiet
from torch.nn import functional

from delegates import get_delegates
from delegates.module import lower_module
from delegates.op_list.rewrite.folding import BATCH_NORMS
from exporter.errors import ExportError
from exporter.file.pte import read_report
from exporter.module import correct_biases, quantize_convolutions
from exporter.module.fast_path import no_fast_path
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.quality import measure
from exporter.module.quantize_linears import with_read_weights
from exporter.module.quantize_windows import dense_of, quantize_windows
from exporter.module.round_weights import Products, rounded
from exporter.module.source import Inputs
from exporter.module.source_name import SourceName, check_quant, source_name
from runtime import Program, RunnerError

SOURCE = Path(integers.__file__)


@pytest.mark.check
def test_int8_convolutions_and_linears(tmp_path: Path, cpp_build: Path) -> None:
    options = ModuleOptions(SourceName(SOURCE, "make"), tmp_path / "net.pte", "int8")
    result = export_module(options, Quiet())
    quantized = result.methods["forward"].quantized
    assert quantized is not None
    quality = quantized.quality
    assert quality.worst_cosine > 0.99 and quality.changed == 0 and quality.answers == 4
    report = read_report(tmp_path / "net.pte")
    assert report["quantization"]["layers"] == 4
    assert report["quantization"]["left_in_float"] == ["after_log"]
    assert "In float, because their inputs may be NaN: after_log." in quantized.note
    weights = sum(each.numel() for each in integers.make()[0].parameters())
    assert result.size < 1.5 * weights + 40_000  # a byte for each, and what every file has

    module = integers.make()[0].eval()
    picture = integers.picture(2, seed=11)
    with Program(options.out) as program:
        got = program(picture.numpy())
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, module(picture).detach().numpy(), atol=0.1)
        picture[0, 0, 3, 3] = float("nan")
        with pytest.raises(RunnerError, match="NaN at .* lose .it is rounded to int8."):
            program(picture.numpy())


@pytest.mark.check
def test_windows_are_rounded_as_they_are_read(tmp_path: Path, cpp_build: Path) -> None:
    """The stem, the pointwise one with its norm, and a linear; depthwise ones stay in float."""
    source = SourceName(SOURCE, "make")
    options = ModuleOptions(source, tmp_path / "net.pte", "int8", delegate="cpu")
    result = export_module(options, Quiet()).methods["forward"]
    assert result.quantized is not None and result.agreement is not None
    quality = result.quantized.quality
    assert quality.worst_cosine > 0.999 and quality.changed == 0
    assert read_report(options.out)["quantization"]["layers"] == 3
    assert result.delegation.delegated["thimble::linear"] == 3
    module, picture = integers.make()[0].eval(), integers.picture(3, seed=11)
    with Program(options.out) as program, torch.no_grad():
        got, want = program(picture.numpy()), module(picture).numpy()
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, want, atol=0.02 * np.abs(want).max())


def test_norms_are_in_the_weights_of_windows() -> None:
    torch.manual_seed(0)
    convolutions = torch.nn.Conv2d(6, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 1, bias=False)
    norms = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(4)
    for norm in norms:
        torch.nn.init.normal_(norm.weight)  # of both signs
        norm.running_mean.normal_()  # type: ignore[union-attr]
    parts = (convolutions[0], norms[0], torch.nn.ReLU(), convolutions[1], norms[1])
    module = torch.nn.Sequential(*parts).eval().requires_grad_(False)
    picture = torch.randn(2, 6, 9, 7)
    program = torch.export.export(module, (picture,)).run_decompositions({})
    names = list(dense_of(module, program))
    assert names == ["0", "3"]
    for some in (names, names[:1]):
        found = quantize_windows(program, some)
        called = [node.target for node in found.graph.nodes if node.op == "call_function"]
        assert sum(target in BATCH_NORMS for target in called) == 2 - len(some)
        sizes = [each.dtype for each in found.state_dict.values()]
        assert sizes.count(torch.int8) == len(some)
        want = module(picture)
        assert (found.module()(picture) - want).abs().max() < 0.02 * want.abs().max()
    assert dense_of(torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, groups=2)), program) == {}


@pytest.mark.check
def test_zeros_around_what_a_float_convolution_reads(cpp_build: Path) -> None:
    """Their integers must be written out: XNNPACK's own rounding fails on the convolution."""
    padded = torch.nn.Sequential(torch.nn.ZeroPad2d(1), torch.nn.Conv2d(8, 8, 3))
    layers = torch.nn.Conv2d(4, 8, 3), padded, torch.nn.ZeroPad2d(1), torch.nn.Conv2d(8, 4, 3)
    module = torch.nn.Sequential(*layers)
    picture = torch.randn(1, 4, 9, 9)
    program = torch.export.export(module.eval().requires_grad_(False), (picture,))
    calibration = [Inputs((picture,))]
    integer = quantize_convolutions.quantize_convolutions(
        program.run_decompositions({}), ["1"], calibration
    )
    captured = torch.export.export(integer, (picture,)).run_decompositions({})
    lowered = lower_module(get_delegates("xnnpack"), {"forward": captured}, {}, False)
    report = lowered.reports["forward"]
    assert (report.calls, report.left) == (1, {})


@pytest.mark.check
def test_int4_linears_by_gptq(tmp_path: Path, cpp_build: Path) -> None:
    options = ModuleOptions(SourceName(SOURCE, "make_wide"), tmp_path / "wide.pte", "int4")
    result = export_module(options, Quiet())
    assert (
        result.methods["forward"].quantized is not None
        and result.methods["forward"].agreement is not None
    )
    assert result.methods["forward"].quantized.quality.worst_cosine > 0.98
    assert result.methods["forward"].agreement.error < 1e-4  # of the same integers
    module, (x,) = integers.make_wide()[:2]
    with Program(options.out) as program:
        x[1, 5] = float("nan")
        with pytest.raises(
            RunnerError, match=r"x has a NaN at \(1, 5\).*linear at module_integers"
        ):
            program(x.numpy())
    assert isinstance(module, torch.nn.Module)


def test_weights_that_another_module_reads() -> None:
    module, arguments = integers.make_reading()
    assert with_read_weights(module, Inputs(arguments)) == ["back"]
    layer, arguments = integers.make_layer()
    layer.eval().requires_grad_(False)
    assert with_read_weights(layer, Inputs(arguments)) == ["linear1", "linear2"]
    with no_fast_path():
        assert with_read_weights(layer, Inputs(arguments)) == []


@pytest.mark.check
@pytest.mark.parametrize(("name", "count", "left"), [("layer", 6, []), ("reading", 1, ["back"])])
def test_modules_that_read_weights(
    tmp_path: Path, cpp_build: Path, name: str, count: int, left: list[str]
) -> None:
    options = ModuleOptions(SourceName(SOURCE, f"make_{name}"), tmp_path / "net.pte", "int8")
    note = export_module(options, Quiet()).methods["forward"].quantized.note  # type: ignore[union-attr]
    assert ("the module reads their weights by itself: back." in note) == bool(left)
    quantization = read_report(options.out)["quantization"]
    assert (quantization["layers"], quantization["left_in_float"]) == (count, left)
    module, (x,) = getattr(integers, f"make_{name}")()
    with Program(options.out) as program, torch.no_grad():
        want = module.eval()(x).numpy()
        np.testing.assert_allclose(program(x.numpy()), want, atol=0.02 * np.abs(want).max())


@pytest.mark.soak
def test_rounding_moves_no_channel_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs that are never negative make what a weight loses the same everywhere: here eight of
    nine numbers, each less than half a step."""
    module = torch.nn.Conv2d(4, 4, 3, groups=4).eval().requires_grad_(False)
    module.weight.fill_(0.003)
    module.weight[:, :, 1, 1] = 1.0
    pictures = [5 + torch.rand(1, 4, 6, 6) for _ in range(2)]
    program = torch.export.export(torch.nn.Sequential(module), (pictures[0],)).run_decompositions(
        {}
    )
    calibration = [Inputs((picture,)) for picture in pictures]

    def moved() -> float:
        integers = quantize_convolutions.quantize_convolutions(program, (), calibration)
        apart = [(integers(one) - module(one)).mean((0, 2, 3)) for one in pictures]
        return float(torch.stack(apart).mean(0).abs().max())

    module.weight[0] *= 1e-3
    found = quantize_convolutions.quantize_convolutions(program, (), calibration)
    scales = [numbers for name, numbers in found.named_buffers() if "scale" in name]
    assert min(float(numbers.min()) for numbers in scales) < 1.1e-3 / 127  # of small weights
    module.weight[0] *= 1e3

    corrected = moved()
    monkeypatch.setattr(quantize_convolutions, "rounding_weights", lambda _: nullcontext())
    assert corrected < 0.3 * moved()


@pytest.mark.check
@pytest.mark.parametrize("make", ["make_joining", "make_averaging"])
def test_convolutions_of_unusual_nets(tmp_path: Path, cpp_build: Path, make: str) -> None:
    options = ModuleOptions(SourceName(SOURCE, make), tmp_path / "net.pte", "int8")
    result = export_module(options, Quiet()).methods["forward"]
    assert result.quantized is not None and result.agreement is not None
    assert result.quantized.quality.worst_cosine > 0.999 and result.agreement.error < 2e-2


def test_what_a_convolution_reads_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not what is pooled before it, which has the same observer."""
    noted: list[Any] = []
    monkeypatch.setattr(correct_biases, "_round", lambda *given: noted.append(given[-1]))
    module, inputs, _, calibration = integers.make_pooling()
    program = torch.export.export(module.eval(), inputs)
    quantize_convolutions.quantize_convolutions(program, [], [Inputs((x,)) for x in calibration])
    first, second = (one.total / one.count for one in noted)
    with torch.no_grad():
        pooled = torch.cat([module[:2](x) for x in calibration])
    read = torch.cat(calibration)
    assert torch.allclose(first, read.double().mean((0, 2, 3)), atol=1e-6)
    assert torch.allclose(second, pooled.double().mean((0, 2, 3)), atol=1e-6)


def test_few_weights_make_up_for_each_other() -> None:
    """Neighbours in a smooth picture are alike: what one of nine weights loses, others can give."""
    torch.manual_seed(0)
    picture = functional.interpolate(torch.randn(2, 6, 5, 5), (40, 40), mode="bilinear")
    products = Products(((3, 3), (1, 1), (0, 0), (1, 1)), 6)
    products.add(picture)
    weight, scales = torch.randn(6, 1, 3, 3), torch.full((6,), 0.05)
    assert products.total is not None
    found = rounded(weight, scales, products.total)
    nearest = (weight / 0.05).round() * 0.05
    steps = found / 0.05
    assert (steps - steps.round()).abs().max() < 1e-5

    def lost(other: torch.Tensor) -> float:
        return float(functional.conv2d(picture, other.float() - weight, groups=6).norm())

    assert lost(found) < 0.5 * lost(nearest)


def test_a_module_without_layers_is_refused(tmp_path: Path) -> None:
    options = ModuleOptions(SourceName(SOURCE, "no_layers"), tmp_path / "out.pte", "int4")
    with pytest.raises(ExportError, match="--quant int4 has nothing to quantize"):
        export_module(options, Quiet())


def test_calibration_with_a_nan_is_refused(tmp_path: Path) -> None:
    options = ModuleOptions(SourceName(SOURCE, "nan_calibration"), tmp_path / "out.pte", "int8")
    with pytest.raises(ExportError, match=r"calibration\[1\] .* holds a NaN"):
        export_module(options, Quiet())


def test_quality_counts_changed_answers() -> None:
    want = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    quality = measure([[want]], [[torch.tensor([[0.0, 1.0], [0.4, 0.6]])]])
    assert (quality.answers, quality.changed) == (2, 1) and not quality.is_good
    assert measure([[want]], [[want]]).is_good


def test_names_of_modules_and_their_quantization() -> None:
    assert source_name("llama3") is None and source_name("dir/model.py") is None
    found = source_name("dir/net.py:make")
    assert found is not None and (found.path, found.function) == (Path("dir/net.py"), "make")
    with pytest.raises(ExportError, match="'1x' in net.py:1x is not the name of a function"):
        source_name("net.py:1x")
    with pytest.raises(ExportError, match="--quant gptq4 is for language models"):
        check_quant("gptq4", "xnnpack")
    with pytest.raises(ExportError, match="needs --delegate xnnpack or cpu"):
        check_quant("int8", "mlx")
    check_quant("int8", "cpu")
