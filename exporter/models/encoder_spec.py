"""An encoder as data: the parts of its layers, what its texts become, by their usual names."""

from dataclasses import dataclass, field

from exporter.models.segment_operators import Pooling
from exporter.models.spec import Activation, DecoderSpec, MlpSpec


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
        max_position_embeddings: rows of its table of positions that texts use.
        first_position: the stored row of the first of them.
        layer_norm_eps: of all its norms.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    layers: tuple[EncoderLayerSpec, ...]
    max_position_embeddings: int
    layer_norm_eps: float
    first_position: int = 0

    tie_word_embeddings: bool = field(default=False, init=False)  # there is no head

    @property
    def max_seq_len(self) -> int:
        """The most tokens of a text."""
        return self.max_position_embeddings

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)


@dataclass(frozen=True)
class StackSpec:
    """An encoder of a decoder's layers, whose attention reads complete texts.

    Attributes:
        decoder: its layers, the norm behind them, and the scale of its embedding.
        embedding_norm: whether a norm of the same kind is in front of the layers (ModernBERT).
    """

    decoder: DecoderSpec
    embedding_norm: bool = False

    tie_word_embeddings: bool = field(default=False, init=False)  # there is no head

    @property
    def model_type(self) -> str:
        return self.decoder.model_type

    @property
    def vocab_size(self) -> int:
        return self.decoder.vocab_size

    @property
    def hidden_size(self) -> int:
        return self.decoder.hidden_size

    @property
    def max_seq_len(self) -> int:
        """The most tokens of a text."""
        return self.decoder.context_limit

    @property
    def num_hidden_layers(self) -> int:
        return self.decoder.num_hidden_layers


AnyEncoderSpec = EncoderSpec | StackSpec


@dataclass(frozen=True)
class DenseSpec:
    """A linear behind the pooling, and its activation; None: there is none."""

    in_features: int
    out_features: int
    bias: bool
    activation: Activation | None


@dataclass(frozen=True)
class EmbeddingSpec:
    """What becomes of the last hidden states of a text: one row of numbers.

    Attributes:
        pooling: how the rows of a text become one.
        normalize: whether that is divided by its length, at the end.
        dense: linears between the two, in order.
    """

    pooling: Pooling
    normalize: bool
    dense: tuple[DenseSpec, ...] = ()
