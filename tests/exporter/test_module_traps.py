"""Any module: what ExecuTorch and XNNPACK compute wrongly is right in our file, or refused by its
line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support.module_traps as traps
import torch
from support.exported import Quiet
from support.module_traps import LARGE, ODD, STEPS, inputs
from torch import Tensor

from delegates import DelegateError
from exporter.errors import ExportError
from exporter.file.pte import read_report
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from runtime import Program, RunnerError

SOURCE = Path(traps.__file__)
STATE = ("steps", "memory")


@pytest.fixture
def program(traps_pte: Path, cpp_build: Path) -> Iterator[Program]:
    with Program(traps_pte) as opened:
        yield opened


def arrays(given: tuple[Tensor, ...]) -> list[Any]:
    """As numpy has them: bfloat16 as float32."""
    return [(x.float() if x.dtype == torch.bfloat16 else x).numpy() for x in given]


def results(program: Program, given: tuple[Tensor, ...]) -> dict[str, Any]:
    found = program(*arrays(given))
    assert isinstance(found, dict)
    return found


@torch.no_grad()
def expected(batch: int, seed: int, calls: int = 1) -> list[dict[str, Tensor]]:
    module, *_ = traps.make()
    module.eval()
    return [module(*inputs(batch, seed)) for _ in range(calls)]


@pytest.mark.check
def test_every_output_is_the_modules(program: Program) -> None:
    """On numbers and a size of the Dim that the export did not see."""
    got = results(program, inputs(batch=3, seed=7))
    (want,) = expected(batch=3, seed=7)
    assert list(got) == [spec.name for spec in program.outputs] == list(want)
    for name, tensor in want.items():
        most = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(tensor.dtype, 1e-4)
        most = 1e-3 if name.startswith("far") else most  # torch's own mean of large numbers
        wanted = tensor.float().numpy() if tensor.is_floating_point() else tensor.numpy()
        np.testing.assert_allclose(
            got[name].astype(wanted.dtype), wanted, rtol=most, atol=most, err_msg=name
        )


@pytest.mark.check
def test_values_where_good_guesses_are_wrong(program: Program) -> None:
    got = results(program, inputs(batch=2, seed=1))
    assert got["remainder"].tolist() == [2, 0, 1] * 5
    assert got["remainder_of_negative"].max() <= 0
    large = [number + LARGE for number in range(-7, 8)]
    rest, ratio = [one % 1000003 for one in large], [one // 1000003 for one in large]
    square = [(one**2 + 2**63) % 2**64 - 2**63 for one in large]  # of 64 bits
    assert got["large"].tolist() == [rest, rest, ratio, square, square, large]
    assert got["sign_and_powers"][0, 0, 0] == 0
    ratios = got["ratio_to_zero"]
    assert np.isneginf(ratios[:7]).all() and np.isnan(ratios[7]) and np.isposinf(ratios[8:]).all()
    assert got["cumsum"].max() > 590  # ExecuTorch stops at 256, as below
    assert got["sums"].min() > 590
    place = {float(value): index for index, value in enumerate(ODD[0].nan_to_num(-7.0))}
    for name in ("exp", "maximum", "minimum", "square_root", "softplus", "logarithm"):
        assert np.isnan(got[name][0, 0]), name
    assert got["square_root"][0, 1] == np.inf
    assert np.isinf(got["inverse_square_root"][0, place[0.0]])
    assert got["ceil"][0, place[float(ODD[0, 11])]] == 1
    assert abs(got["far_layer_norm"].std() - 1) < 1e-3
    assert abs(got["half_layer_norm"].astype(np.float32).std() - 1) < 1e-2
    assert got["gelu"][0, place[1.0]] == pytest.approx(0.841192, abs=2e-6)
    assert got["exact_gelu"][0, place[1.0]] == pytest.approx(0.841345, abs=2e-6)
    assert np.isnan(got["pool_of_logarithm"]).sum() == 0


@pytest.mark.check
def test_resizing_steps_by_the_inverse_of_the_factor(program: Program) -> None:
    given = inputs(batch=1, seed=2)
    ramp = torch.arange(9.0).expand(1, 2, 9, 9).contiguous()
    row = results(program, (*given[:-1], ramp))["resized"][0, 0, 11]
    np.testing.assert_allclose(np.diff(row)[3:-3], 0.4, atol=1e-5)


@pytest.mark.check
def test_the_state_begins_as_in_the_module_and_stays_between_calls(program: Program) -> None:
    wanted = expected(batch=2, seed=1, calls=3)
    for attempt in range(2):
        for step, want in enumerate(wanted):
            got = results(program, inputs(batch=2, seed=1))
            assert got["steps"] == STEPS + 1 + step, attempt
            np.testing.assert_allclose(got["memory"], want["memory"].numpy(), atol=1e-6)
        program.reset()
    assert set(program.state) == set(STATE)


@pytest.mark.check
@pytest.mark.parametrize(
    ("index", "place", "said", "operator", "text"),
    [
        (5, (1, 0, 4, 4), r"picture has a NaN at \(1, 0, 4, 4\)", "max_pool2d", '"pool": F.'),
        (4, (0, 1), r"far has a NaN at \(0, 1\)", "max_pool2d_with_indices", '"places": F.'),
    ],
)
def test_a_nan_that_would_be_lost_is_refused_with_its_line(
    program: Program, index: int, place: tuple[int, ...], said: str, operator: str, text: str
) -> None:
    given = list(inputs(batch=2, seed=1))
    given[index] = given[index].clone()
    given[index][place] = float("nan")
    lines = SOURCE.read_text().splitlines()
    line = next(number for number, code in enumerate(lines, 1) if text in code)
    with pytest.raises(RunnerError, match=said) as refused:
        results(program, tuple(given))
    assert f"{operator} at module_traps.py:{line}" in str(refused.value)


@pytest.mark.check
def test_a_nan_in_a_pool_of_halves_stays(program: Program) -> None:
    given = list(inputs(batch=2, seed=1))
    given[3] = given[3].clone()
    given[3][1, 4] = float("nan")  # not the first of its window
    pooled = results(program, tuple(given))["pool_of_halves"]
    assert np.argwhere(np.isnan(pooled)).tolist() == [[1, 1]]


@pytest.mark.check
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {5: torch.randn(6, 2, 9, 9)},
            r"picture has the shape \(6, 2, 9, 9\), but must be float32 "
            r"\(batch: 1 to 5, 2, 9, 9\)",
        ),
        ({5: torch.randn(2, 9, 9)}, r"picture has the shape \(2, 9, 9\)"),
        ({1: torch.arange(15.0)}, "whole is float32, but must be int64"),
        ({2: torch.ones(1, 600)}, None),
        ({3: torch.randn(2, 300)}, "rows is float32, but must be float16"),
    ],
)
def test_other_shapes_and_types(program: Program, change: Any, words: str | None) -> None:
    given = list(inputs(batch=2, seed=1))
    for place, tensor in change.items():
        given[place] = tensor
    if words is None:
        assert results(program, tuple(given))["cumsum"].max() > 590
        return
    with pytest.raises(RunnerError, match=words):
        results(program, tuple(given))


@pytest.mark.check
def test_the_report_speaks_of_the_users_file(traps_pte: Path) -> None:
    report = read_report(traps_pte)
    assert report["module"]["source"] == "module_traps.py:make"
    shapes = {each["name"]: each["shape"] for each in report["signature"]["inputs"]}
    assert shapes["picture"] == "(batch: 1 to 5, 2, 9, 9)"
    lines = {item["line"].partition(":")[0] for item in report["delegation"]["lines"]}
    assert lines == {"module_traps.py"}
    reasons = {item["operator"]: item["reason"] for item in report["delegation"]["lines"]}
    assert reasons["exp"] == "xnnpack: XNNPACK's loses a NaN"
    compared = {"the example", "channels-last strides", "batch = 1", "batch = 5"}
    assert compared <= set(report["agreement"]["inputs"])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("branch", r"module_traps.py:\d+ \(if self.what == \"branch\".*torch.where"),
        ("size", r"module_traps.py:\d+ requires x.size\(0\) .*batch should vary more"),
        ("sort", r"No delegate takes sort \(module_traps.py:\d+\)"),
        ("inverse", r"No delegate takes linalg_inv \(module_traps.py:\d+\)"),
        ("unbounded", r"module_traps.py:\d+ makes a tensor .*\(bincount\).*torch._check"),
        ("without_end", r"Size 0 of the input x has no largest value.*Dim\('batch', max=64\)"),
        ("rrelu", r"No delegate takes rrelu\S* \(module_traps.py:\d+\)"),
        ("convolution", r"three dimensions \(module_traps.py:\d+\)"),
        ("random", r"module_traps.py:\d+ draws random numbers \(native_dropout\)"),
        ("cut", r"module_traps.py:\d+ \(return x\[.*takes a size .*torch.where"),
        ("out_of_range", "input has size 9, which its Dim does not allow; .* the range of batch"),
        (
            "recurrent",
            r"requires input.size\(1\) .*time should vary.*recurrent layer takes one length",
        ),
        ("text", "returns 'y', but a program returns only tensors"),
        ("number", "returns 3, but a program returns only tensors"),
        ("fails", r"fails on its own example inputs at module_traps.py:\d+ \(return x @ x\)"),
        ("raises", r"raises\(\) of module_traps.py failed at module_traps.py:\d+ .*no weights"),
        ("ends", r"ends\(\) of module_traps.py failed at .*SystemExit: 0"),
        ("two_lines", "ValueError: no weights were found"),
        ("complex_input", "x is torch.complex64, which a program cannot take"),
        ("calibration_of_another_shape", r"The module fails on calibration\[1\]: RuntimeError"),
        ("no_inputs", r"must return \(module, inputs\)"),
        ("no_module", "not a torch.nn.Module"),
        ("other_inputs", r"inputs do not fit forward\(\)"),
        ("plain_number", "have 3 for x, but a program takes only tensors"),
        ("unknown_part", "a dictionary that has 'shapes'"),
        ("nothing", "has no function nothing"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(tmp_path: Path, function: str, words: str) -> None:
    out = tmp_path / "refused.pte"
    out.write_bytes(b"an earlier file")
    with pytest.raises((ExportError, DelegateError), match=words) as refused:
        export_module(ModuleOptions(SourceName(SOURCE, function), out), Quiet())
    assert str(refused.value).count("\n") == 0
    assert out.read_bytes() == b"an earlier file"
    assert list(tmp_path.iterdir()) == [out]
