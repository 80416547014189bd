"""PyTorch's attention module as separate linears around attention, with the samples in front.

Its own code multiplies by slices of one weight, which no integers replace, keeps positions in front
and merges samples with heads, which no delegate reads as attention.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import transformer


@contextmanager
def attention_opened(module: nn.Module) -> Iterator[nn.Module]:
    """Provides the module whose every `nn.MultiheadAttention` is made of linears, in the block.

    PyTorch's layers around it look there at no mask's numbers: a mask that hides what comes later
    is right as it is, and a capture has no numbers.
    """
    with patch.object(transformer, "_detect_is_causal_mask", _is_called_causal):
        if _can_be_opened(module):
            yield _Opened(module)
        else:
            with _parts_opened(module):
                yield module


def _is_called_causal(mask: Tensor | None, is_causal: bool | None = None, *_: object) -> bool:
    return bool(is_causal)


@contextmanager
def _parts_opened(module: nn.Module) -> Iterator[None]:
    kept = [
        (part, name, child)
        for part in list(module.modules())
        for name, child in part._modules.items()
        if _can_be_opened(child)
    ]
    opened = {id(child): _Opened(child) for _, _, child in kept}
    try:
        for part, name, child in kept:
            part._modules[name] = opened[id(child)]
        yield
    finally:
        for part, name, child in kept:
            part._modules[name] = child


def _can_be_opened(module: nn.Module | None) -> TypeGuard[nn.MultiheadAttention]:
    """Not one that drops weights, or adds keys of its own."""
    return (
        isinstance(module, nn.MultiheadAttention)
        and type(module) is nn.MultiheadAttention
        and not (module.training and module.dropout)
        and module.bias_k is None
        and not module.add_zero_attn
    )


class _Opened(nn.MultiheadAttention):
    """One whose linears share the numbers of another; the rest, as its hooks, is the other's."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        self.__dict__.update({**attention.__dict__, **attention._parameters})
        self._parameters, self._modules = {}, {}
        names = "q_proj", "k_proj", "v_proj"
        if attention.in_proj_weight is None:
            weights = [getattr(attention, f"{name}_weight") for name in names]
        else:
            weights = attention.in_proj_weight.chunk(3)
        bias = attention.in_proj_bias
        biases = (None, None, None) if bias is None else bias.chunk(3)
        for name, *numbers in zip(names, weights, biases, strict=True):
            self.add_module(name, _linear(*numbers))
        self.add_module("out_proj", _linear(attention.out_proj.weight, attention.out_proj.bias))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As PyTorch's."""
        q, k, v = (
            project(self._in_front(x)).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        weights = mask = None
        if need_weights or not is_causal or key_padding_mask is not None:
            mask, is_causal = _mask(q, key_padding_mask, attn_mask), False
        if need_weights:
            scores = q * self.head_dim**-0.5 @ k.transpose(-2, -1)
            weights = F.softmax(scores if mask is None else scores + mask, dim=-1)
            out = weights @ v
            weights = weights.mean(dim=1) if average_attn_weights else weights
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if query.dim() == 3:
            return out if self.batch_first else out.transpose(0, 1), weights
        return out.squeeze(0), None if weights is None else weights.squeeze(0)

    def _in_front(self, x: Tensor) -> Tensor:
        """Rows as (batch, rows, width)."""
        if x.dim() == 2:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    rows, columns = weight.shape
    linear = nn.Linear(columns, rows, bias is not None, device="meta")
    linear.weight = nn.Parameter(weight.detach(), requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias.detach(), requires_grad=False)
    return linear.eval()


def _mask(query: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Returns what is added to the scores: (1 or batch, 1 or heads, 1 or rows, keys).

    Args:
        query: (batch, heads, rows, head_dim).
        padding: (keys) or (batch, keys).
        mask: (rows, keys) or (batch * heads, rows, keys).
    """
    known = []
    if mask is not None:
        mask = _as_float(mask, query)
        known.append(mask.unflatten(0, query.shape[:2]) if mask.dim() == 3 else mask[None, None])
    if padding is not None:
        known.append(_as_float(padding, query).view(-1, 1, 1, padding.shape[-1]))
    return sum(known[1:], known[0]) if known else None


def _as_float(mask: Tensor, query: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -torch.inf)
