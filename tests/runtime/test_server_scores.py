"""Log-probabilities: of prompts, as the server runs the model, and of answers that end early."""

from pathlib import Path

import numpy as np
import pytest

from runtime import Runner, TokenLogprob
from runtime.chat_format.calls import ToolCall
from runtime.chat_format.reader import MarkedReader
from runtime.chat_format.special_tokens import SpecialTokens
from runtime.chat_format.stop_reader import StopReader
from runtime.server.kept_tokens import KeptTokens
from runtime.server.model_process import ModelOptions, More
from runtime.server.replies import Offsets, completion_logprobs
from runtime.server.scored_reader import ScoredReader
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


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tokens_of_a_stop_text_are_left_out(size: int) -> None:
    """Those are kept that begin before it, wherever it is in a token, and no others meanwhile."""
    content = "One, two.\n\nThr\u00e9e, two."
    answer = "<think>\nOne, two\n</think>\n\n" + content
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    begins = range(0, len(answer), size)
    for at, length in [(at, n) for n in (1, 3, 6) for at in range(len(content))]:
        stop = content[at : at + length]
        end = answer.index(content) + content.index(stop)
        special = SpecialTokens((), "")
        marked = MarkedReader(special, None, (), ("<think>", "</think>"), False, False)
        tokens = KeptTokens(StopReader(marked, [stop]))
        kept: list[int] = []
        for n, piece in enumerate(pieces):
            entry = TokenLogprob(n, piece.encode(), -1.0, [])
            kept += [one.token for _, some in tokens.read([piece], [entry]) for one in some]
        kept += [entry.token for entry in tokens.finish()]
        assert kept == [n for n, begin in enumerate(begins) if begin < end], (stop, size)


@pytest.mark.parametrize("joined", [1, 3, 100])
def test_tokens_come_with_their_text(joined: int) -> None:
    """Whatever the reader holds back, and however many pieces come at once."""
    pieces = ["<think>", "Hm", "\n", "so", "</think>", "\n\n", "a", "\n", " <", "b", " \n", "c"]
    special = SpecialTokens((), "")
    marked = MarkedReader(special, None, (), ("<think>", "</think>"), False, False)
    scored = ScoredReader(marked, is_scored=True)
    found: list[tuple[str, str]] = []
    for at in range(0, len(pieces), joined):
        some = pieces[at : at + joined]
        entries = [TokenLogprob(0, piece.encode(), -1.0, []) for piece in some]
        for event in scored.read(More(0, some, entries)):
            assert not isinstance(event, ToolCall)
            found.append((event.text, "".join(e.data.decode() for e in scored.take_logprobs())))
    assert not list(scored.read(None)) and not scored.take_logprobs()
    assert "".join(text for text, _ in found) == "Hm\nsoa\n <b \nc"
    for text, tokens in found:
        assert tokens.removeprefix("<think>").removeprefix("</think>\n\n") == text
