"""Our operator in the captured program of a decoder with two rotary tables, LongRoPE's: one for
texts up to the original context, one for longer ones.

The CPU delegate chooses by the table that a cache is computed with, which its session keeps. Eager
mode has only the call to go by, and so refuses one that would mix both tables in a cache.
"""

import torch
from torch import Tensor

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "rotary_rows(Tensor table, SymInt start_pos, SymInt seq_len, int original) -> Tensor"
)


def rotary_rows(table: Tensor, start_pos: int, seq_len: int, original: int) -> Tensor:
    """Returns the rows of positions start_pos .. start_pos + seq_len - 1 of a text that ends there.

    Args:
        table: (original + max_context_len, 1, head_dim): the rows for texts of up to `original`
            tokens, then those for longer ones.
    """
    is_long = start_pos + seq_len > original
    return table.narrow(0, start_pos + original if is_long else start_pos, seq_len).clone()


_library.impl("rotary_rows", rotary_rows, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::rotary_rows", lib=_library)
def _rows(table: Tensor, start_pos: int, seq_len: int, original: int) -> Tensor:
    return table.new_empty(seq_len, *table.shape[1:])
