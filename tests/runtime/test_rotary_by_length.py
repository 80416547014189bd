"""A model whose rotary table depends on the length of a text (LongRoPE), in the runner: whatever
its cache held, a text is computed as transformers computes one of that length."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.exported import feed
from support.longrope_model import CONTEXT, ORIGINAL, shared_longrope
from support.servers import serving

from delegates.cpu import load
from exporter.file.pte import read_report
from runtime import Engine, Runner

transformers = pytest.importorskip("transformers")

TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]
PROMPT = "def add(first, second):\n    return first + second\n\n\n" * 2 + "def add(first"


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    return shared_longrope(tmp_path_factory)


@pytest.fixture(scope="module")
def reference(pte: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(pte.parent, dtype="float32")


@pytest.fixture
def runner(pte: Path) -> Iterator[Runner]:
    with Runner(pte, threads=2) as runner:
        yield runner


@torch.no_grad()
def logits(reference: Any, tokens: list[int]) -> NDArray[np.float32]:
    """Of transformers, in one call."""
    return reference(torch.tensor([tokens])).logits[0].numpy()


def assert_right(reference: Any, runner: Runner, tokens: list[int]) -> None:
    """The last logits are those of one call of transformers, as the whole text's are."""
    wanted = logits(reference, tokens)
    found = runner.logits(tokens, len(tokens) - 1)
    np.testing.assert_allclose(found[0], wanted[-1], rtol=0, atol=1e-4)


def greedy(
    reference: Any, tokens: list[int], count: int, bias: dict[int, float] | None = None
) -> list[int]:
    """A greedy answer of transformers, a call of the whole text for each token."""
    told: list[int] = []
    for _ in range(count):
        last = logits(reference, tokens + told)[-1]
        for token, added in (bias or {}).items():
            last[token] += added
        told.append(int(last.argmax()))
    return told


@pytest.mark.check
def test_the_tables_differ(reference: Any) -> None:
    """So that a wrong one cannot pass."""
    first = ORIGINAL - 1
    short, long = (logits(reference, TOKENS[:n])[first] for n in (ORIGINAL, ORIGINAL + 1))
    assert np.abs(short - long).max() > 0.1


@pytest.mark.parametrize("length", [17, ORIGINAL, ORIGINAL + 1, 90])
def test_all_logits_of_a_text(reference: Any, runner: Runner, length: int) -> None:
    tokens = TOKENS[:length]
    wanted = logits(reference, tokens)
    np.testing.assert_allclose(runner.logits(tokens), wanted, rtol=0, atol=1e-4)
    runner.truncate(0)
    parts = [runner.logits(tokens, at, min(at + 13, length)) for at in range(0, length, 13)]
    np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=0, atol=1e-4)


def test_texts_that_grow_and_shrink(reference: Any, runner: Runner) -> None:
    for length in (30, 39, 40, 41, 60, 41, 40, 12, 100, 20):
        assert_right(reference, runner, TOKENS[:length])
    assert runner.stats["recomputed_tokens"] == 40 + 40 + 12 + 20


def test_a_text_that_is_truncated_across_the_length(reference: Any, runner: Runner) -> None:
    runner.logits(TOKENS[:60])
    runner.truncate(ORIGINAL + 1)
    assert runner.stats["recomputed_tokens"] == 0
    runner.truncate(25)
    assert runner.length == 25 and runner.stats["recomputed_tokens"] == 25
    assert_right(reference, runner, TOKENS[:25] + OTHER[:10])
    assert runner.stats["recomputed_tokens"] == 25


@pytest.mark.parametrize("draft", [None, "ngram", "itself"])
def test_an_answer_that_passes_the_length(pte: Path, reference: Any, draft: str | None) -> None:
    bias = {7: 3.0, 8: 3.0} if draft == "ngram" else {}  # it repeats itself
    runner = Runner(pte, threads=2, draft=pte if draft == "itself" else draft)
    tokens = runner.encode_prompt(PROMPT)
    assert ORIGINAL - 14 < len(tokens) < ORIGINAL - 4, "the answer begins before, with room"
    "".join(runner.generate(PROMPT, max_new_tokens=40, logprobs=True, logit_bias=bias))
    told = [token.token for token in runner.logprobs]
    assert told == greedy(reference, tokens, 40, bias)
    assert runner.stats["recomputed_tokens"] == ORIGINAL
    assert draft is None or runner.stats["accepted_tokens"] > 0
    whole = tokens + told[:-1]
    assert runner.length == len(whole)
    assert_right(reference, runner, whole + OTHER[:3])


def test_the_runner_says_what_it_computes_again(pte: Path, cpp_build: Path) -> None:
    command = [cpp_build / "runner", pte, "-p", PROMPT, "-n", "40"]
    stderr = subprocess.run(command, capture_output=True, check=True).stderr.decode()
    said = f", {ORIGINAL} computed again, because the text's new length changed its rotary table\n"
    assert stderr.endswith(said)


@pytest.mark.parametrize("length", [30, 60])  # of the text whose cache is taken over
def test_sessions_and_forks_know_their_table(
    pte: Path, reference: Any, runner: Runner, length: int, tmp_path: Path
) -> None:
    runner.logits(TOKENS[:length])
    fork, restored = runner.fork(), Runner(pte)
    runner.save(tmp_path / "session")
    restored.logits(OTHER[: 90 - length])  # of the other table
    restored.restore(tmp_path / "session")
    for continued in (length + 5, 30, 60):
        for each in (fork, restored):
            assert_right(reference, each, TOKENS[:continued])
    assert runner.length == length
    assert_right(reference, runner, TOKENS[: length + 1])
    assert runner.stats["recomputed_tokens"] == 0


@pytest.mark.parametrize("draft", [None, "ngram"])
@pytest.mark.parametrize("sequences", [1, 3])
def test_requests_on_both_sides_at_once(
    pte: Path, reference: Any, draft: str | None, sequences: int
) -> None:
    """Each begins in a cache that another has left, or shares its beginning with one at work."""
    prompts = [TOKENS[:20], TOKENS[:60], TOKENS[:35], TOKENS[:100], TOKENS[:38] + OTHER[:2], OTHER]
    prompts = [prompt[:110] for prompt in (*prompts, *prompts[:3])]
    runner = Runner(pte, threads=2, draft=draft)
    with Engine(runner, sequences=sequences, prompt_rows=9) as engine:
        work = [engine.submit(tokens, 12, logprobs=True) for tokens in prompts]
        told = [[token.token for token in one.logprobs] for one in work if one.text() or True]
    assert told == [greedy(reference, tokens, 12) for tokens in prompts]
    crossing = [one.stats["recomputed_tokens"] for one in work]
    assert crossing[2] == crossing[4] == crossing[8] == ORIGINAL


@pytest.mark.check
def test_a_server_shares_prefixes_of_one_table(pte: Path, reference: Any) -> None:
    """The log-probabilities of each prompt and of its answer."""
    with serving(pte, "--threads", "1") as server:
        for length in (20, 60, 30, 38, 100, 20):
            prompt = TOKENS[:length]
            body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 1}
            body |= {"model": "model", "echo": True}
            answer = httpx.post(server.address + "/v1/completions", json=body, timeout=60).json()
            found = answer["choices"][0]["logprobs"]["token_logprobs"]
            told = greedy(reference, prompt, 4)
            rows = [*logits(reference, prompt)[:-1]]
            rows += [logits(reference, prompt + told[:count])[-1] for count in range(4)]
            logprobs = torch.tensor(np.stack(rows)).log_softmax(-1)
            wanted = logprobs.gather(1, torch.tensor([prompt[1:] + told]).T)[:, 0]
            np.testing.assert_allclose(found[1:], wanted, rtol=0, atol=1e-4)


def test_a_call_without_a_session(pte: Path, reference: Any) -> None:
    """As ExecuTorch's own runtime makes them: the call at position 0 chooses, and another table is
    refused."""
    step = load(pte)
    assert step is not None
    tokens = torch.tensor([TOKENS])
    for calls in ([16, 8, 16], [41, 1, 30], [40]):
        found = feed(step, tokens[0], calls)
        for last, end in zip(found, np.cumsum(calls).tolist(), strict=True):
            wanted = logits(reference, TOKENS[:end])[-1]
            np.testing.assert_allclose(last, wanted, rtol=0, atol=1e-4)
    with pytest.raises(RuntimeError):
        step(tokens[:, 40:41], torch.tensor([40]))
    feed(step, tokens[0], [50])
    with pytest.raises(RuntimeError):
        step(tokens[:, 10:20], torch.tensor([10]))


def test_the_file_says_what_it_holds(pte: Path) -> None:
    model = read_report(pte)["model"]
    assert model["original_max_position_embeddings"] == ORIGINAL and "rotary" not in model
