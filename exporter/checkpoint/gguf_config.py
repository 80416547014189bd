"""The metadata of a GGUF file in the words of a Hugging Face `config.json`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from exporter.checkpoint import gguf_apertus, gguf_delta, gguf_gemma4, gguf_lfm2
from exporter.checkpoint.gguf_keys import (
    LAYER_NORM_EPS,
    RMS_NORM_EPS,
    check_keys,
    fields_of_absent,
)
from exporter.checkpoint.gguf_rope import TEMPERATURE, rope_scaling
from exporter.checkpoint.gguf_windows import window_fields
from exporter.errors import ExportError

EMBEDDING = "token_embd.weight"
HEAD = "output.weight"
_COMMON = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": RMS_NORM_EPS,
    "rope_theta": "rope.freq_base",
    "sliding_window": "attention.sliding_window",
    "original_max_position_embeddings": "rope.scaling.original_context_length",
}
_BIASES = ("blk.0.attn_q.bias", "blk.0.attn_qkv.bias")
Metadata = Callable[[str], Any]
Fields = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Architecture:
    """What one `general.architecture` means.

    Attributes:
        model_type: its name in config.json.
        fields: what it has beside the common fields: config.json's name to the metadata's, behind
            the architecture's name and a dot.
        pairs_rotate: whether rows of queries and keys are in the order of rotated pairs, and not of
            halves as in Hugging Face's files.
        norms_from_one: whether the family's checkpoints store norms as distances from 1, and GGUF
            does not.
        names: of tensors, where they differ from other architectures'.
        computed: returns fields of config.json that several of the metadata's make, from a function
            that reads the metadata behind the architecture's name and a dot, the fields so far, the
            shapes of the stored tensors, and those with rotary factors.
        larger_heads: the number of layers of the one model that scales queries by hidden_size /
            heads instead of the head's size.
        constants: fields of config.json that no file holds and every published model has.
        yarn: likewise, of the rotary parameters of YaRN; with `mscale`, a file may also hold its
            counterpart.
        with_experts: what it means of files that have experts; None: the same.
        tiled_values: whether heads of values of a delta rule that one key head serves are apart.
    """

    model_type: str
    fields: Mapping[str, str] = field(default_factory=dict)
    pairs_rotate: bool = False
    norms_from_one: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    computed: Callable[[Metadata, Fields, Shapes, Mapping[str, Tensor]], Fields] | None = None
    larger_heads: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    yarn: Mapping[str, Any] = field(default_factory=dict)
    with_experts: "Architecture | None" = None
    tiled_values: bool = False


def _neox(
    stored: Metadata, so_far: Fields, shapes: Shapes, factors: Mapping[str, Tensor]
) -> Fields:
    """Returns what GPT-NeoX calls otherwise; its rotary base is not always stored."""
    turned, theta = stored("rope.dimension_count"), stored("rope.freq_base")
    share = {} if turned is None else {"rotary_pct": turned / (_head_dim(so_far) or 1)}
    return {**share, "rotary_emb_base": 10000.0 if theta is None else theta}


def _whether(**tensors: str) -> Callable[[Metadata, Fields, Shapes, Mapping[str, Tensor]], Fields]:
    """Returns a function that reads whether tensors of the first layer are stored, as fields."""
    return lambda stored, so_far, shapes, factors: {
        field: f"blk.0.{tensor}" in shapes for field, tensor in tensors.items()
    }


def _bias(field: str) -> Callable[[Metadata, Fields, Shapes, Mapping[str, Tensor]], Fields]:
    """Returns a function that reads whether queries have a bias, as a field of that name."""
    return _whether(**{field: "attn_q.bias"})


_GEMMA_NAMES = {"ffn_norm": "pre_feedforward_layernorm"}
_GRANITE = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
_GEMMA2_CAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_GEMMA3 = {
    "rope_local_base_freq": "rope.freq_base_swa",
    "final_logit_softcapping": "final_logit_softcapping",
}
_QWEN3_MOE = {
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}
_GPT_OSS = {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"}
_COHERE = {"layer_norm_eps": LAYER_NORM_EPS, "logit_scale": "logit_scale"}
_SHARED = {"shared_expert_intermediate_size": "expert_shared_feed_forward_length"}
_QWEN2_MOE_NAMES = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{f"ffn_{x}_shexp": f"mlp.shared_expert.{x}_proj" for x in ("gate", "up", "down")},
}
_GLM4_NAMES = {
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
    "ffn_up": "mlp.gate_up_proj",
}
_PHI_NAMES = {
    "output_norm": "model.final_layernorm",
    "attn_output": "self_attn.dense",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
}
_STARCODER_NAMES = {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
_NEOX = {"layer_norm_eps": LAYER_NORM_EPS, "use_parallel_residual": "use_parallel_residual"}
_LFM2_MOE = {**gguf_lfm2.FIELDS, **_QWEN3_MOE, "num_dense_layers": "leading_dense_block_count"}
_LFM2_MOE_NAMES = {
    "ffn_gate_inp": "feed_forward.gate",
    "exp_probs_b.bias": "feed_forward.expert_bias",
}
_QWEN3_NEXT_NAMES = {"ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"}
_WHOLE_HEADS = {"partial_rotary_factor": 1.0}  # where a file does not say otherwise
ARCHITECTURES = {
    "apertus": Architecture("apertus", names=gguf_apertus.NAMES, computed=gguf_apertus.computed),
    "arcee": Architecture("arcee", pairs_rotate=True),
    "chatglm": Architecture("glm", names={"ffn_up": "mlp.gate_up_proj"}, constants=_WHOLE_HEADS),
    "cohere2": Architecture("cohere2", _COHERE),
    "command-r": Architecture(
        "cohere", _COHERE, computed=_whether(use_qk_norm="attn_q_norm.weight")
    ),
    "ernie4_5": Architecture("ernie4_5", computed=_bias("use_bias")),
    "exaone4": Architecture("exaone4"),
    "gemma": Architecture("gemma", norms_from_one=True),
    "gemma2": Architecture("gemma2", _GEMMA2_CAPS, False, True, _GEMMA_NAMES, larger_heads=46),
    "gemma3": Architecture("gemma3_text", _GEMMA3, False, True, _GEMMA_NAMES, larger_heads=62),
    "gemma4": Architecture(
        "gemma4_text",
        gguf_gemma4.FIELDS,
        names={**_GEMMA_NAMES, **gguf_gemma4.NAMES},
        computed=gguf_gemma4.computed,
    ),
    "glm4": Architecture("glm4", names=_GLM4_NAMES, constants=_WHOLE_HEADS),
    "gpt-oss": Architecture(
        "gpt_oss",
        _GPT_OSS,
        names={"ffn_gate_inp": "mlp.router"},
    ),
    "gptneox": Architecture(  # whose GELU is approximate in llama.cpp
        "gpt_neox", _NEOX, computed=_neox, constants={"hidden_act": "gelu_new"}
    ),
    "granite": Architecture("granite", _GRANITE, True),
    "granitemoe": Architecture(
        "granitemoe", {**_GRANITE, **_GPT_OSS}, True, names={"ffn_gate_inp": "mlp.router"}
    ),
    "hunyuan-dense": Architecture("hunyuan_v1_dense"),
    "lfm2": Architecture(
        "lfm2", gguf_lfm2.FIELDS, names=gguf_lfm2.NAMES, computed=gguf_lfm2.computed
    ),
    "lfm2moe": Architecture(
        "lfm2_moe",
        _LFM2_MOE,
        names={**gguf_lfm2.NAMES, **_LFM2_MOE_NAMES},
        computed=gguf_lfm2.computed,
        constants={"norm_topk_prob": True, "routed_scaling_factor": 1.0},
    ),
    "llama": Architecture(
        "llama",
        pairs_rotate=True,
        with_experts=Architecture("mixtral", _GPT_OSS, True, names={"ffn_gate_inp": "mlp.gate"}),
    ),
    "mistral3": Architecture("mistral", pairs_rotate=True, yarn={"mscale": 1.0}),
    "nemotron": Architecture(
        "nemotron", {"norm_eps": LAYER_NORM_EPS}, norms_from_one=True, constants=_WHOLE_HEADS
    ),
    "olmo2": Architecture("olmo2"),
    "olmoe": Architecture("olmoe", _QWEN3_MOE, names={"ffn_gate_inp": "mlp.gate"}),
    "phi2": Architecture(
        "phi", {"layer_norm_eps": LAYER_NORM_EPS}, names=_PHI_NAMES, constants=_WHOLE_HEADS
    ),
    "phi3": Architecture("phi3", names={"ffn_up": "mlp.gate_up_proj"}),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture(
        "qwen2_moe",
        {**_QWEN3_MOE, **_SHARED},
        names=_QWEN2_MOE_NAMES,
        computed=_bias("qkv_bias"),
    ),
    "qwen3": Architecture("qwen3"),
    "qwen3moe": Architecture(
        "qwen3_moe",
        _QWEN3_MOE,
        names={"ffn_gate_inp": "mlp.gate"},
        constants={"norm_topk_prob": True},
    ),
    "qwen35": Architecture(
        "qwen3_5_text",
        norms_from_one=True,
        names=gguf_delta.NAMES,
        computed=gguf_delta.computed,
        tiled_values=True,
    ),
    "qwen3next": Architecture(
        "qwen3_next",
        {**_QWEN3_MOE, **_SHARED},
        norms_from_one=True,
        names={**gguf_delta.NAMES, **_QWEN2_MOE_NAMES, **_QWEN3_NEXT_NAMES},
        computed=gguf_delta.computed,
        constants={"norm_topk_prob": True},
    ),
    "seed_oss": Architecture("seed_oss"),
    "smollm3": Architecture("smollm3", pairs_rotate=True),
    "stablelm": Architecture(
        "stablelm",
        {"layer_norm_eps": LAYER_NORM_EPS, "use_parallel_residual": "use_parallel_residual"},
        computed=_whether(use_qkv_bias="attn_q.bias", qk_layernorm="attn_q_norm.weight"),
        constants=_WHOLE_HEADS,
    ),
    "starcoder2": Architecture(
        "starcoder2",
        {"norm_epsilon": LAYER_NORM_EPS},
        names=_STARCODER_NAMES,
        computed=_bias("use_bias"),
    ),
}


def architecture(metadata: Mapping[str, Any]) -> Architecture:
    """What the file says it holds.

    Raises:
        ExportError: nothing that is read, or parts of a model that are not.
    """
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ExportError(
            f"general.architecture {name!r} is not read from GGUF files; "
            f"{', '.join(ARCHITECTURES)} are: take the model's safetensors instead."
        )
    kind = ARCHITECTURES[name]
    if metadata.get(f"{name}.expert_count") and kind.with_experts is not None:
        kind = kind.with_experts
    if metadata.get(f"{name}.expert_count") and "expert_count" not in kind.fields.values():
        raise ExportError(
            f"{name}.expert_count is {metadata[f'{name}.expert_count']!r}; mixtures of experts are "
            "not built."
        )
    return kind


def config_fields(
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    rope_factors: Mapping[str, Tensor],
) -> dict[str, Any]:
    """The fields of the config.json that the model was converted from, as far as decoders need.

    Args:
        shapes: of the stored tensors, by their names in the file.
        rope_factors: those of ROPE_FACTORS, LONG_FACTORS and SHORT_FACTORS that are stored.

    Raises:
        ExportError: the metadata cannot be said so.
    """
    kind, prefix = architecture(metadata), metadata["general.architecture"]

    def stored(name: str) -> Any:
        return metadata.get(f"{prefix}.{name}")

    fields = {name: stored(key) for name, key in {**_COMMON, **kind.fields}.items()}
    fields = {name: _of_all(value) for name, value in fields.items() if value is not None}
    more = layers_of_more_tokens(metadata)
    if more:
        fields["num_hidden_layers"] = more.start
    if len(shapes.get(EMBEDDING, ())) != 2:
        raise ExportError(f"there is no matrix {EMBEDDING}; it gives the vocabulary's size.")
    head_dim = _head_dim(fields)
    check_keys(kind.model_type, stored, head_dim)
    fields = {**fields_of_absent(kind.model_type, stored, head_dim), **fields}
    if kind.computed is not None:
        fields |= kind.computed(stored, fields, shapes, rope_factors)
    fields |= {
        **kind.constants,
        "model_type": kind.model_type,
        "vocab_size": shapes[EMBEDDING][0],
        "tie_word_embeddings": HEAD not in shapes,
        "attention_bias": not shapes.keys().isdisjoint(_BIASES),
        "mlp_bias": "blk.0.ffn_gate.bias" in shapes,
        **{name: _token(metadata, name) for name in ("bos_token_id", "eos_token_id")},
    }
    head_dim = _head_dim(fields)
    key_size, value_size = stored("attention.key_length"), stored("attention.value_length")
    if value_size not in (None, head_dim if key_size is None else key_size):
        raise ExportError(
            f"{prefix}.attention.value_length {value_size!r} is not {prefix}.attention.key_length "
            f"{key_size!r}; heads of two sizes are not built."
        )
    if head_dim:  # a family may have another default
        fields["head_dim"] = head_dim
    if kind.larger_heads is not None and head_dim:
        larger = fields.get("num_hidden_layers") == kind.larger_heads
        heads = fields["num_attention_heads"]
        fields["query_pre_attn_scalar"] = fields["hidden_size"] // heads if larger else head_dim
    if stored(TEMPERATURE) is not None and kind.model_type == "mistral":
        fields["model_type"] = "ministral3"  # which shares its architecture with Mistral
    fields |= window_fields(fields, stored)
    if "rope_parameters" in fields:
        fields.pop("original_max_position_embeddings", None)
        return fields
    turned = stored("rope.dimension_count")
    if head_dim and isinstance(turned, int) and turned != head_dim:
        fields["partial_rotary_factor"] = turned / head_dim
    scaling = rope_scaling(fields, stored, rope_factors, head_dim, kind.yarn)
    fields["rope_scaling"] = scaling
    if scaling["rope_type"] == "llama3":  # whose factors say it
        fields.pop("original_max_position_embeddings", None)
    if fields["model_type"] == "olmo3":  # whose layers all have one base, in llama.cpp
        plain = {"rope_type": "default", "rope_theta": fields["rope_theta"]}
        tables = {"full_attention": {**plain, **scaling}, "sliding_attention": plain}
        fields |= {"rope_parameters": tables, "rope_scaling": None}
    return fields


def layers_of_more_tokens(metadata: Mapping[str, Any]) -> range:
    """Returns the numbers of the last layers, if these predict several tokens."""
    prefix = metadata["general.architecture"]
    layers, more = (metadata.get(f"{prefix}.{x}") for x in ("block_count", "nextn_predict_layers"))
    if not isinstance(layers, int) or not isinstance(more, int):
        return range(0)
    return range(layers - more, layers)


def _token(metadata: Mapping[str, Any], name: str) -> Any:
    """A token's id; some files mean by the largest number that there is none."""
    token = metadata.get(f"tokenizer.ggml.{name}")
    return None if token == 2**32 - 1 else token


def _of_all(value: Any) -> Any:
    """One number for a list with that number for every layer."""
    same = isinstance(value, list) and value[:1] != [] and value == value[:1] * len(value)
    return value[0] if same else value


def _head_dim(fields: Mapping[str, Any]) -> int | None:
    """None where the metadata is too wrong to say; the family then says what is."""
    hidden_size, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    head_dim = fields.get("head_dim")
    if head_dim is None and type(hidden_size) is int and type(heads) is int and heads > 0:
        head_dim = hidden_size // heads
    return head_dim if type(head_dim) is int and type(heads) is int and heads > 0 else None
