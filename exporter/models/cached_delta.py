"""Our operator of the gated delta rule: it continues where the call before has ended.

It keeps the last inputs of its convolution and a matrix for each head, whatever the number of
positions. They belong to the position where the last call ended, so that the next call starts
there, or at 0.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

_EPS = 1e-6  # of the norms of queries and keys

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "gated_delta_rule(Tensor qkv, Tensor a, Tensor b, Tensor weight, Tensor a_log, "
    "Tensor dt_bias, Tensor(a!) inputs, Tensor(b!) state, SymInt start_pos) -> Tensor"
)


def gated_delta_rule(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    weight: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    inputs: Tensor,
    state: Tensor,
    start_pos: int,
) -> Tensor:
    """Computes `delta_rule` of positions that follow those of the call before.

    Args:
        qkv, a, b, weight, a_log, dt_bias: as in `delta_rule`.
        inputs: (batch, kernel_size - 1, mixed), the qkv of the last positions, which are replaced
            by those of this call; what lies before position 0 counts as zeros.
        state: (batch, num_value_heads, key_head_dim, value_head_dim), after the last position;
            before position 0, zeros.
        start_pos: position of the first input.

    Returns:
        (batch, seq_len, num_value_heads * value_head_dim).
    """
    positions = start_pos + torch.arange(-inputs.shape[1], 1, device=state.device)
    before = torch.where((positions[:-1] >= 0)[:, None], inputs, 0.0)
    first = torch.where(positions[-1] > 0, state, 0.0)
    out, rows, last = delta_rule(qkv, a, b, weight, a_log, dt_bias, before, first)
    inputs.copy_(rows.narrow(1, qkv.shape[1], inputs.shape[1]))
    state.copy_(last)
    return out


def delta_rule(
    qkv: Tensor,
    a: Tensor,
    b: Tensor,
    weight: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    inputs: Tensor,
    state: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gated delta rule over queries, keys and values that a causal convolution has mixed.

    With q and k of length 1 and q divided by the root of its size, for each head and position

        S <- exp(-exp(a_log) * softplus(a + dt_bias)) * S
        S <- S + k (sigmoid(b) * (v - S^T k))^T,    out = S^T q

    computed for all positions at once: the corrections of v solve a triangular system (Yang, Wang,
    Zhang, Shen and Kim, 2024, section 3).

    Args:
        qkv: (batch, seq_len, mixed): all queries, all keys, all values; queries and keys have
            fewer heads if each serves several of the values'.
        a, b: (batch, seq_len, num_value_heads).
        weight: (mixed, 1, kernel_size), of the convolution, that of the own position last.
        a_log, dt_bias: (num_value_heads,).
        inputs: (batch, kernel_size - 1, mixed), the qkv of the positions before.
        state: (batch, num_value_heads, key_head_dim, value_head_dim), S before the first position.

    Returns:
        (batch, seq_len, num_value_heads * value_head_dim); all inputs of the convolution, (batch,
        kernel_size - 1 + seq_len, mixed); the last S.
    """
    seq_len, (heads, key_dim, value_dim) = qkv.shape[1], state.shape[1:]
    taps = weight.squeeze(1).T  # (kernel_size, mixed)
    rows = torch.cat((inputs, qkv), dim=1)
    mixed = rows.narrow(1, 0, seq_len) * taps[0]
    for index in range(1, len(taps)):
        mixed = mixed + rows.narrow(1, index, seq_len) * taps[index]
    keys = (qkv.shape[2] - heads * value_dim) // 2
    q, k, v = F.silu(mixed).split((keys, keys, heads * value_dim), dim=-1)
    q = _heads(q, key_dim, heads) * key_dim**-0.5
    k = _heads(k, key_dim, heads)
    v = v.unflatten(-1, (heads, value_dim)).transpose(1, 2)

    decay = -a_log.exp() * F.softplus(a + dt_bias)  # (batch, seq_len, heads)
    total = decay.transpose(1, 2).cumsum(-1)[..., None]  # (batch, heads, seq_len, 1)
    since = torch.exp((total - total.mT).tril()).tril()  # from each earlier position to each later
    beta = b.sigmoid().transpose(1, 2)[..., None]
    system = (beta * (k @ k.mT) * since).tril(-1) + torch.eye(seq_len, device=qkv.device)
    update = beta * (v - total.exp() * (k @ state))
    delta = torch.linalg.solve_triangular(system, update, upper=False, unitriangular=True)
    out = total.exp() * (q @ state) + ((q @ k.mT) * since) @ delta
    left = torch.exp(total[:, :, -1:] - total)
    last = total[:, :, -1:].exp() * state + (k * left).mT @ delta
    return out.transpose(1, 2).flatten(2), rows, last


def _heads(x: Tensor, size: int, count: int) -> Tensor:
    """Heads of length 1, (batch, count, seq_len, size), each repeated for those that it serves."""
    x = x.unflatten(-1, (-1, size))
    x = x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + _EPS)
    return x.repeat_interleave(count // x.shape[2], dim=2).transpose(1, 2)


_library.impl("gated_delta_rule", gated_delta_rule, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::gated_delta_rule", lib=_library)
def _gated_delta_rule_fake(qkv: Tensor, *rest: object) -> Tensor:
    state = rest[6]
    assert isinstance(state, Tensor)
    return qkv.new_empty(*qkv.shape[:2], state.shape[1] * state.shape[3])
