"""A decoder as data: the parts of its layers, by their Hugging Face names."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from exporter.models.rotary_spec import LongRopeScaling, RotarySpec

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "quick_gelu", "relu2", "tanh", "xielu"]
QkNorm = Literal["heads", "rows", "rotated_heads", "layer", "layer_by_head"] | None
NormKind = Literal["rms", "layer", "layer_with_bias"]
Gate = Literal["numbers", "heads"] | None
TextReading = Literal["before", "all"] | None


@dataclass(frozen=True)
class AttentionSpec:
    """Grouped-query attention.

    Attributes:
        rotary: rotates queries and keys; None: no position embedding.
        window: a query at position p sees positions p - window + 1 .. p; None: all up to its own.
        bias, out_bias: of q_proj, k_proj and v_proj; of o_proj.
        qk_norm: an RMSNorm of queries and keys before the rotation: of each head ("heads"), or of
            all heads of a position at once ("rows"); or of each head behind it ("rotated_heads").
            A LayerNorm of each head before it: with one weight and bias ("layer", Phi), or with a
            weight for each head ("layer_by_head", Command R+).
        scale: a factor on the dot products; None: head_dim ** -0.5.
        query_rotary: rotates queries instead of `rotary`; None: the same table for both.
        soft_cap: scores become cap * tanh(score / cap); None: they stay (Gemma 2).
        sinks: each head has a learned score that takes part in the softmax, without a value
            (gpt-oss).
        gate: each output is multiplied by the sigmoid of a gate, which the layer's input makes:
            one for each number of the heads (Qwen3-Next), or for each head (LFM3).
        value_norm: an RMSNorm without a weight of each head of the values (Gemma 4).
        values_are_keys: values are what k_proj makes, too; there is no v_proj (Gemma 4).
        shares: the index of an earlier layer, whose keys and values it attends to; None: it has its
            own (Gemma 4).
        int8: beside quantized linears, heads are rounded to int8, as a cache of such keeps keys and
            values (exporter/models/int8_heads.py).
        text: of models that read complete texts and cache nothing: whether a query sees what is
            before it ("before"), or all of its text ("all"); None: of a decoder.
    """

    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary: RotarySpec | None
    window: int | None = None
    bias: bool = False
    out_bias: bool = False
    qk_norm: QkNorm = None
    scale: float | None = None
    query_rotary: RotarySpec | None = None
    soft_cap: float | None = None
    sinks: bool = False
    gate: Gate = None
    value_norm: bool = False
    values_are_keys: bool = False
    shares: int | None = None
    int8: bool = False
    text: TextReading = None

    def for_context(self, length: int, both: bool) -> "AttentionSpec":
        """Returns the attention for contexts of up to `length`; `both`: see RotarySpec."""
        rotary = self.rotary and self.rotary.for_context(length, both)
        queries = self.query_rotary and self.query_rotary.for_context(length, both)
        return replace(
            self,
            rotary=rotary,
            query_rotary=None if queries == rotary else queries,
            window=None if self.window is None or self.window >= length else self.window,
        )


@dataclass(frozen=True)
class ConvolutionSpec:
    """A gated short convolution over the last `kernel_size` positions (LFM2).

    Attributes:
        bias: of its linears and of the convolution.
    """

    kernel_size: int
    bias: bool = False

    def for_context(self, length: int, both: bool) -> "ConvolutionSpec":
        """Returns the same: no length changes it."""
        return self


@dataclass(frozen=True)
class DeltaSpec:
    """The gated delta rule over queries, keys and values that a convolution over the last
    `kernel_size` positions has mixed (Qwen3-Next)."""

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel_size: int

    @property
    def mixed_size(self) -> int:
        """Numbers of all queries, keys and values of a position."""
        keys, values = self.num_key_heads * self.key_head_dim, self.num_value_heads
        return 2 * keys + values * self.value_head_dim

    @property
    def state_size(self) -> int:
        """Numbers of its matrices, one for each head of values."""
        return self.num_value_heads * self.key_head_dim * self.value_head_dim

    def for_context(self, length: int, both: bool) -> "DeltaSpec":
        """Returns the same: no length changes it."""
        return self


Mixer = AttentionSpec | ConvolutionSpec | DeltaSpec


@dataclass(frozen=True)
class MlpSpec:
    """A feed-forward part: down(activation(gate(x)) * up(x)), or down(activation(up(x))).

    Attributes:
        activation: "xielu" has two learned numbers, and gates nothing.
        row_gate: what goes into down is multiplied by the sigmoid of one number, which a linear of
            its own makes of x (Qwen2-MoE's shared expert).
        limit: of a gated one: gate is at most that, up is cut to -limit .. limit, and 1 is added to
            it (gpt-oss); None: they stay.
    """

    intermediate_size: int
    activation: Activation = "silu"
    gated: bool = True
    bias: bool = False
    limit: float | None = None
    row_gate: bool = False


@dataclass(frozen=True)
class ExpertsSpec:
    """A mixture of experts: of `num_experts` feed-forward parts, a router chooses some for each
    row, whose outputs it weighs and adds (Shazeer et al., 2017).

    Attributes:
        expert: one of them.
        num_experts_per_tok: how many are chosen: those with the highest scores.
        normalized: whether the weights are the softmax over the chosen scores; otherwise they are
            those of the softmax over all scores.
        router_bias: of the linear that makes the scores.
        sigmoid: scores are the sigmoid of what the linear makes, and the weights are the chosen
            ones, or their shares of the sum of these (LFM2-MoE).
        choice_bias: a learned number is added to each score for the choice alone.
        share_scale: a factor on the weights.
    """

    expert: MlpSpec
    num_experts: int
    num_experts_per_tok: int
    normalized: bool = True
    router_bias: bool = False
    sigmoid: bool = False
    choice_bias: bool = False
    share_scale: float = 1.0

    @property
    def intermediate_size(self) -> int:
        """Of one expert."""
        return self.expert.intermediate_size


FeedForwardSpec = MlpSpec | ExpertsSpec


@dataclass(frozen=True)
class Norms:
    """The names, in the layer, of the RMSNorms around a block; None: no norm.

    Attributes:
        before: the norm that feeds the block.
        after: the norm of what the block adds to the hidden states.
    """

    before: str | None
    after: str | None = None


@dataclass(frozen=True)
class LayerInputSpec:
    """An input of its own for each layer: numbers of the token, from a table, and a projection of
    the token's embedding (Gemma 3n and 4).

    Attributes:
        size: how many numbers a layer gets.
        vocab_size: rows of the table.
        activation: of the gate by which a layer multiplies them.
    """

    size: int
    vocab_size: int
    activation: Activation = "gelu_tanh"


@dataclass(frozen=True)
class LayerSpec:
    """A layer: x + mixer(x), then x + feed_forward(x), each with its norms.

    Attributes:
        scaled: whether what the layer computes is multiplied by a learned number (Gemma 4).
        parallel: whether both parts read the layer's input: x + mixer(x) + feed_forward(x).
        shared_expert: a part that reads what feed_forward reads, and is added too (Qwen2-MoE).
    """

    mixer: Mixer
    feed_forward: FeedForwardSpec
    mixer_norms: Norms = Norms("input_layernorm")
    feed_forward_norms: Norms = Norms("post_attention_layernorm")
    scaled: bool = False
    parallel: bool = False
    shared_expert: MlpSpec | None = None

    @property
    def attention(self) -> AttentionSpec:
        """The mixer, where it must be attention."""
        assert isinstance(self.mixer, AttentionSpec)
        return self.mixer


@dataclass(frozen=True)
class DecoderSpec:
    """One decoder.

    Attributes:
        context_limit: the longest context that the decoder computes exactly.
        rms_norm_eps: of all norms.
        norm: what the norms of the stream are.
        head_bias: whether the head has a bias.
        embedding_scale: a factor on the embedding's rows.
        logit_soft_cap: logits become cap * tanh(logits / cap).
        layer_input: what layers get besides the hidden states; None: nothing.
        folded: factors that loading multiplies weights and biases by, by the end of their module's
            path, where the original decoder multiplies activations.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    context_limit: int
    rms_norm_eps: float
    layers: tuple[LayerSpec, ...]
    tie_word_embeddings: bool = False
    norm: NormKind = "rms"
    head_bias: bool = False
    embedding_scale: float | None = None
    logit_soft_cap: float | None = None
    layer_input: LayerInputSpec | None = None
    folded: tuple[tuple[str, float], ...] = ()
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()

    @property
    def num_hidden_layers(self) -> int:
        return len(self.layers)

    @cached_property
    def attentions(self) -> tuple[AttentionSpec, ...]:
        """The mixers that are attention, in order."""
        mixers = (layer.mixer for layer in self.layers)
        return tuple(mixer for mixer in mixers if isinstance(mixer, AttentionSpec))

    @cached_property
    def shared_layers(self) -> frozenset[int]:
        """The indices of layers whose keys and values others attend to, too."""
        return frozenset(mixer.shares for mixer in self.attentions if mixer.shares is not None)

    @cached_property
    def rotary_tables(self) -> tuple[RotarySpec, ...]:
        """The tables that layers use, each once, in the order of first use."""
        tables = (
            table for mixer in self.attentions for table in (mixer.rotary, mixer.query_rotary)
        )
        return tuple(dict.fromkeys(table for table in tables if table is not None))

    @cached_property
    def original_context(self) -> int | None:
        """The longest text that uses the first of LongRoPE's two tables; None: the length of a text
        chooses no table, or several lengths do."""
        scalings = (table.scaling for table in self.rotary_tables)
        lengths = {
            scaling.original_max_position_embeddings
            for scaling in scalings
            if isinstance(scaling, LongRopeScaling)
        }
        return lengths.pop() if len(lengths) == 1 else None

    def for_context(self, length: int, both: bool = False) -> "DecoderSpec":
        """Returns the decoder for contexts of up to `length`: tables that depend on the length are
        fixed, and windows that are not shorter are removed.

        Args:
            both: tables that each text chooses by its own length stay, if `original_context` is all
                that one must know for it.
        """
        both = both and self.original_context is not None
        layers = (
            replace(layer, mixer=layer.mixer.for_context(length, both)) for layer in self.layers
        )
        return replace(self, layers=tuple(layers))

    def with_int8_heads(self) -> "DecoderSpec":
        """Returns the decoder with int8 attention in all layers that have any."""
        layers = (
            replace(layer, mixer=replace(layer.mixer, int8=True))
            if isinstance(layer.mixer, AttentionSpec)
            else layer
            for layer in self.layers
        )
        return replace(self, layers=tuple(layers))

    def dimensions(self) -> dict[str, int | list[int]]:
        """The sizes of the parts by their Hugging Face names: a number if all layers have the same,
        otherwise a list with one entry for each layer. Those of attention are for layers that have
        it. `sliding_window`, where there is one, is 0 for layers without; `short_convolutions`
        and `gated_delta_rules` count the layers with one, where there are any, and so does
        `num_kv_shared_layers` those without keys and values of their own; `delta_state_size` is
        how many numbers the matrices of one delta rule hold; `num_experts` and
        `num_experts_per_tok` are those of the layers with experts, where there are any;
        `hidden_size_per_layer_input` stands where layers have an input of their own."""
        mixers = self.attentions
        feed_forwards = [layer.feed_forward for layer in self.layers]
        experts = [part for part in feed_forwards if isinstance(part, ExpertsSpec)]
        windows = [mixer.window or 0 for mixer in mixers]
        kinds = Counter(type(layer.mixer) for layer in self.layers)
        rules = [layer.mixer for layer in self.layers if isinstance(layer.mixer, DeltaSpec)]
        others = {
            "short_convolutions": kinds[ConvolutionSpec],
            "gated_delta_rules": kinds[DeltaSpec],
            "delta_state_size": max((rule.state_size for rule in rules), default=0),
            "num_kv_shared_layers": sum(mixer.shares is not None for mixer in mixers),
        }
        return {
            "hidden_size": self.hidden_size,
            "intermediate_size": _shared([part.intermediate_size for part in feed_forwards]),
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": _shared([mixer.num_attention_heads for mixer in mixers]),
            "num_key_value_heads": _shared([mixer.num_key_value_heads for mixer in mixers]),
            "head_dim": _shared([mixer.head_dim for mixer in mixers]),
            "vocab_size": self.vocab_size,
            "tie_word_embeddings": self.tie_word_embeddings,
            **({"sliding_window": _shared(windows)} if any(windows) else {}),
            **{name: count for name, count in others.items() if count},
            **({"hidden_size_per_layer_input": self.layer_input.size} if self.layer_input else {}),
            **(_expert_counts(experts) if experts else {}),
        }


def _expert_counts(experts: list[ExpertsSpec]) -> dict[str, int | list[int]]:
    return {
        "num_experts": _shared([part.num_experts for part in experts]),
        "num_experts_per_tok": _shared([part.num_experts_per_tok for part in experts]),
    }


def _shared(sizes: list[int]) -> int | list[int]:
    return sizes[0] if len(set(sizes)) == 1 else sizes
