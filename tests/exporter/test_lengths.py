"""Eager, captured and lowered compute the same at every sequence length and position."""

import pytest
import torch
from support.exported import Exported, feed
from torch import Tensor

pytestmark = pytest.mark.check

CONTEXT = 512
# Each list is one text fed in pieces: lengths 1, 2, 7 and the maximum, first, last and between.
PIECES = [
    [1],
    [2],
    [7],
    [CONTEXT],
    [1, 2, 7, 1, 7, 2],
    [7, 7, 7, 2, 2, 1, 1],
    [CONTEXT - 10, 7, 2, 1],
    [1, CONTEXT - 1],
    [7, CONTEXT - 9, 2],
]


@pytest.fixture(scope="module")
def tokens() -> Tensor:
    return torch.randint(3, 512, (CONTEXT,), generator=torch.Generator().manual_seed(5))


def _error(want: Tensor, have: Tensor) -> float:
    return ((want - have).norm() / (want - want.mean(-1, keepdim=True)).norm()).item()


@pytest.mark.parametrize("lengths", PIECES, ids=str)
def test_float_forms_agree(stories_export: Exported, tokens: Tensor, lengths: list[int]) -> None:
    want = feed(stories_export.eager, tokens, lengths)
    assert torch.equal(feed(stories_export.captured, tokens, lengths), want)
    assert _error(want, feed(stories_export.lowered, tokens, lengths)) < 1e-4


@pytest.mark.parametrize("lengths", PIECES, ids=str)
def test_quantized_forms_agree(
    stories_gptq_export: Exported, tokens: Tensor, lengths: list[int]
) -> None:
    want = feed(stories_gptq_export.eager, tokens, lengths)
    captured = feed(stories_gptq_export.captured, tokens, lengths)
    assert _error(want, captured) < 1e-6
    lowered = feed(stories_gptq_export.lowered, tokens, lengths)
    assert _error(want, lowered) < 0.03


def test_pieces_do_not_change_the_answer(stories_export: Exported, tokens: Tensor) -> None:
    for name, step in stories_export.forms().items():
        whole = feed(step, tokens[:30], [30])
        pieces = feed(step, tokens[:30], [1, 2, 7, 19, 1])[-1:]
        assert _error(whole, pieces) < 1e-4, name


def test_a_position_is_computed_again(stories_export: Exported, tokens: Tensor) -> None:
    """Going back over positions overwrites them: another text through the same program."""
    step = stories_export.lowered
    first = feed(step, tokens, [40])
    feed(step, tokens.flip(0), [300])
    assert torch.equal(feed(step, tokens, [40]), first)


@pytest.mark.parametrize(
    ("length", "start_pos"), [(CONTEXT + 1, 0), (2, CONTEXT - 1), (1, CONTEXT)]
)
def test_outside_the_range_is_an_error(
    stories_export: Exported, length: int, start_pos: int
) -> None:
    piece, input_pos = torch.ones(1, length, dtype=torch.long), torch.tensor([start_pos])
    for step in stories_export.forms().values():
        with pytest.raises((RuntimeError, AssertionError)):
            step(piece, input_pos)


@pytest.mark.parametrize(("length", "start_pos"), [(0, 0), (1, -1)])
def test_before_the_range_is_an_error_of_the_captured_program(
    stories_export: Exported, length: int, start_pos: int
) -> None:
    piece, input_pos = torch.ones(1, length, dtype=torch.long), torch.tensor([start_pos])
    with pytest.raises((RuntimeError, AssertionError)):
        stories_export.captured(piece, input_pos)
