"""Indices of rewritten modules, whose views are told apart by sizes and strides alone."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from delegates.op_list.rewrite.counting import (
    are_equal,
    counting,
    forget,
    has_each_once,
    start_of,
)
from delegates.op_list.rewrite.settle import _piece


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget()


def views() -> list[Tensor]:
    """Of one count: whole, parts, in other orders, each number twice."""
    whole = counting((4, 6))
    return [
        *(whole, whole.T, whole[1:3], whole[:, 2:], whole[:, 2:4].T, whole.flatten()[::2]),
        *(whole.unflatten(1, (3, 2)).transpose(0, 1), whole[:1].expand(2, 6), whole[:0]),
        *(whole[2:3, 3:4], counting((1,)), whole.T.reshape(2, 12)),
    ]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("index", range(len(views())))
def test_a_view_is_told_as_its_numbers_are(index: int, known: bool) -> None:
    view = views()[index]
    if not known:
        view = view.clone()
        forget()
    numbers = view.flatten().tolist()
    start = numbers[0] if numbers else 0
    follows = numbers == list(range(start, start + len(numbers)))
    assert start_of(view) == (start if follows else None)
    assert has_each_once(view) == (sorted(numbers) == list(range(len(numbers))))
    assert are_equal(view, view.clone()) and (not numbers or not are_equal(view, view + 1))


def test_all_share_memory() -> None:
    one, other = counting((300, 5)), counting((7, 100))
    assert one.data_ptr() == other.data_ptr()


def largest(index: Tensor, width: int) -> int:
    """By trying each size."""
    sides = np.gcd(index.shape[1], width)
    for piece in (size for size in range(sides, 0, -1) if sides % size == 0):
        pieces = index.reshape(-1, piece).tolist()
        follow = (
            all(number < 0 for number in one)
            or one[0] >= 0
            and one[0] % piece == 0
            and one == list(range(one[0], one[0] + piece))
            for one in pieces
        )
        if all(follow):
            return int(piece)
    return 1


def test_pieces_that_stay_together() -> None:
    halves = torch.cat([counting((6, 16))[:, 8:], counting((6, 16))[:, :8]], 1)
    zeros = torch.full((6, 8), -1)
    for index in (
        *(halves, torch.cat([halves, zeros], 1), torch.cat([zeros, halves[:, 4:12]], 1)),
        *(halves.flip(0), halves[:, 4:12], torch.full((2, 4), -1), counting((6, 16)).T),
        torch.tensor([[-1, 0, 1, 2]]),
    ):
        assert _piece(index, 16) == largest(index, 16), index
