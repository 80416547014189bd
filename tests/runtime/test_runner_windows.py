"""A model with sliding windows in the runner: whatever is rewound, saved or forked, its answers are
those of a runner that reads the tokens for the first time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.windowed_model import CONTEXT, shared_windowed

from runtime import Runner

TOKENS = torch.randint(3, 4096, (CONTEXT,), generator=torch.Generator().manual_seed(3)).tolist()
OTHER = TOKENS[::-1]


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_windowed(tmp_path_factory)


def fresh(pte: Path, tokens: list[int]) -> NDArray[np.float32]:
    """The logits after the last of some tokens, read for the first time."""
    return Runner(pte, threads=1).logits(tokens, len(tokens) - 1)


def filled(pte: Path, length: int) -> Runner:
    runner = Runner(pte, threads=1)
    runner.logits(TOKENS[:length], length - 1)
    return runner


@pytest.mark.parametrize("length", [290, 250, 30, 1, 0])
def test_truncate_leaves_as_many_tokens_as_requested(
    cpp_build: Path, pte: Path, length: int
) -> None:
    runner = filled(pte, CONTEXT)
    runner.truncate(length)
    assert runner.length == length
    tokens = TOKENS[:length] + OTHER[:40]
    tokens = tokens[: CONTEXT - 1]
    assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens))
    runner.truncate(length)
    assert runner.length == length


def test_another_text_keeps_what_can_be_kept(cpp_build: Path, pte: Path) -> None:
    runner = filled(pte, 280)
    for common in (270, 100, 3):
        tokens = TOKENS[:common] + OTHER[:10]
        assert np.array_equal(runner.logits(tokens, len(tokens) - 1), fresh(pte, tokens)), common
        runner.logits(TOKENS[:280], 279)


def test_save_and_restore_around_the_ring(cpp_build: Path, pte: Path, tmp_path: Path) -> None:
    filled(pte, 200).save(tmp_path / "ring.session")
    small = (tmp_path / "ring.session").stat().st_size
    runner = filled(pte, 77)
    runner.restore(tmp_path / "ring.session")
    assert runner.length == 200
    assert np.array_equal(runner.logits(TOKENS[:210], 209), fresh(pte, TOKENS[:210]))
    runner.truncate(30)  # which it never had
    tokens = TOKENS[:30] + OTHER[:30]
    assert np.array_equal(runner.logits(tokens, 59), fresh(pte, tokens))
    filled(pte, 60).save(tmp_path / "start.session")
    assert small < 1.4 * (tmp_path / "start.session").stat().st_size


def test_forks_go_their_own_ways(cpp_build: Path, pte: Path) -> None:
    first = filled(pte, 150)
    second = first.fork()
    for length in (155, 220, 160):
        for runner, more in ((first, TOKENS), (second, OTHER)):
            tokens = TOKENS[:150] + more[150:length]
            assert np.array_equal(runner.logits(tokens, length - 1), fresh(pte, tokens))


def test_what_is_shown_of_the_cache(cpp_build: Path, pte: Path) -> None:
    runner = Runner(pte, threads=1)
    list(runner.generate("Once", max_new_tokens=1))
    assert "float32 cache of 300 positions, windows in rings of 64" in runner.stats["runs_with"]
