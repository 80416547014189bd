"""GGUF files of a shape with random weights, quantized by the rival's own tool."""

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from devtools.bench.random_weights import LETTERS, draw, tensors
from devtools.bench.shape import Shape
from devtools.errors import BadRequest, DevtoolsError

if TYPE_CHECKING:
    from gguf import GGUFWriter

PURE = ("Q4_0",)  # types that are given to every tensor; others mix as their tool does

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(out: Path, shape: Shape, kind: str, quantizer: Path) -> None:
    """Writes a Llama of that shape as GGUF.

    Args:
        kind: a type that llama-quantize knows, as Q4_0 or Q4_K_M.
        quantizer: llama-quantize.

    Raises:
        BadRequest: the gguf package is missing.
        DevtoolsError: llama-quantize failed.
    """
    with tempfile.TemporaryDirectory(dir=out.parent) as directory:
        floats, finished = Path(directory) / "floats.gguf", Path(directory) / "finished.gguf"
        write_floats(floats, shape)
        pure = ["--pure"] if kind in PURE else []
        command: list[str | Path] = [quantizer, *pure, floats, finished, kind]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0 or not finished.is_file():
            output = (result.stdout + result.stderr).strip().splitlines()
            raise DevtoolsError(
                f"{quantizer} could not make {kind} of a model of this shape: "
                f"{output[-1] if output else f'exit code {result.returncode}'}"
            )
        finished.replace(out)


def write_floats(out: Path, shape: Shape) -> None:
    """Writes a Llama of random float16 weights, one tensor at a time in memory.

    Raises:
        BadRequest: the gguf package is missing.
    """
    try:
        import gguf
    except ImportError:
        raise BadRequest(
            "The package gguf is missing, and llama-bench needs a GGUF file of this shape: "
            "pip install gguf."
        ) from None
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_vocab_size(shape.vocab_size)
    writer.add_context_length(131072)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.num_hidden_layers)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.num_attention_heads)
    writer.add_head_count_kv(shape.num_key_value_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_words(writer, shape.vocab_size)
    kinds: dict[int, np.dtype] = {
        1: np.dtype("f4"),
        2: np.dtype("f2"),
    }  # by dimensions, as llama.cpp's are
    for name, dimensions in tensors(shape):
        kind = kinds[len(dimensions)]
        size = int(np.prod(dimensions)) * kind.itemsize
        writer.add_tensor_info(gguf_name(name), dimensions, kind, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(0)
    for _, dimensions in tensors(shape):
        writer.write_tensor_data(draw(dimensions, rng).astype(kinds[len(dimensions)]))
    writer.close()


def add_words(writer: "GGUFWriter", count: int) -> None:
    """A vocabulary, without which llama-bench draws no tokens: its own byte tokens, then words."""
    from gguf import TokenType

    words = [f"<0x{index:02X}>" if index < LETTERS else f"w{index}" for index in range(count)]
    kinds = [TokenType.BYTE if index < LETTERS else TokenType.NORMAL for index in range(count)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * count)
    writer.add_token_types(kinds)
    writer.add_add_bos_token(False)


def gguf_name(name: str) -> str:
    """model.layers.3.self_attn.q_proj.weight -> blk.3.attn_q.weight"""
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return _NAMES[stem] + ".weight"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_NAMES[part]}.weight"
