"""What a model's dimensions say about the work it makes: bytes to read, products to compute."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from devtools.errors import DevtoolsError

# Bytes of a number, on average of keys and values.
KV_CACHES = {"float16": 2, "float32": 4, "int8": 1, "int4": 0.5, "int8-int4": 0.75}
_CACHE = re.compile(r"([\w-]+) cache of")  # in what our own delegate says of itself


@dataclass(frozen=True)
class Shape:
    """A decoder's dimensions, by the Hugging Face names."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


SHAPE_FIELDS = tuple(field.name for field in fields(Shape))
_KINDS = {  # in a report only of what is no plain decoder
    "short_convolutions",
    "gated_delta_rules",
    "num_experts",
    "hidden_size_per_layer_input",
}


@dataclass(frozen=True)
class Cache:
    """What one layer keeps of each position.

    Attributes:
        bytes_per_position: read for every later token.
        window: the positions that it looks back at; 0 for all.
    """

    bytes_per_position: int
    window: int


@dataclass(frozen=True)
class Model:
    """What a `.pte` says of itself when it is loaded.

    Attributes:
        name: the checkpoint's.
        delegate: what runs it.
        scheme: how its weights are stored: rtn4, gptq4, rtn8 or none.
        group_size: inputs that share a 4-bit scale.
        head_bits: bits of the embedding and the head; None: they have different ones.
        runs_with: what our own delegate reports that it runs with, without the threads; "" for
            every other delegate.
        file_bytes: the whole file.
        weights_per_token: numbers of the decoder layers that a token is multiplied by.
        head_weights: those of `lm_head`, used for the last token of a call.
        weight_bytes_per_token: what one decoded token reads of the weights; of experts, those that
            it is given to.
        state_bytes: what it reads and writes of states, whose size does not depend on the position.
        caches: of the layers that keep keys and values.
        shape: None if the layers are of several kinds or sizes.
    """

    name: str
    delegate: str
    scheme: str
    group_size: int
    head_bits: int | None
    runs_with: str
    file_bytes: int
    max_seq_len: int
    max_context_len: int
    weights_per_token: int
    head_weights: int
    weight_bytes_per_token: int
    state_bytes: int
    caches: tuple[Cache, ...]
    shape: Shape | None

    @property
    def cache_bytes_per_position(self) -> int:
        """What a token reads of the caches for each position before it, if no window ends."""
        return sum(cache.bytes_per_position for cache in self.caches)

    def context_bytes(self, depth: float) -> float:
        """What a token at that depth reads and writes of caches and states."""
        return self.state_bytes + sum(
            cache.bytes_per_position * min(depth, cache.window or depth) for cache in self.caches
        )

    def prefill_operations(self, tokens: int) -> int:
        """Multiplications and additions of the matrix products of one prefill; attention's are
        not among them."""
        return 2 * (self.weights_per_token * tokens + self.head_weights)


def describe_model(description: dict[str, Any], path: str, adapter: str | None = None) -> Model:
    """The model behind the first line of build/bench.

    Args:
        adapter: the one of the file's that it runs with.

    Raises:
        DevtoolsError: its report is missing or has no full shape.
    """
    report = description["report"]
    if report is None or not set(SHAPE_FIELDS) <= report.get("model", {}).keys():
        raise DevtoolsError(
            f"{path} does not say what shape its model has: export it again with thimble-export."
        )
    facts, quantization = report["model"], report["quantization"]
    delegate = report["delegation"]["delegate"]
    cache = _CACHE.search(description["runs_with"])
    kv_cache = cache[1] if cache else "float32"
    head = facts["hidden_size"] * facts["vocab_size"]
    tied = facts["tie_word_embeddings"]
    # Our own delegate stores a tied embedding as the head alone; every other has a table of its
    # own beside the head, of which a token reads one row.
    unread = 0.0 if delegate == "cpu" and tied else quantization["embedding_bytes"]
    weights = facts["parameters"] - (1 if tied else 2) * head
    if "hidden_size_per_layer_input" in facts:  # a table, and a projection of the embedding
        inputs = facts["hidden_size_per_layer_input"] * facts["num_hidden_layers"]
        table, projection = inputs * facts["vocab_size"], inputs * facts["hidden_size"]
        unread += quantization["layer_input_bytes"] * table / (table + projection)
        weights -= table
    idle = _idle_expert_weights(facts)
    unread += idle * quantization.get("linear_bits_per_weight", 0.0) / 8
    stored = facts["parameters"] * quantization["bits_per_weight"] / 8
    stored += sum(a["bytes"] for a in facts.get("adapters", ()) if a["name"] == adapter)
    same = not (_KINDS & facts.keys() or any(type(facts[name]) is list for name in SHAPE_FIELDS))
    return Model(
        name=facts["name"],
        delegate=delegate,
        scheme=quantization["scheme"],
        group_size=quantization["group_size"],
        head_bits=quantization["head_bits"],
        runs_with=", ".join(
            part for part in description["runs_with"].split(", ") if "thread" not in part
        ),
        file_bytes=description["file_bytes"],
        max_seq_len=description["max_seq_len"],
        max_context_len=description["max_context_len"],
        weights_per_token=weights - idle,
        head_weights=head,
        weight_bytes_per_token=round(stored - unread),
        state_bytes=2 * 4 * facts.get("gated_delta_rules", 0) * facts.get("delta_state_size", 0),
        caches=_caches(facts, kv_cache),
        shape=Shape(**{name: facts[name] for name in SHAPE_FIELDS}) if same else None,
    )


def _idle_expert_weights(facts: dict[str, Any]) -> int:
    """Weights of the experts that a token is not given to."""
    idle = facts.get("num_experts", 0) - facts.get("num_experts_per_tok", 0)
    if not idle:
        return 0
    return 3 * facts["hidden_size"] * facts["intermediate_size"] * idle * facts["num_hidden_layers"]


def _caches(facts: dict[str, Any], kv_cache: str) -> tuple[Cache, ...]:
    """One for each layer with attention to keys and values of its own."""
    others = facts.get("short_convolutions", 0) + facts.get("gated_delta_rules", 0)
    attentions = facts["num_hidden_layers"] - others

    def layers(name: str) -> list[int]:
        value = facts.get(name, 0)
        return value if isinstance(value, list) else [value] * attentions

    scale = 4 if KV_CACHES[kv_cache] <= 1 else 0  # bytes, for each head and position
    sizes = zip(
        layers("num_key_value_heads"), layers("head_dim"), layers("sliding_window"), strict=True
    )
    caches = [
        Cache(int(2 * heads * (head_dim * KV_CACHES[kv_cache] + scale)), window)
        for heads, head_dim, window in sizes
    ]
    return tuple(caches[: attentions - facts.get("num_kv_shared_layers", 0)])
