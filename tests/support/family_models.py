"""Random models of every family, as transformers builds them and as we do."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from support.gemma4_configs import GEMMA4_CASES
from torch import Tensor

from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec, get_family

transformers = pytest.importorskip("transformers")

LENGTH = 40  # past every window, every original context and any piece boundary
PIECES = ((0, 1), (1, 3), (3, 10), (10, LENGTH))  # calls over a cache
SHAPE: dict[str, Any] = dict(
    vocab_size=199,
    hidden_size=48,
    intermediate_size=88,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
)
_CAUSAL = {
    "Gemma3Text": "Gemma3",
    "Gemma4Text": "Gemma4",
    "InternLM3": "Llama",
    "IQuestCoder": "Llama",
    "Qwen3_5Text": "Qwen3_5",
}  # where the class of models is not called as that of configs


@dataclass(frozen=True)
class Case:
    """One random model: the class prefix in transformers and what its config adds to SHAPE."""

    architecture: str
    label: str
    fields: dict[str, Any] = field(default_factory=dict)


def rope(rope_type: str, theta: float = 1e4, **parameters: Any) -> dict[str, Any]:
    """A config's rotary parameters."""
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": theta, **parameters}}


LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
YARN = rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16)


def longrope(pairs: int, **parameters: Any) -> dict[str, Any]:
    """Another stretch of each pair, and another one past the original context."""
    short = [1.0 + 0.1 * pair for pair in range(pairs)]
    long = [1.5 + 0.7 * pair for pair in range(pairs)]
    return rope("longrope", short_factor=short, long_factor=long, **parameters)


def by_kind(full: dict[str, Any], sliding: dict[str, Any]) -> dict[str, Any]:
    """Rotary parameters for each kind of layer."""
    kinds = {"full_attention": full, "sliding_attention": sliding}
    return {"rope_parameters": {kind: one["rope_parameters"] for kind, one in kinds.items()}}


GRANITE: dict[str, Any] = dict(
    embedding_multiplier=12.0,
    attention_multiplier=0.2,
    residual_multiplier=0.6,
    logits_scaling=0.5,
)
DENSE_GRANITE4: dict[str, Any] = dict(
    **GRANITE,
    layer_types=["full_attention"] * 3,
    num_local_experts=0,
    shared_intermediate_size=72,
    position_embedding_type="rope",
    mamba_n_heads=6,
)
MIXTURE: dict[str, Any] = dict(
    head_dim=16,
    num_experts=7,
    num_experts_per_tok=2,
    moe_intermediate_size=40,
    norm_topk_prob=True,
)
GPT_OSS: dict[str, Any] = dict(
    head_dim=16,
    num_local_experts=7,
    num_experts_per_tok=3,
    sliding_window=9,
    swiglu_limit=0.7,  # which random models reach
)
GEMMA: dict[str, Any] = dict(head_dim=16, query_pre_attn_scalar=10, sliding_window=9)
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]

PROPORTIONAL = rope("proportional", 1e4, partial_rotary_factor=0.5, factor=2.0)
LFM2: dict[str, Any] = dict(layer_types=["conv", "full_attention", "conv"], block_multiple_of=8)

QWEN3_5: dict[str, Any] = dict(
    head_dim=16,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
)

CASES = [
    Case("Llama", "plain"),
    Case("Llama", "tied", dict(tie_word_embeddings=True)),
    Case("Llama", "llama3-rope", LLAMA3),
    Case("Llama", "linear-rope", rope("linear", 5e3, factor=4.0)),
    Case("Llama", "dynamic-rope", {**rope("dynamic", factor=3.0), "max_position_embeddings": 24}),
    Case("Llama", "dynamic-rope-short", rope("dynamic", factor=3.0)),
    Case("Llama", "yarn", YARN),
    Case("Llama", "longrope", longrope(4, factor=2.0, original_max_position_embeddings=24)),
    Case("Llama", "proportional-rope", dict(**PROPORTIONAL, head_dim=12)),
    Case("Llama", "theta", rope("default", 5e5)),
    Case("Llama", "biases", dict(attention_bias=True, mlp_bias=True)),
    Case("Llama", "gelu", dict(hidden_act="gelu")),
    Case("Llama", "gelu-tanh", dict(hidden_act="gelu_pytorch_tanh")),
    Case("Llama", "relu", dict(hidden_act="relu")),
    Case("Llama", "quick-gelu", dict(hidden_act="quick_gelu")),
    Case("Llama", "own-head-dim", dict(head_dim=20)),
    Case("Llama", "one-key-head", dict(num_key_value_heads=1)),
    Case("Llama", "no-gqa", dict(num_key_value_heads=6, rms_norm_eps=1e-3)),
    Case("Mistral", "window", dict(sliding_window=11)),
    Case("Mistral", "no-window", dict(sliding_window=None, head_dim=12)),
    Case("Qwen2", "plain"),
    Case("Qwen2", "tied", dict(tie_word_embeddings=True, sliding_window=4)),
    Case("Qwen2", "window", dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)),
    Case("Qwen2", "yarn", rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    Case("Qwen3", "plain", dict(head_dim=16)),
    Case("Qwen3", "proportional-rope", dict(head_dim=16, **PROPORTIONAL)),
    Case("Qwen3", "tied-biases", dict(tie_word_embeddings=True, attention_bias=True, head_dim=8)),
    Case(
        "Qwen3",
        "listed-windows",
        dict(use_sliding_window=True, sliding_window=5, layer_types=MIXED, head_dim=8),
    ),
    Case("Qwen3Moe", "normalized", MIXTURE),
    Case(
        "Qwen3Moe",
        "some-dense",
        dict(**MIXTURE, mlp_only_layers=[1], num_hidden_layers=4, decoder_sparse_step=2),
    ),
    Case(
        "Qwen3Moe",
        "plain-softmax",
        {
            **MIXTURE,
            "norm_topk_prob": False,
            "num_experts_per_tok": 5,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 9,
        },
    ),
    Case("GptOss", "tied", dict(**GPT_OSS, tie_word_embeddings=True, attention_bias=False, **YARN)),
    Case(
        "GptOss",
        "yarn",
        {
            **GPT_OSS,
            **rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16, truncate=False),
            "num_hidden_layers": 4,
        },
    ),
    Case(
        "GptOss",
        "mxfp4",  # whose rows are whole groups
        {
            **GPT_OSS,
            **rope("default"),
            "hidden_size": 64,
            "intermediate_size": 96,
            "layer_types": MIXED,
        },
    ),
    Case("SmolLM3", "interval", dict(no_rope_layer_interval=2)),
    Case("SmolLM3", "listed", dict(no_rope_layers=[0, 1, 1], attention_bias=True, mlp_bias=True)),
    Case("SmolLM3", "untied", dict(tie_word_embeddings=False)),
    Case(
        "SmolLM3",
        "windows",
        dict(no_rope_layer_interval=2, use_sliding_window=True, sliding_window=6),
    ),
    Case("Phi3", "plain"),
    Case("Phi3", "window", dict(sliding_window=9, tie_word_embeddings=True)),
    Case("Phi3", "partial", dict(head_dim=8, **rope("default", partial_rotary_factor=0.75))),
    Case(
        "Phi3",
        "long-factors",
        dict(original_max_position_embeddings=24, **longrope(4)),
    ),
    Case(
        "Phi3",
        "short-factors",
        dict(original_max_position_embeddings=48, **longrope(4)),
    ),
    Case(
        "Phi3",
        "phi-4-mini",
        dict(
            original_max_position_embeddings=16,
            num_attention_heads=3,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            **longrope(6, partial_rotary_factor=0.75),
        ),
    ),
    Case("Granite", "plain"),
    Case("Granite", "multipliers", GRANITE),
    Case(
        "Granite",
        "tied-biases",
        dict(**GRANITE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    ),
    Case("GraniteMoeHybrid", "dense", DENSE_GRANITE4),
    Case(
        "GraniteMoeHybrid",
        "no-rope",
        {**DENSE_GRANITE4, "position_embedding_type": None, "attention_bias": True},
    ),
    Case("Olmo2", "plain"),
    Case("Olmo2", "proportional-rope", PROPORTIONAL),
    Case("Olmo2", "biases", dict(attention_bias=True, num_key_value_heads=6, **LLAMA3)),
    Case("Olmo3", "pattern", dict(sliding_window=7, num_hidden_layers=4)),
    Case(
        "Olmo3",
        "yarn",
        dict(sliding_window=7, layer_types=MIXED, **by_kind(YARN, rope("default", 1e3))),
    ),
    Case("Gemma2", "caps", dict(**GEMMA, attn_logit_softcapping=0.5)),
    Case("Gemma2", "no-attention-cap", dict(**GEMMA, attn_logit_softcapping=None)),
    Case(
        "Gemma2",
        "no-caps",
        dict(
            **GEMMA,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            attention_bias=True,
            tie_word_embeddings=False,
        ),
    ),
    Case("Gemma3Text", "pattern", dict(**GEMMA, num_hidden_layers=7)),
    Case(
        "Gemma3Text",
        "listed",
        dict(
            **GEMMA,
            layer_types=MIXED,
            final_logit_softcapping=5.0,
            attention_bias=True,
            **by_kind(rope("linear", 1e6, factor=8.0), rope("default", 1e4)),
        ),
    ),
    *(Case("Gemma4Text", label, fields) for label, fields in GEMMA4_CASES.items()),
    Case("Gemma", "tied", dict(head_dim=16, hidden_act="gelu")),
    Case("Gemma", "biases", dict(head_dim=8, attention_bias=True, tie_word_embeddings=False)),
    Case("Ministral", "listed", dict(sliding_window=9, layer_types=MIXED, head_dim=16)),
    Case("SeedOss", "plain", dict(head_dim=16)),
    Case("SeedOss", "out-bias", dict(head_dim=8, attention_out_bias=True, mlp_bias=True)),
    Case("Cwm", "pattern", dict(head_dim=16, sliding_window=9, num_hidden_layers=5, **LLAMA3)),
    Case("InternLM3", "dynamic", dict(head_dim=16, **rope("dynamic", factor=6.0))),
    Case("InternLM3", "biases", dict(head_dim=8, qkv_bias=True, bias=True)),
    Case("IQuestCoder", "plain", dict(head_dim=16)),
    Case("Exaone4", "hybrid", dict(sliding_window=9, sliding_window_pattern=2)),
    Case("Exaone4", "listed", dict(sliding_window=9, layer_types=MIXED, **LLAMA3)),
    Case(
        "Exaone4",
        "full",
        dict(
            sliding_window=None,
            layer_types=["full_attention"] * 3,
            tie_word_embeddings=True,
            **LLAMA3,
        ),
    ),
    Case(
        "Ministral3",
        "grown",
        dict(
            head_dim=16,
            tie_word_embeddings=True,
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=1e4,
                factor=4.0,
                original_max_position_embeddings=8,
                beta_fast=32.0,
                beta_slow=1.0,
                mscale=1.0,
                mscale_all_dim=1.0,
                llama_4_scaling_beta=0.3,
            ),
        ),
    ),
    Case("Ministral3", "window", dict(head_dim=8, sliding_window=10)),
    Case("Lfm2", "hybrid", LFM2),
    Case(
        "Lfm2",
        "biases",
        {**LFM2, "conv_bias": True, "conv_L_cache": 5, "tie_word_embeddings": False},
    ),
    Case(
        "Lfm2",
        "indices",
        dict(full_attn_idxs=[1], block_auto_adjust_ff_dim=False, conv_L_cache=2, norm_eps=1e-3),
    ),
    Case("Qwen3_5Text", "interval", dict(**QWEN3_5, num_hidden_layers=4)),
    Case(
        "Qwen3_5Text",
        "listed",
        dict(
            **QWEN3_5,
            layer_types=["full_attention", "linear_attention", "linear_attention"],
            linear_conv_kernel_dim=3,
            attention_bias=True,
            tie_word_embeddings=True,
            **rope(
                "default",
                1e6,
                partial_rotary_factor=0.5,
                mrope_section=[2, 1, 1],
                mrope_interleaved=True,
            ),
        ),
    ),
]


def reference_model(case: Case) -> Any:
    """A model of transformers whose every parameter is random, norms and biases too."""
    return model_of(getattr(transformers, f"{case.architecture}Config")(**{**SHAPE, **case.fields}))


def model_of(config: Any) -> Any:
    """The same of a config of transformers."""
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    name = type(config).__name__
    architecture = name.removesuffix("Config")
    causal = _CAUSAL.get(architecture, architecture)
    model = getattr(transformers, f"{causal}ForCausalLM")(config).eval()
    # As which norms are stored.
    minus_one = name.startswith(("GemmaC", "Gemma2", "Gemma3", "Qwen3_5"))
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.fill_(0.7 + 0.3 * torch.rand(()))
    for name, parameter in model.named_parameters():
        spread = (0.3 if parameter.dim() == 1 else 0.15) * torch.randn_like(parameter)
        centre = 0.0 if minus_one and "linear_attn" not in name else 1.0
        parameter.data = spread + (centre if "norm" in name else 0.0)
    return model


def tokens_of(model: Any, batch: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(model.config.vocab_size, (batch, LENGTH), generator=generator)


def our_model(reference: Any, fields: dict[str, Any] | None = None) -> CausalLM:
    """The same model as we build it, with the same weights; None: of its config's own fields."""
    fields = fields or reference.config.to_dict()
    spec, family = decoder_spec(fields), get_family(fields["model_type"])
    model, tensors = CausalLM(spec).eval(), reference.state_dict()
    ours = {}
    for name in model.state_dict():
        stored = family.stored(spec, name).among(tensors)
        ours[name] = stored.make(*(tensors[source] for source in stored.names))
    model.load_state_dict(ours)
    return model.requires_grad_(False)


def assert_same(ours: Tensor, reference: Tensor) -> None:
    assert reference.abs().max() > 0.5, "logits too small to tell anything"
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-4)
