"""A model that keeps states in the runner: whatever is rewound, saved or forked, its answers are
those of a runner that reads the tokens for the first time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.eager_answers import assert_eager_says_the_same
from support.hybrid_models import CONTEXT, shared_hybrid
from support.tiers import checked

from runtime import Runner

TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]


@pytest.fixture(scope="module", params=["short convolutions", *checked(["delta rule"])])
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return shared_hybrid(tmp_path_factory, request.param)


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
    tokens = TOKENS[:length] + OTHER[:40]
    tokens = tokens[: CONTEXT - 1]
    assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens))


def test_a_conversation_with_rewinds_is_computed_from_scratch(pte: Path, tmp_path: Path) -> None:
    """Four turns; each is answered, rewound to the question, and answered in another way."""
    runner, text = Runner(pte, threads=2), []
    for turn in range(4):
        question = TOKENS[50 * turn : 50 * turn + 23]
        for answer in (TOKENS[100 : 100 + 9 + turn], OTHER[: 30 + turn]):
            told = [*text, *question, *answer]
            found = runner.logits(told, len(told) - 3)
            assert np.array_equal(found[-1:], fresh(pte, told)), (turn, len(answer))
            assert np.array_equal(found[:1], fresh(pte, told[:-2])), (turn, len(answer))
        text = told
        runner.save(tmp_path / "turn.session")
        runner = Runner(pte, threads=2)
        runner.restore(tmp_path / "turn.session")
        assert runner.length == len(text)
        runner.truncate(len(text) - 20)  # in the midst of the answer
    told = [*text[:-20], *TOKENS[:7]]
    assert np.array_equal(runner.logits(told, len(told) - 1), fresh(pte, told))


def test_forks_go_their_own_ways(pte: Path) -> None:
    first = filled(pte, 150)
    second = first.fork()
    for length in (155, 220, 160):
        for runner, more in ((first, TOKENS), (second, OTHER)):
            tokens = TOKENS[:150] + more[150:length]
            assert np.array_equal(runner.logits(tokens, length - 1), fresh(pte, tokens))


def test_what_is_shown_of_the_states(pte: Path) -> None:
    runner = Runner(pte, threads=1)
    list(runner.generate("Once", max_new_tokens=1))
    shown = runner.stats["runs_with"]
    sizes = ("2 kB (6 kB", "9 kB (42 kB")
    assert any(
        f", states of {size} with their last rows), a snapshot every 16 positions" in shown
        for size in sizes
    )


@pytest.mark.parametrize("name", ["short convolutions", *checked(["delta rule"])])
def test_the_runner_says_what_eager_says(name: str, tmp_path: Path, cpp_build: Path) -> None:
    assert_eager_says_the_same(tmp_path, name, "The state of a layer")
