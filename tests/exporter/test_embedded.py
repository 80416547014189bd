"""The model that ships with the package: what it is, what 4 bits cost it, that it speaks."""

import json
import math
import subprocess
from pathlib import Path

import pytest
import torch
from support.exported import Quiet

from exporter.catalogue.find import EMBEDDED_NAME, find_checkpoint
from exporter.catalogue.names import EMBEDDED, EMBEDDED_PRESET
from exporter.catalogue.presets import PRESETS
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from exporter.pipeline import load_quantized
from exporter.plan.planning import read_plan
from quant.scheme import Scheme


@pytest.fixture(scope="module")
def report(embedded_pte: Path) -> dict:
    return read_report(embedded_pte)


def test_it_is_small_and_its_card_is_true() -> None:
    shipped = sum(path.stat().st_size for path in EMBEDDED.iterdir() if path.suffix != ".py")
    assert shipped < 10_000_000
    card = json.loads((EMBEDDED / "model_card.json").read_text())
    checkpoint = find_checkpoint(ExportOptions(model="llama3", out=Path("model.pte")), Quiet())
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    checkpoint.check(model)
    assert card["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert checkpoint.config.hidden_size % 256 == 0
    assert checkpoint.config.layers[0].feed_forward.intermediate_size % 256 == 0
    assert math.isclose(math.exp(card["held_out_loss"]), card["held_out_perplexity"], rel_tol=1e-2)


def test_the_export_says_which_model_it_is() -> None:
    listener = Quiet()
    find_checkpoint(ExportOptions(model="llama3", out=Path("model.pte")), listener)
    (note,) = listener.notes
    assert EMBEDDED_NAME in note and PRESETS[EMBEDDED_PRESET].source in note


@pytest.mark.check
def test_gptq_costs_it_less_than_rounding(report: dict) -> None:
    options = ExportOptions(model="llama3", out=Path("model.pte"), scheme=Scheme("rtn4"))
    _, rounded = load_quantized(read_plan(options, Quiet()), Quiet())
    assert rounded.quality is not None
    gptq = report["quality"]
    assert gptq["tokens"] == rounded.quality.tokens
    margin = 2 * (gptq["kl_error"] + rounded.quality.kl_error)
    assert gptq["kl"] + margin < rounded.quality.kl


@pytest.mark.check
def test_it_speaks(cpp_build: Path, embedded_pte: Path) -> None:
    command = [cpp_build / "runner", embedded_pte, "-p", "The :mod:`json` module", "-n", "60"]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    words = [word.strip(".,:;()`*\"'").lower() for word in text.split()]
    assert len(words) > 20
    # Ordinary English and no stammering: common words, and no word that is half of the text.
    assert {"the", "a", "of", "is", "to", "and", "in"} & set(words)
    assert max(words.count(word) for word in set(words)) < len(words) / 2
