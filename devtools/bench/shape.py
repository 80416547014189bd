"""What a model's dimensions say about the work it makes: bytes to read, products to compute."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from devtools.errors import DevtoolsError

KV_CACHES = {"float16": 2, "float32": 4, "int8": 1}  # bytes of a number


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

    @property
    def linear_weights(self) -> int:
        """Weights of the decoder layers' matrices: each is used once for every token."""
        heads = 2 * self.num_attention_heads + 2 * self.num_key_value_heads
        layer = self.hidden_size * (heads * self.head_dim + 3 * self.intermediate_size)
        return self.num_hidden_layers * layer

    @property
    def head_weights(self) -> int:
        """Weights of `lm_head`: used for the last token of a call."""
        return self.hidden_size * self.vocab_size

    def prefill_operations(self, tokens: int) -> int:
        """Multiplications and additions of the matrix products of one prefill; attention's are
        not among them."""
        return 2 * (self.linear_weights * tokens + self.head_weights)

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


SHAPE_FIELDS = tuple(field.name for field in fields(Shape))


@dataclass(frozen=True)
class Model:
    """What a `.pte` says of itself when it is loaded.

    Attributes:
        name: the checkpoint's.
        delegate: what runs it.
        scheme: how its weights are stored: rtn4, gptq4, rtn8 or none.
        group_size: inputs that share a 4-bit scale.
        head_bits: bits of the embedding and the head.
        runs_with: what our own delegate reports that it runs with, without the threads; "" for
            every other delegate.
        file_bytes: the whole file.
        weight_bytes_per_token: what one decoded token reads of the weights.
        cache_bytes_per_position: what it reads of the key/value cache for each position before it.
        windows: of each layer, the positions that it looks back at; 0 for all.
    """

    name: str
    delegate: str
    scheme: str
    group_size: int
    head_bits: int
    runs_with: str
    file_bytes: int
    max_seq_len: int
    max_context_len: int
    weight_bytes_per_token: int
    cache_bytes_per_position: int
    shape: Shape
    windows: tuple[int, ...]

    def bytes_per_token(self, depth: float) -> float:
        """Bytes that must come from memory for a token at that depth."""
        positions = sum(min(depth, window or depth) for window in self.windows)
        share = positions / len(self.windows)
        return self.weight_bytes_per_token + share * self.cache_bytes_per_position


def describe_model(
    said: dict[str, Any], path: str, kv_cache: str, adapter: str | None = None
) -> Model:
    """The model behind the first line of build/bench.

    Args:
        kv_cache: the type that our own delegate was told to keep keys and values in.
        adapter: the one of the file's that it runs with.

    Raises:
        DevtoolsError: its report is missing or has no full shape, or its layers differ in size.
    """
    report = said["report"]
    if report is None or not set(SHAPE_FIELDS) <= report["model"].keys():
        raise DevtoolsError(
            f"{path} does not say what shape its model has: export it again with python -m "
            "exporter."
        )
    facts, quantization = report["model"], report["quantization"]
    uneven = [name for name in SHAPE_FIELDS if isinstance(facts[name], list)]
    if uneven:
        raise DevtoolsError(
            f"{path} has layers of several sizes ({uneven[0]} {facts[uneven[0]]}), whose work this "
            "does not count; name a model whose layers are alike."
        )
    shape = Shape(**{name: facts[name] for name in SHAPE_FIELDS})
    delegate = report["delegation"]["delegate"]
    floats = quantization["scheme"] == "none"
    # Our own delegate stores a tied embedding as the head alone; every other has a table of its
    # own beside the head, of which a token reads one row.
    shared = delegate == "cpu" and shape.tie_word_embeddings
    table = 0 if shared else quantization["embedding_bytes"]
    weights = round(facts["parameters"] * quantization["bits_per_weight"] / 8)
    weights += sum(a["bytes"] for a in facts.get("adapters", ()) if a["name"] == adapter)
    if delegate != "cpu" or (kv_cache == "default" and floats):
        kv_cache = "float32"
    elif kv_cache == "default":
        kv_cache = "float16"
    window = facts.get("sliding_window", 0)
    windows = window if isinstance(window, list) else [window] * shape.num_hidden_layers
    vectors = 2 * shape.num_hidden_layers * shape.num_key_value_heads
    scale = 4 if kv_cache == "int8" else 0  # bytes, for each head and position
    return Model(
        name=facts["name"],
        delegate=delegate,
        scheme=quantization["scheme"],
        group_size=quantization["group_size"],
        head_bits=quantization["head_bits"],
        runs_with=", ".join(part for part in said["runs_with"].split(", ") if "thread" not in part),
        file_bytes=said["file_bytes"],
        max_seq_len=said["max_seq_len"],
        max_context_len=said["max_context_len"],
        weight_bytes_per_token=weights - table,
        cache_bytes_per_position=vectors * (shape.head_dim * KV_CACHES[kv_cache] + scale),
        shape=shape,
        windows=tuple(windows),
    )
