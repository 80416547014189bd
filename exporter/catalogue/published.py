"""Shapes of models as their authors published them, and the hub ids that hold their weights."""

from typing import Any

from exporter.catalogue.published_hybrids import HYBRIDS

Fields = dict[str, Any]  # of a config.json

_LLAMA3_ROPE: Fields = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_LLAMA2_7B: Fields = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3_8B: Fields = {
    **_LLAMA2_7B,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
_LLAMA31_8B: Fields = {
    **_LLAMA3_8B,
    "max_position_embeddings": 131072,
    "rope_scaling": {**_LLAMA3_ROPE, "factor": 8.0},
}
_LLAMA31_70B: Fields = {
    **_LLAMA31_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
_LLAMA32_1B: Fields = {
    **_LLAMA31_8B,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "rope_scaling": {**_LLAMA3_ROPE, "factor": 32.0},
    "tie_word_embeddings": True,
}
_LLAMA32_3B: Fields = {
    **_LLAMA32_1B,
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "head_dim": 128,
}
_MISTRAL_7B: Fields = {
    **_LLAMA2_7B,
    "model_type": "mistral",
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "vocab_size": 32768,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "sliding_window": None,
}
_QWEN25_05B: Fields = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
}
_QWEN25_15B: Fields = {
    **_QWEN25_05B,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}
_QWEN25_7B: Fields = {
    **_QWEN25_15B,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
_QWEN3_06B: Fields = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": [151645, 151643],
}
_QWEN3_17B: Fields = {**_QWEN3_06B, "hidden_size": 2048, "intermediate_size": 6144}
_QWEN3_4B: Fields = {
    **_QWEN3_06B,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
}
_SMOLLM2_135M: Fields = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_SMOLLM2_360M: Fields = {
    **_SMOLLM2_135M,
    "hidden_size": 960,
    "intermediate_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
}
_SMOLLM2_17B: Fields = {
    **_SMOLLM2_135M,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "rope_theta": 130000.0,
}
_SMOLLM3_3B: Fields = {
    "model_type": "smollm3",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 128000,
    "eos_token_id": 128012,
}
_PHI3_MINI: Fields = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32064,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "sliding_window": 2047,
    "bos_token_id": 1,
    "eos_token_id": 32000,
}
_PHI4_MINI_LONG = (
    "1 1.118320672 1.250641126 1.398617824 1.564103225 1.74916897 1.956131817 2.187582649 "
    "2.446418898 2.735880826 3.059592084 3.421605075 3.826451687 4.279200023 4.785517845 "
    "5.351743533 5.984965424 6.693110555 7.485043894 8.370679318 9.36110372 10.4687158 "
    "11.70738129 13.09260651 14.64173252 16.37415215 18.31155283 20.47818807 22.90118105 "
    "25.61086418 28.64115884 32.03 32.1 32.13 32.23 32.6 32.61 32.64 32.66 32.7 32.71 32.93 "
    "32.97 33.28 33.49 33.5 44.16 47.77"
)
_PHI4_MINI: Fields = {
    **_PHI3_MINI,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "vocab_size": 200064,
    "max_position_embeddings": 131072,
    "partial_rotary_factor": 0.75,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0] * 48,
        "long_factor": [float(factor) for factor in _PHI4_MINI_LONG.split()],
    },
    "sliding_window": 262144,
    "tie_word_embeddings": True,
    "bos_token_id": 199999,
    "eos_token_id": 199999,
}
_GRANITE33_2B: Fields = {
    "model_type": "granite",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 49159,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000000.0,
    "attention_multiplier": 0.015625,
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "logits_scaling": 8.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_GRANITE4_MICRO: Fields = {
    **_GRANITE33_2B,
    "model_type": "granitemoehybrid",
    "hidden_size": 2560,
    "shared_intermediate_size": 8192,
    "layer_types": ["attention"] * 40,
    "num_attention_heads": 40,
    "num_local_experts": 0,
    "position_embedding_type": "rope",
    "vocab_size": 100352,
    "logits_scaling": 10.0,
    "bos_token_id": 100257,
    "eos_token_id": 100257,
}
_OLMO2_1B: Fields = {
    "model_type": "olmo2",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 100352,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0,
    "eos_token_id": 100257,
}
_OLMO3_7B: Fields = {
    **_OLMO2_1B,
    "model_type": "olmo3",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 100278,
    "max_position_embeddings": 65536,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 8.0,
        "attention_factor": 1.2079441541679836,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 8192,
    },
    "sliding_window": 4096,
}
_GEMMA3_270M: Fields = {
    "model_type": "gemma3_text",
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "vocab_size": 262144,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
}
_GEMMA3_1B: Fields = {
    **_GEMMA3_270M,
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "num_hidden_layers": 26,
    "eos_token_id": [1, 106],
}
_GEMMA3_4B: Fields = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 34,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "sliding_window": 1024,
    "eos_token_id": [1, 106],
}
_EXAONE4_12B: Fields = {
    "model_type": "exaone4",
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "num_hidden_layers": 30,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 102400,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "rope_scaling": {**_LLAMA3_ROPE, "factor": 16.0},
    "sliding_window": None,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 361,
}
_MINISTRAL3_3B: Fields = {
    "model_type": "ministral3",
    "hidden_size": 3072,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000000.0,
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1,
    },
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# name, config, hub id
SHAPES: tuple[tuple[str, Fields, str], ...] = (
    ("llama2-7b", _LLAMA2_7B, "meta-llama/Llama-2-7b-hf"),
    ("llama3-8b", _LLAMA3_8B, "meta-llama/Meta-Llama-3-8B"),
    ("llama3.1-8b", _LLAMA31_8B, "meta-llama/Llama-3.1-8B"),
    ("llama3.1-70b", _LLAMA31_70B, "meta-llama/Llama-3.1-70B"),
    ("llama3.2-1b", _LLAMA32_1B, "meta-llama/Llama-3.2-1B"),
    ("llama3.2-3b", _LLAMA32_3B, "meta-llama/Llama-3.2-3B"),
    (
        "llama3.3-70b",
        {**_LLAMA31_70B, "eos_token_id": [128001, 128008, 128009]},
        "meta-llama/Llama-3.3-70B-Instruct",
    ),
    ("mistral-7b", _MISTRAL_7B, "mistralai/Mistral-7B-v0.3"),
    ("qwen2.5-0.5b", _QWEN25_05B, "Qwen/Qwen2.5-0.5B"),
    ("qwen2.5-1.5b", _QWEN25_15B, "Qwen/Qwen2.5-1.5B"),
    ("qwen2.5-7b", _QWEN25_7B, "Qwen/Qwen2.5-7B"),
    ("qwen3-0.6b", _QWEN3_06B, "Qwen/Qwen3-0.6B"),
    ("qwen3-1.7b", _QWEN3_17B, "Qwen/Qwen3-1.7B"),
    ("qwen3-4b", _QWEN3_4B, "Qwen/Qwen3-4B"),
    ("smollm2-135m", _SMOLLM2_135M, "HuggingFaceTB/SmolLM2-135M"),
    ("smollm2-360m", _SMOLLM2_360M, "HuggingFaceTB/SmolLM2-360M"),
    ("smollm2-1.7b", _SMOLLM2_17B, "HuggingFaceTB/SmolLM2-1.7B"),
    ("smollm3-3b", _SMOLLM3_3B, "HuggingFaceTB/SmolLM3-3B"),
    ("phi3-mini", _PHI3_MINI, "microsoft/Phi-3-mini-4k-instruct"),
    ("phi4-mini", _PHI4_MINI, "microsoft/Phi-4-mini-instruct"),
    ("granite3.3-2b", _GRANITE33_2B, "ibm-granite/granite-3.3-2b-instruct"),
    ("granite4-micro", _GRANITE4_MICRO, "ibm-granite/granite-4.0-micro"),
    ("olmo2-1b", _OLMO2_1B, "allenai/OLMo-2-0425-1B"),
    ("olmo3-7b", _OLMO3_7B, "allenai/Olmo-3-7B-Instruct"),
    ("gemma3-270m", _GEMMA3_270M, "google/gemma-3-270m-it"),
    ("gemma3-1b", _GEMMA3_1B, "google/gemma-3-1b-it"),
    ("gemma3-4b", _GEMMA3_4B, "google/gemma-3-4b-it"),
    ("exaone4-1.2b", _EXAONE4_12B, "LGAI-EXAONE/EXAONE-4.0-1.2B"),
    ("ministral3-3b", _MINISTRAL3_3B, "mistralai/Ministral-3-3B-Instruct-2512-BF16"),
    *HYBRIDS,
)
