"""`devtools compare` holds one decoder layer's values at once, however many layers there are."""

import gc
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from support.first_layers import export_recorded, first_layers
from support.small_disk import small_disk
from torch import Tensor, nn

from devtools.commands import compare_models, recorded_weights
from devtools.commands.compare import compare
from devtools.commands.recorded_weights import read_weights
from devtools.commands.requests import CompareRequest
from devtools.compare.graph_values import LoggedRows
from devtools.compare.logged import Log
from devtools.compare.outcome import Outcome
from devtools.compare.rows import Calls, Row, Stage, compare_stage
from devtools.errors import BadRequest, DevtoolsError
from exporter.file.etrecord import WEIGHTS
from quant.scheme import Scheme

TOKENS = 40


@pytest.fixture(scope="module")
def five_layers(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_layers(shared_data, tmp_path_factory.mktemp("five"), 5)


@pytest.fixture(scope="module")
def five_layers_pte(
    cpp_build: Path, five_layers: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return export_recorded(five_layers, tmp_path_factory.mktemp("cpu"), Scheme("rtn4"), "cpu")


def storages() -> dict[int, int]:
    """Bytes of the memory of every tensor there is, by its address."""
    found: dict[int, int] = {}
    for item in gc.get_objects():
        if type(item) in (Tensor, nn.Parameter) and item.device.type == "cpu":
            storage = item.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def most_held(request: CompareRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, int, int]:
    """Compares; the most bytes that tensors held in a stage, all weights of the quantized model
    left out; and the most that the stage read of what the program logged."""
    held: list[int] = []
    read: list[int] = []
    gc.collect()
    before = storages().keys()
    own = Log.read

    def counted_read(self: Log, stored: object) -> Tensor:
        values = own(self, stored)  # type: ignore[arg-type]
        read[-1] += values.nbytes
        return values

    def counted(stage: Stage, logged: Sequence[LoggedRows], calls: Calls, tokens: int) -> list[Row]:
        read.append(0)
        rows = compare_stage(stage, logged, calls, tokens)
        held.append(sum(size for at, size in storages().items() if at not in known))
        return rows

    quantized_model = recorded_weights.quantized_model
    known = set(before)

    def remembered(*arguments: object) -> object:
        model = quantized_model(*arguments)  # type: ignore[arg-type]
        for tensor in (*model.parameters(), *model.buffers()):
            known.add(tensor.untyped_storage().data_ptr())
        return model

    with monkeypatch.context() as patch:
        patch.setattr(Log, "read", counted_read)
        patch.setattr(compare_models, "compare_stage", counted)
        patch.setattr(recorded_weights, "quantized_model", remembered)
        outcome = compare(request)
    return outcome, max(held), max(read)


@pytest.mark.soak
def test_more_layers_need_no_more_memory(
    five_layers: Path,
    five_layers_pte: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "two").mkdir()
    two_layers = first_layers(shared_data, tmp_path / "two", 2)
    two_layers_pte = export_recorded(two_layers, tmp_path, Scheme("rtn4"), "cpu")
    few = most_held(
        CompareRequest(two_layers_pte, str(two_layers), None, None, TOKENS, None), monkeypatch
    )
    many = most_held(
        CompareRequest(five_layers_pte, str(five_layers), None, None, TOKENS, None), monkeypatch
    )
    assert len(many[0].comparison.rows) > 2 * len(few[0].comparison.rows)
    assert few[1] > 0 and many[1] == few[1]
    assert few[2] > 0 and many[2] == few[2]


@pytest.mark.check
def test_a_full_disk_is_said_in_a_sentence(five_layers: Path, five_layers_pte: Path) -> None:
    request = CompareRequest(five_layers_pte, str(five_layers), None, None, TOKENS, None)
    with pytest.raises(DevtoolsError) as raised, small_disk(4096):
        compare(request)
    assert str(raised.value) == (
        f"The disk of {tempfile.gettempdir()} cannot store more (File too large); free some space, "
        "or name another directory for temporary files with TMPDIR."
    )


@pytest.mark.check
def test_a_damaged_record_is_said_in_a_sentence(five_layers_pte: Path, tmp_path: Path) -> None:
    record = five_layers_pte.with_suffix(".etrecord")
    with ZipFile(record) as archive:
        entry = archive.getinfo(WEIGHTS)
    data = bytearray(record.read_bytes())
    middle = entry.header_offset + entry.compress_size // 2
    data[middle : middle + 64] = bytes(64)
    damaged = tmp_path / "damaged.etrecord"
    damaged.write_bytes(data)
    with pytest.raises(BadRequest, match="damaged.etrecord is damaged; copy it again, or export"):
        read_weights(damaged)


def test_values_are_read_where_they_were_kept() -> None:
    values = torch.arange(12.0)
    with Log() as log:
        stored = [log.append(part.numpy().tobytes()) for part in values.split(5)]
        assert [part.count for part in stored] == [5, 5, 2]
        for part, expected in zip(reversed(stored), reversed(values.split(5)), strict=True):
            assert torch.equal(log.read(part), expected)
