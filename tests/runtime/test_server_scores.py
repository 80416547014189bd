"""The log-probabilities of prompts: those of the model as the server runs it."""

from pathlib import Path

import numpy as np
import pytest

from runtime import Runner, TokenLogprob
from runtime.server.model_process import ModelOptions
from runtime.server.replies import Offsets, completion_logprobs
from runtime.server.scores import Scorer

PROMPT = "def add(first, second):\n    return first + second\n" * 6


def expected(pte: Path, kv_cache: str) -> list[float]:
    """Of each token after the first."""
    with Runner(pte, threads=1, kv_cache=kv_cache) as runner:
        tokens = runner.encode_prompt(PROMPT)
        rows = runner.logits(tokens).astype(np.float64)
    rows -= rows.max(1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(1, keepdims=True))
    return [float(rows[at, token]) for at, token in enumerate(tokens[1:])]


@pytest.mark.parametrize("kv_cache", ["default", "float16"])
def test_they_are_those_of_the_servers_cache(
    embedded_cpu_pte: Path, cpp_build: Path, kv_cache: str
) -> None:
    scorer = Scorer(ModelOptions(embedded_cpu_pte, threads=1, kv_cache=kv_cache).load)
    parts = list(scorer.score(PROMPT, 2))
    assert len(parts) > 2  # of 64 tokens, after the first
    entries = [entry for part in parts for entry in part]
    assert np.isnan(entries[0].logprob) and entries[0].top == []
    found = [entry.logprob for entry in entries[1:]]
    np.testing.assert_allclose(found, expected(embedded_cpu_pte, kv_cache), atol=1e-9)
    other = expected(embedded_cpu_pte, "float16" if kv_cache == "default" else "default")
    assert np.abs(np.array(found) - other).max() > 1e-6
    assert all(len(entry.top) == 2 for entry in entries[1:])


def test_offsets_in_characters_that_tokens_cut() -> None:
    """Every part of a character begins where the character does, also across parts of a stream."""
    tokens = [b"a", b"\xc3", b"\xa9b", b"\xf0\x9f", b"\x98", b"\x80", b"", b"c d", b"\xe2", b"e"]
    expected = [0, 1, 1, 3, 3, 3, 4, 4, 7, 7]
    for cut in range(len(tokens)):
        offsets, found = Offsets(), []
        for part in (tokens[:cut], tokens[cut:]):
            entries = [TokenLogprob(1, data, -1.0, []) for data in part]
            found += completion_logprobs(entries, offsets)["text_offset"]
        assert found == expected


def test_parts_of_a_character_keep_their_entries() -> None:
    """Their bytes are told in OpenAI's way: as text all of them would be one."""
    top = [(n, data, -float(n)) for n, data in enumerate([b"\xc3", b"\xe2\x82", b"\xf0", b"x"])]
    found = completion_logprobs([TokenLogprob(0, b"\xc3", -1.0, top)], Offsets())
    assert found["tokens"] == ["bytes:\\xc3"]
    assert found["top_logprobs"] == [
        {"bytes:\\xc3": 0.0, "bytes:\\xe2\\x82": -1.0, "bytes:\\xf0": -2.0, "x": -3.0}
    ]
