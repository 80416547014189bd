"""Exports of 4 to 8 bits: by default, within --bits and --max-size, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.exported import Quiet

from delegates import DelegateError, get_delegate
from exporter.errors import ExportError
from exporter.listener import SILENT
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.file_size import estimate_size
from exporter.plan.plan import empty_model
from exporter.plan.planning import read_plan
from exporter.plan.widths import choose_default_widths, storage_of
from quant.budget.allocate_bits import Budget, allocate_bits
from quant.errors import QuantError
from quant.method import Method
from quant.scheme import METHODS, Scheme


@pytest.mark.check
@pytest.mark.parametrize(
    ("delegate", "rotation", "spreads"),
    [
        ("cpu", "inputs", True),
        ("mps", "inputs", True),
        ("xnnpack", "none", False),  # stores 4 and 8 bits alone
        ("xnnpack,cpu", "none", False),
        ("cpu", "hadamard", False),  # would count tied ends once, and make two of them
    ],
)
def test_bits_are_mixed_where_all_widths_are_stored(
    shared_data: Path, delegate: str, rotation: str, spreads: bool
) -> None:
    method = replace(METHODS["gptq4"], rotation=rotation)
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=Path("no.pte"),
        scheme=Scheme("gptq4", method=method),
        calibration=shared_data / "text" / "tinystories_calibration.txt",
        calibration_tokens=1024,
    )
    plan = read_plan(replace(options, delegate=delegate), SILENT)
    found = choose_default_widths(plan, SILENT)
    assert bool(found.types) is spreads
    if spreads:
        storage = storage_of(get_delegate("cpu").LIMITS)  # for all, so that one cache serves all
        even, sample = Budget(even=True, storage=storage), plan.text.calibration
        model = empty_model(plan.checkpoint.config)
        assert found == allocate_bits(
            model, options.scheme, even, plan.checkpoint, sample, lambda: None
        )
    else:
        assert found == plan.scheme


def test_a_delegate_of_one_width_says_so_at_once(one_layer_checkpoint: Path) -> None:
    listener = Quiet()
    options = ExportOptions(
        model=str(one_layer_checkpoint), out=Path("no.pte"), bits=6.0, delegate="vulkan"
    )
    with pytest.raises(DelegateError) as error:
        export_model(options, listener)
    assert str(error.value).startswith(
        "vulkan does not support weights of 8 bits, which a budget uses in model.layers.0 to 0: "
    )
    assert listener.stages == []


def test_floats_are_refused_at_once(one_layer_checkpoint: Path) -> None:
    listener = Quiet()
    options = ExportOptions(
        str(one_layer_checkpoint), out=Path("no.pte"), scheme=Scheme("none"), max_size=10**6
    )
    with pytest.raises(QuantError, match="a budget spreads 2 to 8 bits, and none stores"):
        export_model(options, listener)
    assert listener.stages == []


def test_a_rotation_that_unties_is_refused_at_once(shared_data: Path) -> None:
    listener = Quiet()
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=Path("no.pte"),
        scheme=Scheme("gptq4", method=Method(rotation="hadamard")),
        bits=6.0,
    )
    with pytest.raises(ExportError, match="rotation=hadamard unties this model's embedding and"):
        export_model(options, listener)
    assert listener.stages == []


@pytest.mark.check
@pytest.mark.parametrize("delegate", ["cpu", "xnnpack"])
def test_a_file_of_two_widths_runs_and_keeps_its_size(
    cpp_build: Path,
    one_layer_checkpoint: Path,
    calibration_text: Path,
    tmp_path: Path,
    delegate: str,
) -> None:
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=tmp_path / "model.pte",
        max_size=220_000 if delegate == "cpu" else 214_000,
        calibration=calibration_text,
        calibration_tokens=1024,
        max_context_len=64,
        delegate=delegate,
    )
    listener = Quiet()
    result = export_model(options, listener)
    assert listener.stages[0] == "measure"
    assert options.max_size is not None and result.size <= options.max_size
    assert result.agreement is not None and result.delegation.linears_delegated == 8
    widths = set(result.report["quantization"]["bits"].values())
    assert "4 bits" in widths and len(widths) > 1, result.size
    assert result.report["quantization"]["method"]["rounding"] == "gptq"


@pytest.mark.check
def test_the_size_is_estimated_to_the_page(one_layer_checkpoint: Path, tmp_path: Path) -> None:
    """Never exceeded, and no more than a page too large."""
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=tmp_path / "model.pte",
        scheme=Scheme("rtn4", head_bits=4),
        max_context_len=64,
    )
    plan = read_plan(options, Quiet())
    estimated = estimate_size(plan)
    size = export_model(options, Quiet()).size
    assert estimated - plan.limits.sizes.alignment < size <= estimated


def test_little_memory_leaves_bits_as_they_are_or_is_refused(
    shared_data: Path, calibration_text: Path
) -> None:
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=Path("no.pte"),
        mixed=True,
        calibration=calibration_text,
        calibration_tokens=1024,
        max_memory=10**6,
    )
    listener = Quiet()
    assert choose_default_widths(read_plan(options, listener), listener) == options.scheme
    assert listener.stages == []
    note = listener.notes[-1]
    assert re.fullmatch(
        r"Storing every layer in 4 bits: to measure the effect of more, the model needs about "
        r"[\d.]+ [MG]B of memory, more than --max-memory\.",
        note,
    )
    with pytest.raises(ExportError) as error:
        export_model(replace(options, bits=6.0), listener)
    assert str(error.value).startswith(
        "to measure the effect of bits, stories260K needs about "
    ) and "but --max-memory is 1.0 MB; allow that much, or leave out --bits" in str(error.value)
    assert listener.stages == []
