"""A model of transformers' as OpenAI and whisper.cpp store it: one file."""

import base64
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

# Tokens by rank: all bytes, and some that are merged of them.
RANKED = [*(bytes([value]) for value in range(256)), b" t", b"he", b" the"]
_PLACES = {
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln",
    "self_attn": "attn",
    "encoder_attn": "cross_attn",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "layers": "blocks",
    "embed_tokens": "token_embedding",
}


def _name(name: str) -> str:
    parts = name.removeprefix("model.").split(".")
    if parts[1:] == ["embed_positions", "weight"]:
        return f"{parts[0]}.positional_embedding"
    if parts[1] == "layer_norm":
        parts[1] = "ln_post" if parts[0] == "encoder" else "ln"
    return ".".join(_PLACES.get(part, part) for part in parts)


def state_of(model: Any) -> dict[str, Tensor]:
    return {_name(k): v for k, v in model.state_dict().items() if k != "proj_out.weight"}


def dims_of(config: transformers.WhisperConfig) -> dict[str, int]:
    return {
        "n_vocab": config.vocab_size,
        "n_audio_ctx": config.max_source_positions,
        "n_audio_state": config.d_model,
        "n_audio_head": config.encoder_attention_heads,
        "n_audio_layer": config.encoder_layers,
        "n_text_ctx": config.max_target_positions,
        "n_text_state": config.d_model,
        "n_text_head": config.decoder_attention_heads,
        "n_text_layer": config.decoder_layers,
        "n_mels": config.num_mel_bins,
    }


def write_openai(path: Path, model: Any) -> None:
    torch.save({"dims": dims_of(model.config), "model_state_dict": state_of(model)}, path)


def write_ranks(path: Path) -> None:
    lines = [b"%s %d\n" % (base64.b64encode(one), at) for at, one in enumerate(RANKED)]
    path.write_bytes(b"".join(lines))


def ggml(model: Any, halves: bool = False, kind: int | None = None) -> bytes:
    """
    Args:
        halves: matrices are float16.
        kind: what the file says of their type; None: the truth.
    """
    filters = transformers.WhisperFeatureExtractor().mel_filters.T.astype("<f4")
    data = b"lmgg" + struct.pack("<11i", *dims_of(model.config).values(), int(halves))
    data += struct.pack("<2i", *filters.shape) + np.ascontiguousarray(filters).tobytes()
    data += struct.pack("<i", len(RANKED))
    data += b"".join(struct.pack("<i", len(token)) + token for token in RANKED)
    for name, tensor in state_of(model).items():
        if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
            tensor = tensor[:, None]
        half = halves and name.endswith("weight") and tensor.dim() > 1
        type = int(half) if kind is None else kind
        array = tensor.numpy().astype("<f2" if half else "<f4")
        data += struct.pack("<3i", array.ndim, len(name), type)
        data += struct.pack(f"<{array.ndim}i", *array.shape[::-1]) + name.encode()
        data += array.tobytes()
    return data
