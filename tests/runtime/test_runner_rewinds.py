"""Rings of windows, states, and layers that use the keys of others: whatever is rewound, saved or
forked, the runner's answers are those of one that reads the tokens for the first time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.cache_kinds import shared_kind
from support.eager_answers import assert_eager_says_the_same
from support.hybrid_models import CONTEXT
from support.tiers import checked

from runtime import Runner

TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]
SHOWN = {
    "windows": "float32 cache of 300 positions, windows in rings of 64",
    "short convolutions": ", states of 2 kB (6 kB with their last rows), a snapshot every 16 ",
    "shared keys": "cache of 300 positions, windows in rings of ",
    "delta rule": ", states of 9 kB (42 kB with their last rows), a snapshot every 16 positions",
}
CASES = ["windows", *checked(["short convolutions", "shared keys", "delta rule"])]


@pytest.fixture(scope="module", params=CASES)
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return shared_kind(request, tmp_path_factory)


def fresh(pte: Path, tokens: list[int]) -> NDArray[np.float32]:
    """The logits after the last of some tokens, read for the first time."""
    return Runner(pte, threads=1).logits(tokens, len(tokens) - 1)


def filled(pte: Path, length: int) -> Runner:
    runner = Runner(pte, threads=1)
    runner.logits(TOKENS[:length], length - 1)
    return runner


@pytest.mark.parametrize("length", [299, 290, 250, 30, 16, 1, 0])
def test_truncate_leaves_as_many_tokens_as_requested(pte: Path, length: int) -> None:
    runner = filled(pte, CONTEXT)
    runner.truncate(length)
    assert runner.length == length
    tokens = (TOKENS[:length] + OTHER[:40])[: CONTEXT - 1]
    assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens))
    runner.truncate(length)
    assert runner.length == length


def test_another_text_keeps_what_can_be_kept(pte: Path) -> None:
    runner = filled(pte, 280)
    for common in (270, 100, 3):
        tokens = TOKENS[:common] + OTHER[:10]
        assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens)), common
        runner.logits(TOKENS[:280], 279)


def test_a_session_is_restored_beyond_a_window(
    pte: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    filled(pte, 200).save(tmp_path / "long.session")
    runner = filled(pte, 77)
    runner.restore(tmp_path / "long.session")
    assert runner.length == 200
    assert np.array_equal(runner.logits(TOKENS[:210], 209), fresh(pte, TOKENS[:210]))
    runner.truncate(30)  # of which a ring has no row
    tokens = TOKENS[:30] + OTHER[:30]
    assert np.array_equal(runner.logits(tokens, 59), fresh(pte, tokens))
    filled(pte, 60).save(tmp_path / "short.session")
    long, short = ((tmp_path / f"{name}.session").stat().st_size for name in ("long", "short"))
    assert long < 1.4 * short or request.node.callspec.params["pte"] != "windows"


def test_a_conversation_with_rewinds_is_computed_from_scratch(pte: Path, tmp_path: Path) -> None:
    """Four turns; each is answered, rewound to the question, and answered in another way."""
    runner, text = Runner(pte, threads=2), []
    for turn in range(4):
        question = TOKENS[50 * turn : 50 * turn + 23]
        for answer in (TOKENS[100 : 100 + 9 + turn], OTHER[: 30 + turn]):
            tokens = [*text, *question, *answer]
            logits = runner.logits(tokens, len(tokens) - 3)
            assert np.array_equal(logits[-1:], fresh(pte, tokens)), (turn, len(answer))
            assert np.array_equal(logits[:1], fresh(pte, tokens[:-2])), (turn, len(answer))
        text = tokens
        runner.save(tmp_path / "turn.session")
        runner = Runner(pte, threads=2)
        runner.restore(tmp_path / "turn.session")
        assert runner.length == len(text)
        runner.truncate(len(text) - 20)  # in the midst of the answer
    tokens = [*text[:-20], *TOKENS[:7]]
    assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens))


def test_forks_go_their_own_ways(pte: Path) -> None:
    first = filled(pte, 150)
    second = first.fork()
    for length in (155, 220, 160):
        for runner, more in ((first, TOKENS), (second, OTHER)):
            tokens = TOKENS[:150] + more[150:length]
            assert np.array_equal(runner.logits(tokens, length - 1), fresh(pte, tokens))


def test_what_is_shown_of_the_cache(pte: Path, request: pytest.FixtureRequest) -> None:
    runner = Runner(pte, threads=1)
    list(runner.generate("Once", max_new_tokens=1))
    assert SHOWN[request.node.callspec.params["pte"]] in runner.stats["runs_with"]


@pytest.mark.parametrize("threads", [1, 2, *checked([3])])
def test_a_row_does_not_depend_on_its_call(pte: Path, threads: int) -> None:
    """Past the window, in calls of any length: what the last rows alone compute, too."""
    runner = Runner(pte, threads=threads)
    for end in (1, 17, 18, 40, 41, 99, 230):
        found = runner.logits(TOKENS[:end], end - 1)
        assert np.array_equal(found, fresh(pte, TOKENS[:end])), end
    together = Runner(pte, threads=threads).logits(TOKENS[:60], 50)
    for row, logits in enumerate(together):
        assert np.array_equal(logits[None], fresh(pte, TOKENS[: 51 + row])), row


@pytest.mark.parametrize("name", ["short convolutions", *checked(["delta rule", "shared keys"])])
def test_the_runner_says_what_eager_says(name: str, tmp_path: Path, cpp_build: Path) -> None:
    assert_eager_says_the_same(tmp_path, name, "The state of a layer")
