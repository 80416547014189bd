"""`devtools compare` on what exports of every kind compute: floats, int8, rotations, adapters."""

import dataclasses
from pathlib import Path

import pytest
from support.adapters import save_adapter
from support.first_layers import export_recorded, first_layers, stretched

from devtools.commands.compare import compare
from devtools.commands.requests import CompareRequest
from devtools.compare.outcome import Outcome
from devtools.compare.rows import QUANTIZED_TOLERANCE
from devtools.errors import BadRequest
from exporter.checkpoint import open_checkpoint
from quant.scheme import METHODS, Scheme


@pytest.fixture(scope="module")
def two_layers(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layers of stories260K."""
    return first_layers(shared_data, tmp_path_factory.mktemp("two_layers"), 2)


def compared(model: Path, checkpoint: Path) -> Outcome:
    return compare(CompareRequest(model, str(checkpoint), None, None, 64, None))


@pytest.mark.check
def test_a_float_program_is_held_to_float(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    outcome = compared(export_recorded(two_layers, tmp_path, Scheme("none"), "cpu"), two_layers)
    assert outcome.wrong is None and outcome.odd == []
    assert outcome.tolerance == 1e-3
    assert all(row.quantized_so_far.relative == 0 for row in outcome.comparison.rows)


@pytest.mark.check
def test_rotary_tables_are_of_the_files_length(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    checkpoint = stretched(two_layers, tmp_path, original=24, limit=96)
    pte = export_recorded(checkpoint, tmp_path, Scheme("none"), "cpu")
    outcome = compared(pte, checkpoint)
    assert outcome.wrong is None
    assert outcome.logits["program_beside_float"].kl < 1e-6


@pytest.mark.check
def test_rotated_inputs_leave_every_line_as_it_is(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    method = dataclasses.replace(METHODS["rtn4"], rotation="inputs")
    pte = export_recorded(two_layers, tmp_path, Scheme("rtn4", method=method), "cpu")
    outcome = compared(pte, two_layers)
    assert outcome.wrong is None and outcome.odd == []
    assert all(row.program_error < QUANTIZED_TOLERANCE / 2 for row in outcome.comparison.rows)
    assert outcome.logits["program_beside_quantized"].kl < 1e-3


def check_groups(outcome: Outcome) -> None:
    """Of inputs that are rounded in groups."""
    assert outcome.wrong is None and outcome.odd == []
    assert all(row.program_error < QUANTIZED_TOLERANCE / 2 for row in outcome.comparison.rows)
    # Those read the layer's own input: nothing but the order of sums differs.
    queries = [row for row in outcome.comparison.rows if "q_proj" in row.sink.place.module_path]
    assert len(queries) == 2 and all(row.program_error < 1e-5 for row in queries)
    assert outcome.logits["program_beside_quantized"].kl < 1e-3


@pytest.mark.check
def test_int8_in_groups_departs_nowhere(cpp_build: Path, two_layers: Path, tmp_path: Path) -> None:
    """Its inputs are rotated too."""
    outcome = compared(export_recorded(two_layers, tmp_path, Scheme("rtn8"), "cpu"), two_layers)
    check_groups(outcome)
    assert outcome.logits["quantized_beside_float"].kl < 1e-3


@pytest.mark.check
def test_scales_of_one_level_depart_nowhere(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    method = dataclasses.replace(METHODS["rtn4"], scales="absmax")
    pte = export_recorded(two_layers, tmp_path, Scheme("rtn4", method=method), "cpu")
    check_groups(compared(pte, two_layers))


@pytest.mark.check
def test_adapters_that_are_kept_apart_are_left_out(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    spec = open_checkpoint(two_layers).config
    adapters = (("a", str(save_adapter(tmp_path / "a", spec, 1, linears=["q_proj", "up_proj"]))),)
    pte = export_recorded(two_layers, tmp_path, Scheme("rtn4"), "cpu", adapters=adapters)
    outcome = compared(pte, two_layers)
    assert outcome.wrong is None and outcome.odd == []
    assert outcome.logits["program_beside_quantized"].kl < 1e-3
    places = {row.sink.place.module_path for row in outcome.comparison.rows}
    assert "model.layers.1.self_attn.q_proj" in places


@pytest.mark.check
def test_a_rotated_export_has_other_lines(
    cpp_build: Path, two_layers: Path, tmp_path: Path
) -> None:
    method = dataclasses.replace(METHODS["rtn4"], rotation="hadamard")
    pte = export_recorded(two_layers, tmp_path, Scheme("rtn4", method=method), "cpu")
    with pytest.raises(BadRequest, match="was exported with rotation=hadamard, so its li"):
        compared(pte, two_layers)
