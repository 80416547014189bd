"""Checkpoints of random weights: what a model's time and memory depend on is its shape alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from devtools.bench.shape import Shape

SPREAD = np.float32(0.02)
LETTERS = 256  # tokens of the byte alphabet


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of a Llama, by the Hugging Face names."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    yield "model.embed_tokens.weight", (shape.vocab_size, hidden)
    for layer in range(shape.num_hidden_layers):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "self_attn.q_proj.weight", (queries, hidden)
        yield at + "self_attn.k_proj.weight", (keys, hidden)
        yield at + "self_attn.v_proj.weight", (keys, hidden)
        yield at + "self_attn.o_proj.weight", (hidden, queries)
        yield at + "post_attention_layernorm.weight", (hidden,)
        yield at + "mlp.gate_proj.weight", (inner, hidden)
        yield at + "mlp.up_proj.weight", (inner, hidden)
        yield at + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    if not shape.tie_word_embeddings:
        yield "lm_head.weight", (shape.vocab_size, hidden)


def draw(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """float32: matrices N(0, 0.02^2), vectors (norm weights) ones."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return rng.standard_normal(shape, dtype=np.float32) * SPREAD


def write_checkpoint(directory: Path, shape: Shape, context: int) -> None:
    """Writes a Hugging Face checkpoint in bfloat16: config, weights, and a tokenizer of bytes.

    One tensor at a time is in memory.

    Args:
        context: max_position_embeddings.
    """
    config = {
        **shape.to_dict(),
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "max_position_embeddings": context,
        "torch_dtype": "bfloat16",
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "tokenizer.json").write_text(json.dumps(byte_tokenizer()), encoding="utf-8")
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dimensions in tensors(shape):
        start, end = end, end + 2 * int(np.prod(dimensions))
        header[name] = {
            "dtype": "BF16",
            "shape": list(dimensions),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(0)
    with open(directory / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, dimensions in tensors(shape):
            high_halves = draw(dimensions, rng).view(np.uint32) >> 16
            file.write(high_halves.astype("<u2").tobytes())


def byte_tokenizer() -> dict[str, object]:
    """A Hugging Face tokenizer of the 256 bytes alone, in GPT-2's alphabet of printable letters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(LETTERS) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters.update({byte: chr(LETTERS + index) for index, byte in enumerate(others)})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "trim_offsets": True},
        "post_processor": None,
        "decoder": {**byte_level, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letters[byte]: byte for byte in range(LETTERS)},
            "merges": [],
        },
    }
