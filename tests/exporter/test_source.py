"""Which weights an export takes, and that it says so."""

import shutil
from pathlib import Path

import pytest
from support.exported import Quiet

import exporter.catalogue.find
from exporter.catalogue.find import EMBEDDED_NAME, find_checkpoint
from exporter.errors import ExportError
from exporter.options import ExportOptions


def options(model: str | None, checkpoint: Path | None = None) -> ExportOptions:
    return ExportOptions(
        model=model, out=Path("unused.pte"), checkpoint=str(checkpoint) if checkpoint else None
    )


@pytest.mark.parametrize("model", ["llama3", "llama3.2-1b"])
def test_llama3_alone_is_the_model_that_ships(
    model: str, one_layer_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter.catalogue.find, "EMBEDDED", one_layer_checkpoint)
    listener = Quiet()
    assert find_checkpoint(options(model), listener).name == EMBEDDED_NAME
    (note,) = listener.notes
    assert note == (
        f"Exporting {EMBEDDED_NAME}, the small Llama 3 that ships with this package, as no "
        "checkpoint was named. The real one is meta-llama/Llama-3.2-1B: thimble-run "
        "meta-llama/Llama-3.2-1B, or "
        "thimble-export meta-llama/Llama-3.2-1B --out model.pte."
    )


def test_a_checkpoint_decides_whatever_the_name(one_layer_checkpoint: Path) -> None:
    listener = Quiet()
    checkpoint = find_checkpoint(options("llama3-8b", one_layer_checkpoint), listener)
    assert checkpoint.config.num_hidden_layers == 1
    assert checkpoint.directory == one_layer_checkpoint
    assert listener.notes == []


def test_a_checkpoint_needs_no_name(one_layer_checkpoint: Path) -> None:
    listener = Quiet()
    checkpoint = find_checkpoint(options(None, one_layer_checkpoint), listener)
    assert checkpoint.directory == one_layer_checkpoint
    assert checkpoint.name == one_layer_checkpoint.name
    assert listener.notes == []
    with pytest.raises(ExportError, match="no model was given"):
        find_checkpoint(options(None), listener)


def test_a_directory_is_a_model(one_layer_checkpoint: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(one_layer_checkpoint, tmp_path / "my model")
    assert find_checkpoint(options(str(directory)), Quiet()).name == "my model"


def test_an_unknown_name_is_refused_even_with_a_checkpoint(one_layer_checkpoint: Path) -> None:
    with pytest.raises(ExportError, match="There is no model 'lama3' \\(did you mean llama3"):
        find_checkpoint(options("lama3", one_layer_checkpoint), Quiet())
