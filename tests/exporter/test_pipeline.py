"""The export as a whole: what it writes beside the weights, and that it checks what it wrote."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.exported import Exported, Quiet, export_for_tests
from support.tiers import checked, soaked_rows
from torch import Tensor

import exporter.pipeline
from exporter.catalogue.find import find_checkpoint
from exporter.catalogue.names import EMBEDDED
from exporter.errors import ExportError
from exporter.file.agreement import Reference
from exporter.file.pte import TOKENIZER, encode_report, read_blob, read_report, verify
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model, load_quantized
from exporter.plan.file_size import estimate_size, require_room, size_note
from exporter.plan.planning import read_plan
from exporter.plan.widths import other_bytes
from exporter.text.prepare import prepare_text
from exporter.tokenizer import compile_tokenizer
from quant.budget.allocate_bits import numbers_of
from quant.scheme import Scheme


@pytest.mark.check
def test_the_tokens_gptq_saw_and_the_bits_it_left(stories_gptq_export: Exported) -> None:
    quantized = stories_gptq_export.result.quantization
    assert quantized.calibration_tokens == 4096
    assert quantized.size.bits_per_weight < 7  # the embedding and the head are a quarter of it


@pytest.mark.check
def test_the_report_in_the_file_is_the_result(stories_gptq_export: Exported) -> None:
    result = stories_gptq_export.result
    report = read_report(result.out)
    assert report == result.report
    assert result.size == result.out.stat().st_size
    assert report["model"] == {
        "name": "stories260K",
        "adapter": None,
        "model_type": "llama",
        "parameters": 260_032,
        "hidden_size": 64,
        "intermediate_size": 172,
        "num_hidden_layers": 5,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "vocab_size": 512,
        "max_context_len": 512,
        "max_seq_len": 512,
        "bos_id": 1,
        "eos_ids": [2],
        "chat_template": None,
    }
    assert report["quantization"]["scheme"] == "gptq4"
    assert result.quantization.quality is not None
    assert report["quality"] == result.quantization.quality.to_dict()
    assert report["agreement"]["error"] <= report["agreement"]["tolerance"]


@pytest.mark.check
def test_the_report_names_the_text(stories_gptq_export: Exported, calibration_text: Path) -> None:
    report = stories_gptq_export.result.report
    assert report["text"] == {
        "name": "tinystories_calibration.txt",
        "sha256": hashlib.sha256(calibration_text.read_bytes()).hexdigest(),
        "calibration_tokens": 4096,
        "held_out_tokens": 2048,
    }


def test_a_text_of_another_system_is_the_same_text(
    one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    """Its lines end otherwise; and a name that is no text is written as far as it is."""
    options = ExportOptions(model=str(one_layer_checkpoint), out=Path("unused.pte"))
    checkpoint = find_checkpoint(options, Quiet())
    original = EMBEDDED / "calibration.txt"
    text = prepare_text(replace(options, calibration=original), checkpoint)
    assert text.source == "calibration.txt"
    other = tmp_path / "caf\udce9.txt"
    other.write_bytes(b"\xef\xbb\xbf" + original.read_bytes().replace(b"\n", b"\r\n"))
    same = prepare_text(replace(options, calibration=other), checkpoint)
    assert torch.equal(text.evaluation, same.evaluation)
    assert same.sha256 != text.sha256 == hashlib.sha256(original.read_bytes()).hexdigest()
    assert json.loads(encode_report({"name": same.source})) == {"name": "caf?.txt"}


def test_the_tokenizer_in_the_file_is_the_checkpoint_s(
    stories_pte: Path, shared_data: Path
) -> None:
    compiled = compile_tokenizer(shared_data / "stories260K")
    assert read_blob(stories_pte, TOKENIZER) == compiled.data


@pytest.mark.check
def test_the_size_of_the_file_is_estimated(
    stories_gptq_export: Exported, shared_data: Path, calibration_text: Path
) -> None:
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=Path("unused.pte"),
        calibration=calibration_text,
        max_context_len=512,
        delegate="xnnpack",
    )
    plan, size = read_plan(options, Quiet()), stories_gptq_export.result.size
    program = 6 * plan.limits.sizes.layer_bytes  # at most: five layers, and what is around them
    assert size <= estimate_size(plan) <= size + program


def test_a_budget_below_four_bits_needs_no_more_room_than_it_allows(
    one_layer_checkpoint: Path, tmp_path: Path
) -> None:
    """Before it is spread."""
    options = ExportOptions(str(one_layer_checkpoint), tmp_path / "model.pte", bits=9.0)
    plan = read_plan(options, Quiet())
    four = estimate_size(plan)
    allowed = int(3 * numbers_of(plan.empty) / 8 + other_bytes(plan))
    assert allowed < four
    for few in (replace(options, bits=3.0), replace(options, bits=None, max_size=allowed)):
        assert estimate_size(replace(plan, options=few)) == allowed


def test_groups_that_make_a_larger_file_are_told(shared_data: Path, tmp_path: Path) -> None:
    """Of a model whose rows have 64 columns."""
    small = ExportOptions(str(shared_data / "stories260K"), tmp_path / "model.pte")
    notes = []
    for group_size in (32, 64, 128):
        options = replace(small, scheme=Scheme("rtn4", group_size))
        notes.append(size_note(read_plan(options, Quiet(), with_text=False)))
    assert notes[:2] == [None, None]
    said = r"Rows that are filled up to groups of 128 make a file of .* MB; --group-size 64 make"
    assert notes[2] is not None and re.match(said, notes[2])


def test_a_file_and_its_etrecord_need_room_together(
    one_layer_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ExportOptions(str(one_layer_checkpoint), tmp_path / "model.pte")
    plan = read_plan(options, Quiet())
    size = estimate_size(plan)
    disk = shutil.disk_usage(tmp_path)._replace(free=size)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    assert require_room(plan) == size
    plan = replace(plan, options=replace(options, etrecord=tmp_path / "model.etrecord"))
    sentence = r"model.etrecord needs about .* next to .*model.pte, but .* has only 0.0 kB free; "
    with pytest.raises(ExportError, match=sentence):
        require_room(plan)


@pytest.mark.check
def test_float_is_stored_as_float(stories_export: Exported) -> None:
    quality = stories_export.result.quantization.quality
    assert quality is not None
    assert quality.kl == pytest.approx(0, abs=1e-6)
    assert quality.perplexity_quantized == pytest.approx(quality.perplexity_float, rel=1e-5)
    assert stories_export.result.delegation.linears_delegated == 36


@pytest.mark.check
def test_gptq_is_closer_to_float_than_rounding(
    stories_gptq_export: Exported, shared_data: Path, calibration_text: Path
) -> None:
    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=Path("unused.pte"),
        scheme=Scheme("rtn4"),
        calibration=calibration_text,
        delegate="xnnpack",
    )
    _, rounded = load_quantized(read_plan(options, Quiet()), Quiet())
    gptq = stories_gptq_export.result.quantization
    assert rounded.quality is not None and gptq.quality is not None
    assert rounded.quality.tokens == gptq.quality.tokens
    assert rounded.size == gptq.size
    difference = rounded.quality.kl - gptq.quality.kl
    assert difference > 2 * (rounded.quality.kl_error + gptq.quality.kl_error)
    assert rounded.quality.perplexity_quantized > gptq.quality.perplexity_quantized
    assert rounded.quality.top1 < gptq.quality.top1


@pytest.mark.check
@pytest.mark.parametrize(
    ("max_context_len", "max_seq_len", "scheme"),
    [
        (24, 1, Scheme("rtn8")),
        (3, None, Scheme("none")),
        *soaked_rows([(64, 2, Scheme("rtn4", 64, 4))]),
    ],
)
def test_short_lengths(
    one_layer_checkpoint: Path,
    calibration_text: Path,
    tmp_path: Path,
    max_context_len: int,
    max_seq_len: int | None,
    scheme: Scheme,
) -> None:
    exported = export_for_tests(
        ExportOptions(
            model=str(one_layer_checkpoint),
            out=tmp_path / "model.pte",
            scheme=scheme,
            calibration=calibration_text,
            max_context_len=max_context_len,
            max_seq_len=max_seq_len,
        )
    )
    verify(exported.path, everything=True)
    longest = max_seq_len or max_context_len
    facts = exported.result.report["model"]
    assert (facts["max_context_len"], facts["max_seq_len"]) == (max_context_len, longest)
    last = torch.tensor([max_context_len - longest])
    tokens = torch.ones(1, longest, dtype=torch.long)
    with torch.no_grad():
        want, have = exported.eager(tokens, last), exported.lowered(tokens, last)
    assert have.shape == (1, 512)
    assert ((want - have).norm() / want.norm()).item() < 0.03
    with pytest.raises(RuntimeError):
        exported.lowered(torch.ones(1, longest + 1, dtype=torch.long), torch.tensor([0]))


def test_a_file_that_computes_something_else_is_not_kept(
    one_layer_checkpoint: Path,
    calibration_text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the delegate had dropped something: the reference is that of other weights."""
    out = tmp_path / "model.pte"
    out.write_bytes(b"before")
    real_reference = exporter.pipeline.reference_logits

    def other_reference(
        model: CausalLM,
        tokens: Tensor,
        max_seq_len: int,
        quantized: bool,
        release: Callable[[], None],
    ) -> Reference:
        weight = model.get_parameter("model.layers.0.mlp.down_proj.weight")
        weight.mul_(1.5)
        reference = real_reference(model, tokens, max_seq_len, quantized, release)
        weight.div_(1.5)
        return reference

    monkeypatch.setattr(exporter.pipeline, "reference_logits", other_reference)
    listener = Quiet()
    options = ExportOptions(
        model=str(one_layer_checkpoint),
        out=out,
        scheme=Scheme("none"),
        calibration=calibration_text,
        max_context_len=64,
    )
    with pytest.raises(ExportError, match="differ from the model's by .*. Nothing was written"):
        export_model(options, listener)
    assert listener.stages == ["load", "capture", "lower", "write", "check"]
    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "template", ["{% for m in messages %}{{ m.content }}{% endfor %}", *checked(["{{ x"])]
)
def test_a_template_that_nothing_can_use_is_named(
    template: str, one_layer_checkpoint: Path, calibration_text: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(one_layer_checkpoint, model)
    (model / "chat_template.jinja").write_text(template)
    listener = Quiet()
    out, scheme = tmp_path / "model.pte", Scheme("none")
    export_model(
        ExportOptions(str(model), out, scheme=scheme, calibration=calibration_text), listener
    )
    said = [note for note in listener.notes if note.startswith("The runner's --chat will refuse")]
    assert len(said) == (template == "{{ x")
    assert len(said) == ("stored as text" in read_report(out)["model"]["chat_template"])
