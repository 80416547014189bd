"""A file with both rotary tables of LongRoPE, beside its checkpoint: each text by that of its own
length."""

from pathlib import Path

import pytest
import torch
from support.loading import loaded
from support.longrope_model import ORIGINAL, shared_longrope

from devtools.commands.compare import compare
from devtools.commands.requests import CompareRequest
from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from quant.commands.checks import RunAs
from quant.commands.measured_model import context_of, open_scored

TOKENS = torch.randint(3, 4096, (100,), generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    return shared_longrope(tmp_path_factory)


@pytest.mark.check
@pytest.mark.parametrize("tokens", [ORIGINAL, 100])
def test_compare_finds_it_healthy(pte: Path, tokens: int) -> None:
    outcome = compare(CompareRequest(pte, str(pte.parent), None, None, tokens, None))
    assert outcome.wrong is None and outcome.comparison.unmatched == []
    assert outcome.facts["tokens"] == tokens
    assert outcome.logits["program_beside_float"].kl < 1e-6


@pytest.mark.check
def test_it_is_measured_as_its_checkpoint(pte: Path) -> None:
    assert context_of(str(pte)) is None
    file, model = (open_scored(str(name), RunAs(), lambda _: None) for name in (pte, pte.parent))
    for count in (ORIGINAL, 100):
        given = [torch.cat(list(one.logits(TOKENS[:count], 9))) for one in (file, model)]
        torch.testing.assert_close(*given, rtol=0, atol=1e-4)
    prompt = "def add(first, second):\n    return first + second\n\n\n" * 2
    assert file.generate is not None and model.generate is not None
    assert "".join(file.generate(prompt, 40)) == "".join(model.generate(prompt, 40))


@pytest.mark.check
@torch.no_grad()
def test_eager_caches_have_one_table(pte: Path) -> None:
    model = loaded(open_checkpoint(pte.parent))
    model.setup_cache(100)
    model(TOKENS[None, :30], torch.tensor([0]))
    with pytest.raises(ExportError, match="which change at 40: run the text again"):
        model(TOKENS[None, 30:41], torch.tensor([30]))
    model(TOKENS[None, :50], torch.tensor([0]))
    with pytest.raises(ExportError, match="^A text of 20 tokens and the 10 in the cache"):
        model(TOKENS[None, 10:20], torch.tensor([10]))
    again = model(TOKENS[None, 50:60], torch.tensor([50]))
    torch.testing.assert_close(again, model.logits(TOKENS[None, :60])[:, -1], rtol=0, atol=1e-4)
