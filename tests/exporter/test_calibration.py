"""Where no text is named, shipped text is half of the calibration and the model writes the rest."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.exported import Quiet
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from exporter.catalogue.find import find_checkpoint
from exporter.catalogue.names import EMBEDDED
from exporter.chat_template import first_turn
from exporter.checkpoint import Checkpoint, open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.plan.planning import read_plan
from exporter.text.calibration import with_own_text
from exporter.text.prepare import Text, prepare_text
from exporter.text.self_written import SEED, write_texts, writing_bytes, writing_form
from quant.quantize import quantize
from quant.scheme import Scheme

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> ExportOptions:
    """Of the embedded model in another directory: a checkpoint like any other."""
    directory = tmp_path_factory.mktemp("checkpoint")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (directory / name).symlink_to(EMBEDDED / name)
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    return ExportOptions(str(directory), directory / "model.pte", calibration_tokens=8 * 256)


@pytest.fixture(scope="module")
def checkpoint(options: ExportOptions) -> Checkpoint:
    return find_checkpoint(options, Quiet())


@pytest.fixture(scope="module")
def shipped(options: ExportOptions, checkpoint: Checkpoint) -> Text:
    return prepare_text(options, checkpoint)


@pytest.mark.check
def test_half_of_it_is_the_models_own(
    options: ExportOptions, checkpoint: Checkpoint, shipped: Text, tmp_path: Path
) -> None:
    assert shipped.calibration is not None and shipped.bos_id is not None
    start, turn = shipped.prompts
    assert start == (shipped.bos_id,) and turn[0] == shipped.bos_id and len(turn) > 1
    listener = Quiet()
    plan = read_plan(replace(options, cache=tmp_path), listener)
    text = with_own_text(plan, listener)
    assert text.calibration is not None and text.calibration.shape == (8, 256)
    assert listener.stages == ["write text"]
    whole = set(map(tuple, shipped.calibration.tolist()))
    ours, own = text.calibration[:4], text.calibration[4:]
    assert all(tuple(row) in whole for row in ours.tolist())
    for row, prompt in zip(own.tolist(), (start, start, turn, turn), strict=True):
        assert tuple(row) not in whole and tuple(row[: len(prompt)]) == prompt
    assert len(set(map(tuple, own.tolist()))) == 4
    assert text.sha256 != shipped.sha256
    assert text.source == (
        "built-in documentation and encyclopedia; half of the calibration by the model itself"
    )
    assert torch.equal(text.evaluation, shipped.evaluation) and len(text.evaluation) == 8
    again = with_own_text(plan, listener)
    assert again.calibration is not None and torch.equal(again.calibration, text.calibration)
    assert again.sha256 == text.sha256 and listener.stages == ["write text"]


def test_it_is_sampled_from_the_models_own_distribution(checkpoint: Checkpoint) -> None:
    """Each token from the logits after all before it, which are computed anew here."""
    length, prompts = 12, [(1,), (1, 5, 7), (1, 5)]
    written = write_texts(checkpoint, prompts, length, Scheme("rtn8"), None, Quiet())
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    quantize(model, Scheme("rtn8"), checkpoint)
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.ones(3, 1, dtype=torch.int64)
    with torch.no_grad():
        while (end := tokens.shape[1]) < length:
            odds = model.logits(tokens)[:, -1].softmax(-1)
            chosen = torch.multinomial(odds, 1, generator=generator)
            for row, prompt in enumerate(prompts):
                chosen[row] = prompt[end] if end < len(prompt) else chosen[row]
            tokens = torch.cat([tokens, chosen], 1)
    assert torch.equal(written, tokens)


def test_values_that_are_not_finite_are_said(options: ExportOptions, tmp_path: Path) -> None:
    directory = Path(options.model)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).symlink_to(directory / name)
    weights = load_file(directory / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.weight"].fill_(torch.finfo(torch.bfloat16).max)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ExportError, match="values that are not finite as it writes text"):
        write_texts(open_checkpoint(tmp_path), [(1,)], 4, Scheme("none"), None, Quiet())


@pytest.mark.check
def test_what_needs_no_own_text_gets_none(
    options: ExportOptions, checkpoint: Checkpoint, shipped: Text, tmp_path: Path
) -> None:
    listener = Quiet()

    def unchanged(other: ExportOptions) -> bool:
        plan = read_plan(other, Quiet())
        return with_own_text(plan, listener) is plan.text

    named = tmp_path / "named.txt"
    named.write_text("A text of the user's own.\n" * 4000)
    assert unchanged(replace(options, calibration=named))
    assert unchanged(replace(options, scheme=Scheme("rtn4")))
    assert unchanged(ExportOptions("llama3", options.out))
    assert listener.stages == listener.notes == []
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    integers = writing_bytes(model, Scheme("rtn8"), 4, 256)
    forms = (writing_form(model, 4, 256, memory) for memory in (None, integers, integers - 1))
    assert [form and form.name for form in forms] == ["none", "rtn8", None]
    assert unchanged(replace(options, max_memory=10_000_000))
    assert listener.stages == []
    (note,) = listener.notes
    assert note.startswith("Calibrating on the shipped text only: to write its own, the model")


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A tokenizer that makes almost no tokens of English text, and has no unknown one."""
    tokenizer = Tokenizer(WordLevel({"ACGT": 0, "TTAG": 1}))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_tokenizer_that_the_shipped_text_does_not_suit(
    few: Path, options: ExportOptions, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    plain = replace(options, tokenizer=few, scheme=Scheme("rtn4"))
    text = prepare_text(plain, checkpoint)
    assert text.evaluation is None and text.calibration is None
    with pytest.raises(ExportError, match="^The tokenizer of .* makes too few tokens of"):
        prepare_text(replace(plain, scheme=Scheme("gptq4")), checkpoint)
    own = tmp_path / "own.txt"
    own.write_text("ACGT TTAG TTAG\n" * 4000)
    for named in (
        replace(plain, calibration=own),
        replace(options, tokenizer=few, calibration=own),
    ):
        assert prepare_text(named, checkpoint).evaluation is not None


@pytest.mark.check
def test_quality_that_cannot_be_measured(few: Path, options: ExportOptions) -> None:
    listener = Quiet()
    plain = replace(options, tokenizer=few, scheme=Scheme("none"), out=few / "model.pte")
    result = export_model(plain, listener)
    assert result.report["quality"] is None and result.report["text"]["held_out_tokens"] == 0
    assert result.agreement is not None and result.agreement.positions == 8
    assert any(note.startswith("Quality is not measured: the tokenizer") for note in listener.notes)


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        (TEMPLATE, "<|user|>"),
        ("{{ bos_token }}[{{ messages[0]['content'] }}]", "<s>["),
        ("{{ messages[0]['content'] | upper }}", None),
        ("{{ raise_exception('no') }}", None),
        ("{% if %}", None),
    ],
)
def test_what_a_template_writes_before_the_first_message(template: str, wanted: str | None) -> None:
    assert first_turn(template, {"bos_token": "<s>", "eos_token": "</s>"}) == wanted
