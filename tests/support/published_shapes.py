"""The shapes of published hybrids and experts with random weights, for measuring time and memory.

    PYTHONPATH=.:tests python tests/support/published_shapes.py NAME DIR [--llama-cpp SOURCE]

writes a checkpoint into DIR, one tensor at a time in memory. With llama.cpp's source, its own
converter then writes the same weights to DIR/floats.gguf, for llama-quantize. The vocabulary of
both is the bytes, and words without meaning.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.published_experts import GPT_OSS
from support.published_hybrids import HYBRIDS
from transformers import AutoConfig, AutoModelForCausalLM

from devtools.bench.gguf_model import add_words
from devtools.bench.random_weights import byte_tokenizer, draw
from exporter.catalogue.published_hybrids import HYBRIDS as PRESETS

_DRAWN = 1 << 24  # numbers, which every matrix repeats from another one on
_QWEN35_08B = {**HYBRIDS["Qwen/Qwen3.5-0.8B"]["text_config"], "mtp_num_hidden_layers": 0}
_GEMMA4_E2B = {name: fields for name, fields, _ in PRESETS}["gemma4-e2b"]
_LFM25_ATTENTION = (2, 5, 8, 10, 12, 14)
SHAPES: dict[str, dict[str, Any]] = {
    "qwen3.5-0.8b": _QWEN35_08B,
    "qwen3.5-2b": {**_QWEN35_08B, "hidden_size": 2048, "intermediate_size": 6144},
    "lfm2.5-1.2b": {
        "model_type": "lfm2",
        "hidden_size": 2048,
        "block_ff_dim": 12288,
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "layer_types": [
            "full_attention" if index in _LFM25_ATTENTION else "conv" for index in range(16)
        ],
        "conv_L_cache": 3,
        "conv_bias": False,
        "norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "vocab_size": 65536,
        "max_position_embeddings": 128000,
        "tie_word_embeddings": True,
    },
    "gemma4-e2b": {**_GEMMA4_E2B, "tie_word_embeddings": True},
    "gpt-oss-2-layers": {
        **{name: value for name, value in GPT_OSS.items() if name != "quantization_config"},
        "num_hidden_layers": 2,
        "layer_types": GPT_OSS["layer_types"][:2],
    },
}


def write_checkpoint(directory: Path, fields: dict[str, Any]) -> None:
    """Matrices of N(0, 0.02^2) and vectors of ones in bfloat16, with the names of transformers.

    Where scores of attention are not scaled, as in Gemma 4, the norm of the queries scales them:
    with ones, every head would take one position alone, and the last bit decide which.
    """
    no_ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = AutoConfig.for_model(**{**fields, **no_ends})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    (directory / "tokenizer.json").write_text(json.dumps(byte_tokenizer()), encoding="utf-8")
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    shapes = {
        name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied
    }
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(0)
    drawn, ones = _bfloat16(draw((1, _DRAWN), rng)[0]), _bfloat16(np.ones(_DRAWN, np.float32))
    with open(directory / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            left = int(np.prod(shape))
            numbers, first = (ones, 0) if len(shape) < 2 else (drawn, int(rng.integers(_DRAWN)))
            if name.endswith("q_norm.weight") and fields["model_type"] == "gemma4_text":
                numbers = _bfloat16(np.full(left, left**-0.5, np.float32))
            while left > 0:
                piece = numbers[first : first + left]
                file.write(piece.tobytes())
                left, first = left - len(piece), 0


def _bfloat16(numbers: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers."""
    return (numbers.view(np.uint32) >> 16).astype("<u2")


def write_gguf(directory: Path, source: Path) -> None:
    """The checkpoint by llama.cpp's own converter, in float16.

    Of Gemma's embedding it keeps as many rows as tokenizer.json has words: it is given all of them.
    """
    sys.path.insert(0, str(source))
    import convert_hf_to_gguf
    from conversion import get_model_class

    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))

    def set_vocab(model: Any) -> None:
        add_words(model.gguf_writer, config["vocab_size"])

    get_model_class(config["architectures"][0]).set_vocab = set_vocab
    out = directory / "floats.gguf"
    words = {f"word {index}": index for index in range(config["vocab_size"])}
    tokenizer = {"model": {"vocab": words}, "added_tokens": []}
    with tempfile.TemporaryDirectory() as given:
        for name in ("config.json", "model.safetensors"):
            (Path(given) / name).symlink_to((directory / name).resolve())
        (Path(given) / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        sys.argv = ["convert_hf_to_gguf.py", given, "--outtype", "f16", "--outfile", str(out)]
        convert_hf_to_gguf.main()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--llama-cpp", type=Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    write_checkpoint(options.directory, SHAPES[options.name])
    if options.llama_cpp is not None:
        write_gguf(options.directory, options.llama_cpp)


if __name__ == "__main__":
    main()
