"""Real weights say what an independent implementation says: stories260K against llama2.c."""

from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from exporter.checkpoint import open_checkpoint
from exporter.models.decoder import CausalLM

LIMIT = 257  # tokens, the first BOS among them


@pytest.fixture(scope="module")
def stories(shared_data: Path) -> CausalLM:
    checkpoint = open_checkpoint(shared_data / "stories260K")
    with torch.device("meta"):
        model = CausalLM(checkpoint.config).eval()
    checkpoint.check(model)
    checkpoint.load_into(model, "")
    return model


@torch.no_grad()
def test_logits_equal_the_reference(stories: CausalLM, shared_data: Path) -> None:
    stored = np.load(shared_data / "stories260K" / "logits.npz")
    tokens = torch.from_numpy(stored["ids"]).long().view(1, -1)
    expected = torch.from_numpy(stored["logits"]).view(1, tokens.shape[1], -1)
    torch.testing.assert_close(stories.logits(tokens), expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_greedy_text_is_the_golden_text(stories: CausalLM, shared_data: Path) -> None:
    directory = shared_data / "stories260K"
    tokenizer = sentencepiece.SentencePieceProcessor(str(directory / "tokenizer.model"))
    bos = tokenizer.bos_id()
    stories.setup_cache(LIMIT)
    tokens = [bos]
    while len(tokens) < LIMIT:
        last = torch.tensor([tokens[-1:]])
        choice = int(stories(last, torch.tensor([len(tokens) - 1])).argmax())
        if choice == bos:
            break
        tokens.append(choice)
    golden = (directory / "golden.txt").read_text(encoding="utf-8")
    assert tokenizer.decode(tokens).strip() == golden.strip()
