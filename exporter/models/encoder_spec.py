"""An encoder as data: the parts of its layers, what its texts become, by their usual names."""

from dataclasses import dataclass, field

from exporter.models.segment_operators import Pooling
from exporter.models.spec import MlpSpec


@dataclass(frozen=True)
class EncoderAttentionSpec:
    """Attention within a text.

    Attributes:
        window: how many positions up to its own a query sees, and as many behind; None: all.
    """

    num_attention_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True)
class EncoderLayerSpec:
    attention: EncoderAttentionSpec
    feed_forward: MlpSpec


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder whose blocks are each x = norm(x + block(x)) (BERT, 2018).

    Attributes:
        max_position_embeddings: rows of its table of positions.
        layer_norm_eps: of all its norms.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    layers: tuple[EncoderLayerSpec, ...]
    max_position_embeddings: int
    layer_norm_eps: float

    tie_word_embeddings: bool = field(default=False, init=False)  # there is no head

    @property
    def max_seq_len(self) -> int:
        """The most tokens of a text."""
        return self.max_position_embeddings

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)


@dataclass(frozen=True)
class EmbeddingSpec:
    """What becomes of the last hidden states of a text: one row of numbers.

    Attributes:
        pooling: how the rows of a text become one.
        normalize: whether that is divided by its length.
    """

    pooling: Pooling
    normalize: bool
