"""A model whose last layers use the keys and values of earlier ones, in the runner: whatever is
rewound, saved or forked, its answers are those of a runner that reads the tokens for the first
time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.eager_answers import assert_eager_says_the_same
from support.hybrid_models import CONTEXT, SHARED, shared_hybrid

from runtime import Runner

TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]
(NAME,) = SHARED


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    return shared_hybrid(tmp_path_factory, NAME)


def fresh(pte: Path, tokens: list[int]) -> NDArray[np.float32]:
    """The logits after the last of some tokens, read for the first time."""
    return Runner(pte, threads=1).logits(tokens, len(tokens) - 1)


@pytest.mark.parametrize("length", [279, 270, 16, 0])  # within the windows' rings, and behind them
def test_truncation(pte: Path, length: int) -> None:
    runner = Runner(pte, threads=2)
    runner.logits(TOKENS[:280], 279)
    if length == 0 or length > 250:
        runner.truncate(length)
        assert runner.length == length
    tokens = TOKENS[:length] + OTHER[:17]
    assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_does_not_depend_on_its_call(pte: Path, threads: int) -> None:
    """Past the window, in calls of any length: what the last rows alone compute, too."""
    runner = Runner(pte, threads=threads)
    for end in (1, 17, 18, 40, 41, 99, 230):
        found = runner.logits(TOKENS[:end], end - 1)
        assert np.array_equal(found, fresh(pte, TOKENS[:end])), end
    together = Runner(pte, threads=threads).logits(TOKENS[:60], 50)
    for row, logits in enumerate(together):
        assert np.array_equal(logits[None], fresh(pte, TOKENS[: 51 + row])), row


def test_a_conversation_with_rewinds_is_computed_from_scratch(pte: Path, tmp_path: Path) -> None:
    """Four turns past the windows; each is answered, rewound to the question, and answered in
    another way; each begins from a session that was saved after the one before."""
    runner, text = Runner(pte, threads=2), []
    for turn in range(4):
        question = TOKENS[50 * turn : 50 * turn + 23]
        for answer in (TOKENS[100 : 109 + turn], OTHER[: 30 + turn]):
            told = [*text, *question, *answer]
            found = runner.logits(told, len(told) - 3)
            assert np.array_equal(found[-1:], fresh(pte, told)), (turn, len(answer))
            assert np.array_equal(found[:1], fresh(pte, told[:-2])), (turn, len(answer))
        runner.save(tmp_path / "turn.session")
        runner = Runner(pte, threads=2)
        runner.restore(tmp_path / "turn.session")
        assert runner.length == len(told)
        runner.truncate(len(told) - 20)  # in the midst of the answer
        text = told[:-20]
    told = [*text, *TOKENS[:7]]
    assert np.array_equal(runner.logits(told, len(told) - 1), fresh(pte, told))


def test_forks_and_sessions(pte: Path, tmp_path: Path) -> None:
    first = Runner(pte, threads=1)
    first.logits(TOKENS[:150], 149)
    second = first.fork()
    for length in (155, 220, 160):
        for runner, more in ((first, TOKENS), (second, OTHER)):
            tokens = TOKENS[:150] + more[150:length]
            assert np.array_equal(runner.logits(tokens, length - 1), fresh(pte, tokens))
    second.save(tmp_path / "other.session")
    restored = Runner(pte, threads=2)
    restored.restore(tmp_path / "other.session")
    tokens = TOKENS[:150] + OTHER[150:170]
    assert restored.length == 160
    assert np.array_equal(restored.logits(tokens, 169), fresh(pte, tokens))


@pytest.mark.check
def test_the_runner_says_what_eager_says(tmp_path: Path, cpp_build: Path) -> None:
    assert_eager_says_the_same(tmp_path, NAME, "The keys of a layer")
