"""Our operator of a gated short convolution: it continues where the call before has ended.

What it keeps is a state: the last inputs, whatever the number of positions. The state belongs to
the position where the last call ended, so that the next call starts there, or at 0.
"""

import torch
from torch import Tensor
from torch._decomp import register_decomposition

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "short_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor(a!) state, "
    "SymInt start_pos) -> Tensor"
)


def short_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor, start_pos: int
) -> Tensor:
    """Computes `gated_convolution` of positions that follow those of the call before.

    Args:
        input, weight, bias: as in `gated_convolution`.
        state: (batch, kernel_size - 1, size), the products of the last positions, which are
            replaced by those of this call; what lies before position 0 counts as zeros.
        start_pos: position of the first input.

    Returns:
        (batch, seq_len, size).
    """
    kept = state.shape[1]
    positions = start_pos - kept + torch.arange(kept, device=state.device)
    before = torch.where((positions >= 0)[:, None], state, 0.0)
    out, products = gated_convolution(input, weight, bias, before)
    state.copy_(products[:, -kept:].view(state.shape))  # for compilers that do not see its size
    return out


def gated_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, before: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """C * conv(B * x): each column of B * x is convolved by itself, over the last kernel_size
    positions.

    Args:
        input: (batch, seq_len, 3 * size), with B, C and x side by side.
        weight: (size, 1, kernel_size), that of the own position last.
        bias: (size,), or None.
        before: (batch, kernel_size - 1, size), the products B * x of the positions before; None:
            zeros.

    Returns:
        (batch, seq_len, size); all products, (batch, kernel_size - 1 + seq_len, size).
    """
    opening, gate, x = input.chunk(3, dim=-1)
    taps = weight.squeeze(1).T  # (kernel_size, size)
    if before is None:
        before = x.new_zeros(len(x), len(taps) - 1, x.shape[2])
    products = torch.cat((before, opening * x), dim=1)
    mixed = products.narrow(1, 0, x.shape[1]) * taps[0]
    for index in range(1, len(taps)):
        mixed = mixed + products.narrow(1, index, x.shape[1]) * taps[index]
    if bias is not None:
        mixed = mixed + bias
    return gate * mixed, products


_library.impl("short_convolution", short_convolution, "CompositeExplicitAutograd")
# For delegates without the operator, which look it up.
register_decomposition(torch.ops.thimble.short_convolution.default)(short_convolution)


@torch.library.register_fake("thimble::short_convolution", lib=_library)
def _short_convolution_fake(
    input: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor, start_pos: int
) -> Tensor:
    return input.new_empty(*input.shape[:2], weight.shape[0])
