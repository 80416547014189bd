"""The attention kernels against torch: every instruction set that this CPU has, odd shapes."""

import ctypes
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

HEADS = [(4, 4), (8, 2), (6, 1), (3, 3)]  # query heads, key/value heads
SEQ_LENS = [1, 2, 7, 130]
START_POS = [0, 1, 63, 64, 300]  # around a tile of 64 keys
HEAD_DIMS = [8, 20, 64, 80, 128]
EPSILON = 2.0**-24  # float32's rounding error


class Kernels:
    """The test library's kernels, best first."""

    def __init__(self, build: Path) -> None:
        self._library = ctypes.CDLL(str(build / "libattention_test.so"))
        self._library.attention_test_name.restype = ctypes.c_char_p
        pointers = [ctypes.c_void_p] * 5
        self._library.attention_test_run.argtypes = [
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_float,
            *pointers,
        ]
        self.names: list[str] = []
        while name := self._library.attention_test_name(len(self.names)):
            self.names.append(name.decode())

    def run(
        self,
        name: str,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        start_pos: int,
        causal: bool,
        mask: Tensor | None = None,
    ) -> Tensor:
        batch, seq_len, heads, head_dim = query.shape
        shape = [batch, seq_len, heads, key.shape[2], head_dim, key.shape[1], start_pos, causal]
        shape.append(0 if mask is None else mask.shape[1])
        out = torch.full_like(query, math.nan)
        self._library.attention_test_run(
            self.names.index(name),
            np.array(shape, dtype=np.int64).ctypes.data,
            head_dim**-0.5,
            query.data_ptr(),
            key.data_ptr(),
            value.data_ptr(),
            None if mask is None else mask.data_ptr(),
            out.data_ptr(),
        )
        return out


@pytest.fixture(scope="module")
def kernels(cpp_build: Path) -> Kernels:
    return Kernels(cpp_build)


def tensors(
    heads: tuple[int, int], seq_len: int, start_pos: int, head_dim: int, batch: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, and caches whose unwritten positions are NaN: reading one is seen."""
    generator = torch.Generator().manual_seed(seq_len * 1000 + start_pos + head_dim)
    query = torch.randn(batch, seq_len, heads[0], head_dim, generator=generator)
    shape = (batch, start_pos + seq_len + 3, heads[1], head_dim)
    key = torch.randn(shape, generator=generator)
    value = torch.randn(shape, generator=generator)
    key[:, start_pos + seq_len :] = math.nan
    value[:, start_pos + seq_len :] = math.nan
    return query, key, value


def reference(query: Tensor, key: Tensor, value: Tensor, start_pos: int, causal: bool) -> Tensor:
    """The same in float64 by torch."""
    seq_len, end = query.shape[1], start_pos + query.shape[1]
    mask = torch.ones(seq_len, end, dtype=torch.bool).tril(start_pos) if causal else None
    return F.scaled_dot_product_attention(
        query.double().transpose(1, 2),
        key[:, :end].double().transpose(1, 2),
        value[:, :end].double().transpose(1, 2),
        attn_mask=mask,
        enable_gqa=True,
    ).transpose(1, 2)


def tolerance(query: Tensor, key: Tensor, value: Tensor) -> float:
    """What float32 may cost.

    A score is a sum of head_dim products: its error is at most head_dim * eps * sum |q k|, and
    by chance about its square root, sqrt(head_dim) * eps * |q| |k| / sqrt(head_dim) after
    scaling, with a factor of 4 for the largest of many. A weight is off by that much relatively,
    twice (itself and the sum it is divided by), and by 4 eps of exp and rescaling. The output is
    an average of values by these weights.
    """
    norms = query.norm(dim=-1).max() * key.nan_to_num().norm(dim=-1).max()
    score = 4 * EPSILON * float(norms) / math.sqrt(query.shape[-1])
    return (2 * score + 4 * EPSILON) * float(value.nan_to_num().abs().max())


def cases() -> Iterator[tuple[tuple[int, int], int, int]]:
    yield from product(HEADS, SEQ_LENS, START_POS)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_torchs(kernels: Kernels, head_dim: int, causal: bool) -> None:
    for heads, seq_len, start_pos in cases():
        inputs = tensors(heads, seq_len, start_pos, head_dim, batch=1 + (seq_len == 7))
        expected = reference(*inputs, start_pos, causal)
        for name in kernels.names:
            out = kernels.run(name, *inputs, start_pos, causal)
            error = (out - expected).abs().max().item()
            assert error <= tolerance(*inputs), (name, heads, seq_len, start_pos)


def window_mask(seq_len: int, start_pos: int, window: int, columns: int) -> Tensor:
    """0 where a query sees a key, its own the last of `window`; minus infinity elsewhere."""
    distance = torch.arange(start_pos, start_pos + seq_len)[:, None] - torch.arange(columns)
    seen = (distance >= 0) & (distance < window)
    return torch.zeros(seq_len, columns).masked_fill(~seen, -math.inf)


@pytest.mark.parametrize("window", [5, 100])
def test_masked_attention_is_torchs(kernels: Kernels, window: int) -> None:
    for heads, seq_len, start_pos in cases():
        query, key, value = tensors(heads, seq_len, start_pos, 20, batch=1 + (seq_len == 7))
        end = start_pos + seq_len
        mask = window_mask(seq_len, start_pos, window, end + 2)
        mask[:, end:] = math.nan  # keys that are not written yet are not looked at
        mask += torch.rand(mask.shape, generator=torch.Generator().manual_seed(5))
        expected = F.scaled_dot_product_attention(
            query.double().transpose(1, 2),
            key[:, :end].double().transpose(1, 2),
            value[:, :end].double().transpose(1, 2),
            attn_mask=mask[:, :end].double(),
            enable_gqa=True,
        ).transpose(1, 2)
        for name in kernels.names:
            out = kernels.run(name, query, key, value, start_pos, False, mask)
            error = (out - expected).abs().max().item()
            assert error <= tolerance(query, key, value), (name, heads, seq_len, start_pos)


def test_there_is_always_a_baseline(kernels: Kernels) -> None:
    assert kernels.names[-1] == "baseline"


def test_large_scores_do_not_overflow(kernels: Kernels) -> None:
    query, key, value = tensors((4, 2), 5, 100, 64, batch=1)
    query, key = query * 100, key * 10  # scores in the thousands: exp() of one is infinite
    expected = reference(query, key, value, 100, True)
    for name in kernels.names:
        out = kernels.run(name, query, key, value, 100, True)
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-2)


def test_attention_is_executorchs(kernels: Kernels) -> None:
    """Our kernels run under the names of ExecuTorch's own, and mean the same."""
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    for heads, seq_len, start_pos in [((8, 2), 7, 64), ((4, 4), 1, 300), ((6, 1), 130, 1)]:
        query, key, value = tensors(heads, seq_len, start_pos, 64, batch=1)
        key, value = key.nan_to_num(), value.nan_to_num()
        stock = torch.ops.llama.custom_sdpa(query, key, value, start_pos, None, 0.0, True, None)
        ours = kernels.run(kernels.names[0], query, key, value, start_pos, True)
        assert (ours - stock).abs().max().item() <= 2 * tolerance(query, key, value)


def test_masked_attention_is_executorchs(kernels: Kernels) -> None:
    """ExecuTorch's own takes a mask over the whole cache."""
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    for heads, seq_len, start_pos in [((8, 2), 7, 64), ((4, 4), 1, 300), ((6, 1), 130, 1)]:
        query, key, value = tensors(heads, seq_len, start_pos, 64, batch=1)
        key, value = key.nan_to_num(), value.nan_to_num()
        mask = window_mask(seq_len, start_pos, 50, key.shape[1])
        stock = torch.ops.llama.custom_sdpa(query, key, value, start_pos, mask, 0.0, False, None)
        ours = kernels.run(kernels.names[0], query, key, value, start_pos, False, mask)
        assert (ours - stock).abs().max().item() <= 2 * tolerance(query, key, value)
