"""Pieces of work in threads."""

import threading

import pytest
import torch

from quant.machine.threads import for_each, one_thread

CPU = torch.device("cpu")


def test_every_piece_is_worked_on_once_with_one_of_pytorchs_threads_and_no_gradients() -> None:
    seen: list[tuple[int, int, bool]] = []
    before = torch.get_num_threads()

    def work(piece: int) -> None:
        with one_thread():
            seen.append((piece, torch.get_num_threads(), torch.is_grad_enabled()))

    for_each(work, range(20), CPU)
    assert sorted(seen) == [(piece, 1, False) for piece in range(20)]
    assert torch.get_num_threads() == before


def test_an_error_is_raised() -> None:
    def work(piece: int) -> None:
        if piece == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        for_each(work, range(5), CPU)


def test_a_gpus_work_stays_in_this_thread() -> None:
    threads = set()
    for_each(lambda _: threads.add(threading.current_thread()), range(5), torch.device("meta"))
    assert threads == {threading.current_thread()}
