"""What this package asks of a model and of the place its weights come from."""

from typing import Protocol

from torch import Tensor, nn

Rope = tuple[Tensor, Tensor]


class CausalLM(Protocol):
    """A decoder with Hugging Face's names.

    `model` holds `embed_tokens`, `layers` and `norm`; a layer holds `input_layernorm`,
    `self_attn` (`q_proj k_proj v_proj o_proj`, `head_dim`), `post_attention_layernorm` and `mlp`
    (`gate_proj up_proj down_proj`), and maps (hidden states, rope) to hidden states.
    """

    @property
    def config(self) -> object:
        """Its repr says all that decides what the layers compute, their weights aside."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def lm_head(self) -> nn.Linear: ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids (batch, seq_len) to hidden states (batch, seq_len, hidden_size)."""

    def rope(self, seq_len: int) -> Rope:
        """What the layers take beside the hidden states of positions 0 .. seq_len - 1."""


class WeightSource(Protocol):
    """Stored tensors by their Hugging Face names."""

    def tensor(self, name: str) -> Tensor:
        """One tensor as it is stored, of any float type."""

    def load_into(self, module: nn.Module, prefix: str) -> None:
        """Replaces each parameter of `module` by a float32 copy of `prefix` + its name."""

    def release(self) -> None:
        """Gives back the memory that reading has made resident."""
