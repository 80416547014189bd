"""Attention of models that read complete texts, several of which may be in a call."""

import torch
from torch import Tensor

import exporter.models.segment_operators  # noqa: F401, of torch.ops.thimble
from exporter.models.attention import Attention
from exporter.models.rotary_tables import Rope
from exporter.models.spec import AttentionSpec


class TextAttention(Attention):
    """Within complete texts: what depends on a position counts from the start of each."""

    def __init__(
        self,
        spec: AttentionSpec,
        hidden_size: int,
        eps: float,
        query_rope: int | None = None,
        key_rope: int | None = None,
    ) -> None:
        """As those of `Attention`."""
        assert spec.soft_cap is None and not spec.sinks and spec.gate is None and not spec.int8
        super().__init__(spec, hidden_size, eps, query_rope, key_rope)
        around = None if self.window is None else self.window - 1
        self.after = 0 if spec.text == "before" else around

    def _rotate(self, x: Tensor, rope: Rope) -> Tensor:
        rotated: Tensor = torch.ops.thimble.rotate(x, *rope)
        return rotated

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attended: Tensor = torch.ops.thimble.segment_attention(
            q, k, v, self.scale, self.window, self.after
        )
        return attended
