"""`devtools compare` of a model of embeddings: by line, on one text that it makes one row of."""

import json
from pathlib import Path

import pytest
from support.damaged_weights import damage_weight
from support.encoder_models import export_embedder, save_bert
from support.model_lines import code_at

from devtools.commands.cli import main
from devtools.commands.compare import compare
from devtools.commands.requests import CompareRequest
from devtools.compare.outcome import Outcome
from devtools.errors import BadRequest

pytestmark = pytest.mark.check  # test_compare_module.py has the same of a module
LAYERS = 2


@pytest.fixture(scope="module")
def embedder(cpp_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_embedder(tmp_path_factory)


def ask(model: Path, checkpoint: Path, etrecord: Path | None = None) -> CompareRequest:
    return CompareRequest(model, str(checkpoint), etrecord, None, 16, None)


@pytest.fixture(scope="module")
def healthy(embedder: Path) -> Outcome:
    return compare(ask(embedder, embedder.parent))


def test_every_line_of_an_encoder_is_compared(healthy: Outcome) -> None:
    assert healthy.wrong is None and healthy.odd == []
    assert healthy.comparison.unmatched == []
    assert healthy.facts["prefill_tokens"] == 16 and healthy.facts["decode_tokens"] == 0
    modules = {row.sink.place.module_path for row in healthy.comparison.rows}
    for index in range(LAYERS):
        layer = f"model.layers.{index}"
        assert {f"{layer}.self_attn.q_proj", f"{layer}.mlp_layer_norm"} <= modules
    weights = {row.weights.module_path for row in healthy.comparison.rows if row.weights}
    assert {"model.embed_tokens", "model.layers.1.mlp.down_proj"} <= weights
    last = healthy.comparison.rows[-1].sink  # of the text's row
    assert code_at(last.lines[0].location).startswith("return normalized(row)")
    assert 0.999 < healthy.cosines["quantized_beside_float"] < 1 - 1e-7
    assert healthy.cosines["program_beside_quantized"] > 1 - 1e-6


def test_a_damaged_weight_names_the_layer_of_an_encoder(embedder: Path, tmp_path: Path) -> None:
    damaged = damage_weight(embedder, "model.layers.1.self_attn.o_proj", tmp_path / "damaged.pte")
    outcome = compare(ask(damaged, embedder.parent, embedder.with_suffix(".etrecord")))
    assert outcome.wrong is not None and outcome.wrong.layer == 1
    assert outcome.cosines["program_beside_quantized"] < 0.9999


def test_the_command_prints_the_cosines(
    embedder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    options = ["--checkpoint", str(embedder.parent), "--tokens", "8", "--json", str(report)]
    main(["compare", str(embedder), *options], standalone_mode=False)
    said = capsys.readouterr()
    assert said.err == ""
    assert "8 tokens at once" in said.out
    assert "the text's row, program / float model: cosine 0.999" in said.out
    assert "logits" not in said.out
    assert json.loads(report.read_text())["cosines"].keys() == {
        *("quantized_beside_float", "program_beside_quantized", "program_beside_float")
    }


def test_another_checkpoint_is_refused(embedder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="holds a model of embeddings, and .* does not"):
        compare(ask(embedder, tmp_path))
    save_bert(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(BadRequest, match="has num_hidden_layers 2 but .* has 1; give the"):
        compare(ask(embedder, tmp_path))
