"""Mixtures of experts in the runner: it says what transformers says; whatever is rewound, saved or
forked, its answers are those of a runner that reads the tokens for the first time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.exported import Quiet
from support.families.gpt_oss import GPT_OSS
from support.families.qwen3_moe import MIXTURE
from support.family_models import Case, reference_model
from support.rotary_fields import rope
from support.tiers import checked, soaked

from exporter.catalogue.names import EMBEDDED
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.tokenizer import load_tokenizer
from quant.scheme import Scheme
from runtime import Runner

CONTEXT, BOS, EOS = 300, 0, 2  # the embedded tokenizer puts BOS 0 before texts
SIZES = dict(vocab_size=4096, num_hidden_layers=2, max_position_embeddings=CONTEXT)
CASES = {
    "qwen3_moe": Case("qwen3_moe", "runner", {**MIXTURE, **SIZES}),
    "gpt_oss": Case(
        "gpt_oss",
        "runner",
        {
            **GPT_OSS,
            **SIZES,
            "sliding_window": 20,
            **rope("yarn", factor=4.0, original_max_position_embeddings=75, truncate=False),
        },
    ),
}
TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]


def export(name: str, directory: Path, scheme: str) -> Path:
    reference_model(CASES[name]).save_pretrained(directory)
    options = ExportOptions(
        model=str(directory),
        out=directory / "model.pte",
        scheme=Scheme(scheme),
        tokenizer=EMBEDDED / "tokenizer.json",
        max_seq_len=16,
        delegate="cpu",
    )
    return export_model(options, Quiet()).out


@pytest.fixture(scope="module", params=checked(["qwen3_moe", "gpt_oss"]))
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return export(request.param, tmp_path_factory.mktemp(request.param), "rtn4")


def fresh(pte: Path, tokens: list[int]) -> NDArray[np.float32]:
    """The logits after the last of some tokens, read for the first time."""
    return Runner(pte, threads=1).logits(tokens, len(tokens) - 1)


def test_rewound_saved_and_forked(pte: Path, tmp_path: Path) -> None:
    first = Runner(pte, threads=2)
    first.logits(TOKENS[:290], 289)
    for length in (280, 130, 16, 0):
        first.truncate(length)
        tokens = TOKENS[:length] + OTHER[:19]
        assert np.array_equal(first.logits(tokens, len(tokens) - 1), fresh(pte, tokens)), length
    first.save(tmp_path / "model.session")
    restored, forked = Runner(pte, threads=1), first.fork()
    restored.restore(tmp_path / "model.session")
    for runner, more in ((restored, TOKENS[:33]), (forked, OTHER[:1])):
        assert runner.length == 19
        told = [*OTHER[:19], *more]
        assert np.array_equal(runner.logits(told, len(told) - 1), fresh(pte, told))


@pytest.mark.check
@pytest.mark.parametrize("name", ["gpt_oss", *soaked(["qwen3_moe"])])
def test_the_runner_says_what_transformers_says(name: str, tmp_path: Path, cpp_build: Path) -> None:
    """Greedy tokens of the finished file, in float, until one ends the answer."""
    runner = Runner(export(name, tmp_path, "none"), threads=2)
    reference, tokenizer = reference_model(CASES[name]), load_tokenizer(EMBEDDED)
    told = []
    for prompt in ("Once upon a time", "import os", "The state of a layer"):
        ids = [BOS, *runner.encode(prompt)]
        with torch.no_grad():
            while len(ids) < 50 and ids[-1] != EOS:
                ids.append(int(reference(torch.tensor([ids])).logits[0, -1].argmax()))
        told.append("".join(runner.generate(prompt, max_new_tokens=50)))
        wanted = tokenizer.decode([token for token in ids[1:] if token != EOS])
        assert (prompt + told[-1])[: len(wanted)] == wanted
    assert all(len(text) > 5 for text in told)
