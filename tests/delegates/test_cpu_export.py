"""A checkpoint through the whole export with `--delegate cpu`: the file, its record, its report."""

from pathlib import Path

import pytest
from support.exported import Quiet
from support.op_list import read_calls

from exporter.file.pte import DELEGATE, read_report, verify
from exporter.options import ExportOptions
from exporter.pipeline import ExportResult, export_model
from quant.scheme import Scheme


@pytest.fixture(scope="module")
def exported(
    one_layer_checkpoint: Path,
    calibration_text: Path,
    cpp_build: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> ExportResult:
    directory = tmp_path_factory.mktemp("cpu")
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=directory / "model.pte",
        scheme=Scheme("rtn4"),
        calibration=calibration_text,
        max_context_len=64,
        delegate="cpu",
        etrecord=directory / "model.etrecord",
    )
    return export_model(options, Quiet())


def test_the_file_was_run_and_agreed(exported: ExportResult) -> None:
    assert exported.agreement is not None
    assert exported.agreement.error <= exported.agreement.tolerance
    delegation = read_report(exported.out)["delegation"]
    assert (delegation["delegate"], delegation["calls"], delegation["left"]) == ("cpu", 1, {})
    assert delegation["delegated"]["thimble::linear"] == 8


def test_weights_are_checked_on_request_and_the_op_list_at_load(exported: ExportResult) -> None:
    ranges = verify(exported.out, everything=True)
    kinds = {item.name.split()[0]: item.at_load for item in ranges}
    assert kinds.pop("weights") is False
    assert all(kinds.values()) and DELEGATE in kinds
    assert not any(item.name.startswith("cpu/") for item in ranges)


def test_weights_lie_on_pages(exported: ExportResult, tmp_path: Path) -> None:
    file = exported.out.read_bytes()
    (call,) = read_calls(exported.out, tmp_path)
    at = [file.index(call.data[item["key"]]) for item in call.program["weights"]]
    assert len(at) == 5 and all(offset % 16384 == 0 for offset in at)
    assert at == sorted(at)  # in the order in which they are read
    assert file.index(call.data[call.program["floats"]]) % 64 == 0


def test_the_etrecord_resolves_every_debug_id(exported: ExportResult) -> None:
    from executorch.devtools.etrecord import parse_etrecord

    record = parse_etrecord(str(exported.out.with_suffix(".etrecord")))
    assert record.edge_dialect_program is not None
    nodes = record.edge_dialect_program.graph.nodes
    known = {node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta}
    assert record._delegate_map is not None
    (delegate,) = record._delegate_map["forward"].values()
    assert delegate["name"] == "ThimbleCpuBackend"
    ids = delegate["delegate_map"]
    assert len(ids) == 1 + 2 * 6
    assert all(handles and set(handles) <= known for handles in ids.values())
