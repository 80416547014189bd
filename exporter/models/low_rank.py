"""Adapters kept apart from a model's weights: low-rank products beside its linears.

y = W x + scale * B (A x) (Hu et al., 2021, section 4.1). A captured program holds the products of
all adapters of a linear as one operator. Which adapter is active is not an input of the program: it
is the session's state in a runtime, and `active_adapter` here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_active: ContextVar[str | None] = ContextVar("active adapter", default=None)

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "low_rank(Tensor output, Tensor input, Tensor[] a, Tensor[] b, float[] scales, "
    "str[] adapters) -> Tensor"
)


@dataclass(frozen=True)
class LowRankPair:
    """An adapter's change of one weight, scale * b^T a.

    Attributes:
        a: float16 (rank, in_features).
        b: float16 (rank, out_features).
    """

    a: Tensor
    b: Tensor
    scale: float


@dataclass(frozen=True)
class LowRankAdapter:
    """
    Attributes:
        name: by which it is chosen at run time.
        source: the directory or the hub id that it comes from.
        pairs: by the path of the linear, as model.layers.0.self_attn.q_proj.
        notes: what its settings leave open, in sentences.
    """

    name: str
    source: str
    pairs: Mapping[str, LowRankPair]
    notes: tuple[str, ...] = ()

    @property
    def ranks(self) -> list[int]:
        """The ranks that occur."""
        return sorted({len(pair.a) for pair in self.pairs.values()})

    @property
    def bytes(self) -> int:
        """Bytes of its float16 matrices."""
        return sum(2 * (pair.a.numel() + pair.b.numel()) for pair in self.pairs.values())


def low_rank(
    output: Tensor,
    input: Tensor,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    scales: Sequence[float],
    adapters: Sequence[str],
) -> Tensor:
    """Adds the active adapter's product to the output of a linear; without one, a copy of it.

    Args:
        output: float32 (..., out_features).
        input: float32 (..., in_features), which the linear had.
        a, b, scales: as `LowRankPair` has them, one each for the adapters of these names.

    Returns:
        float32 (..., out_features).
    """
    active = _active.get()
    if active is None or active not in adapters:
        return output.clone()
    index = list(adapters).index(active)
    return output + (input @ a[index].float().T * scales[index]) @ b[index].float()


_library.impl("low_rank", low_rank, "CompositeExplicitAutograd")


@torch.library.register_fake("thimble::low_rank", lib=_library)
def _low_rank_fake(output: Tensor, *_: object) -> Tensor:
    return torch.empty_like(output)


@contextmanager
def active_adapter(name: str | None) -> Iterator[None]:
    """Models compute with the adapter of this name; None: with none."""
    token = _active.set(name)
    try:
        yield
    finally:
        _active.reset(token)


class AdaptedLinear(nn.Module):
    """A linear, quantized or not, with the pairs of some adapters.

    Args:
        base: from (..., in_features) to (..., out_features).
        pairs: by the adapters' names.
    """

    def __init__(self, base: nn.Module, pairs: Mapping[str, LowRankPair]) -> None:
        super().__init__()
        self.base = base
        self.adapters = list(pairs)
        self.scales = [pair.scale for pair in pairs.values()]
        for index, pair in enumerate(pairs.values()):
            self.register_buffer(f"a_{index}", pair.a)
            self.register_buffer(f"b_{index}", pair.b)

    def forward(self, x: Tensor) -> Tensor:
        count = range(len(self.adapters))
        a = [self.get_buffer(f"a_{index}") for index in count]
        b = [self.get_buffer(f"b_{index}") for index in count]
        output = self.base(x)
        return torch.ops.thimble.low_rank(output, x, a, b, self.scales, self.adapters)


def attach(model: nn.Module, adapters: Sequence[LowRankAdapter]) -> None:
    """Puts an AdaptedLinear in the place of each linear that an adapter changes."""
    for path in dict.fromkeys(path for adapter in adapters for path in adapter.pairs):
        parent, _, name = path.rpartition(".")
        pairs = {one.name: one.pairs[path] for one in adapters if path in one.pairs}
        module = model.get_submodule(parent)
        setattr(module, name, AdaptedLinear(module.get_submodule(name), pairs))
