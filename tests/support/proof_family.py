"""A family that nobody ships, in one file: what adding an architecture takes.

Four norms a layer, GELU(tanh)-GLU, an embedding scale, a window in two of three layers, two rotary
bases, a soft cap on logits, and norms stored as their distance from 1.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from exporter.models.config import attention, decoder, mlp
from exporter.models.decoder import CausalLM
from exporter.models.family import Family
from exporter.models.fields import count, positive
from exporter.models.spec import DecoderSpec, LayerSpec, Norms, RotarySpec
from exporter.models.tensor_layout import Stored

CONFIG: dict[str, Any] = {
    "model_type": "proof",
    "vocab_size": 4096,
    "hidden_size": 72,
    "intermediate_size": 100,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "hidden_act": "gelu_pytorch_tanh",
    "max_position_embeddings": 64,
    "sliding_window": 9,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rms_norm_eps": 1e-6,
    "final_logit_softcapping": 5.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_AROUND_ATTENTION = Norms("input_layernorm", "post_attention_layernorm")
_AROUND_MLP = Norms("pre_feedforward_layernorm", "post_feedforward_layernorm")


def spec(fields: Mapping[str, Any]) -> DecoderSpec:
    far = attention(fields)
    nearby = RotarySpec(far.head_dim, positive(fields, "rope_local_base_freq"))
    near = replace(far, window=count(fields, "sliding_window"), rotary=nearby)
    layers = [
        LayerSpec(near if index % 3 < 2 else far, mlp(fields), _AROUND_ATTENTION, _AROUND_MLP)
        for index in range(count(fields, "num_hidden_layers"))
    ]
    plain = decoder(fields, layers)
    cap = positive(fields, "final_logit_softcapping")
    return replace(plain, embedding_scale=plain.hidden_size**0.5, logit_soft_cap=cap)


def stored(spec: DecoderSpec, name: str) -> Stored:
    kept = Stored((name,))
    return kept.plus_one() if name.endswith("norm.weight") else kept


PROOF = Family("proof", spec, stored)


def write_checkpoint(directory: Path) -> Path:
    """A random model of CONFIG as its checkpoint would be, without a tokenizer."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: (0.3 if parameter.dim() == 1 else 0.12)
        * torch.randn(parameter.shape, generator=generator)
        for name, parameter in CausalLM(spec(CONFIG)).named_parameters()
    }
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    return directory
