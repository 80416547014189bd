"""A rotary table that depends on a text's length is of one length in the file, which it says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.exported import Quiet
from support.packed_checkpoints import CONFIG

from delegates import get_delegate
from delegates.features import Feature
from exporter.file.pte import read_report
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.rotary_notes import rotary_notes
from quant.scheme import Scheme

LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "original_max_position_embeddings": 16,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


@pytest.mark.parametrize(
    ("scaling", "context", "said"),
    [
        (LONGROPE, 16, ""),
        (LONGROPE, 17, "uses its factors for longer texts for every text, and transformers only"),
        (DYNAMIC, 32, ""),
        (DYNAMIC, 33, "uses that of 33 tokens for every text, and transformers only for texts of "),
        ({"rope_type": "linear", "factor": 4.0}, 64, ""),
    ],
)
def test_which_tables_depend_on_the_length(
    scaling: dict[str, Any], context: int, said: str
) -> None:
    spec = decoder_spec({**CONFIG, "rope_scaling": scaling})
    notes = rotary_notes(spec, context, spec.for_context(context))
    assert [said in note for note in notes] == ([True] if said else [])


@pytest.mark.parametrize(("long", "kept"), [(2.0, True), (1.0, False)])
def test_of_a_file_with_both_tables_nothing_is_said(long: float, kept: bool) -> None:
    """Nor of two tables that are equal, of which one is enough."""
    spec = decoder_spec({**CONFIG, "rope_scaling": {**LONGROPE, "long_factor": [long] * 8}})
    made = spec.for_context(17, both=True)
    assert made.original_context == (16 if kept else None)
    assert rotary_notes(spec, 17, made) == rotary_notes(spec, 16, spec) == []


@pytest.mark.parametrize(
    ("delegates", "keeps"),
    [("cpu", True), ("cpu,xnnpack", True), ("xnnpack,cpu", False), ("coreml", False)],
)
def test_which_files_keep_both_tables(delegates: str, keeps: bool) -> None:
    assert (Feature.ROTARY_BY_LENGTH in get_delegate(delegates).LIMITS.supports) == keeps


@pytest.mark.check
def test_the_export_and_its_report_say_so(shared_data: Path, tmp_path: Path) -> None:
    model = shutil.copytree(shared_data / "stories260K", tmp_path / "stories")
    fields = json.loads((model / "config.json").read_text())
    fields |= {"max_position_embeddings": 128, "rope_scaling": DYNAMIC}
    (model / "config.json").write_text(json.dumps(fields))
    listener = Quiet()
    options = ExportOptions(
        str(model), tmp_path / "model.pte", scheme=Scheme("rtn4"), max_context_len=160
    )
    report = export_model(options, listener).report
    (note,) = report["model"]["rotary"]
    assert "with --max-context-len 128, both compute the same" in note
    assert note in listener.notes
    assert read_report(options.out)["model"]["rotary"] == [note]
