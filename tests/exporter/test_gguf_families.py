"""Each architecture that GGUF files hold: random models of transformers, stored as llama.cpp's
converter does, compute the same logits when they are read back."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from support.family_models import (
    GPT_OSS,
    LFM2,
    LLAMA3,
    MIXED,
    MIXTURE,
    QWEN3_5,
    Case,
    assert_same,
    by_kind,
    longrope,
    reference_model,
    rope,
    tokens_of,
)
from support.gemma4_configs import GEMMA4, GEMMA4_CASES
from support.gguf_files import COMMON
from support.gguf_models import GgufForm, with_split_experts, write_model
from support.loading import loaded

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM

SLIDES = {"attention.sliding_window": "sliding_window"}
KEYS = {"attention.key_length": "head_dim", "attention.value_length": "head_dim"}
EXPERTS = {
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "intermediate_size",
}
QWEN3_MOE = {**KEYS, **EXPERTS, "expert_feed_forward_length": "moe_intermediate_size"}
MULTIPLIERS = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
}


DELTA = {
    **KEYS,
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
}
DELTA_SIZES = {
    "ssm.inner_size": QWEN3_5["linear_num_value_heads"] * QWEN3_5["linear_value_head_dim"],
    "rope.dimension_count": QWEN3_5["head_dim"] // 4,
}
SHORT = {
    "attention.layer_norm_rms_epsilon": "norm_eps",
    "shortconv.l_cache": "conv_L_cache",
}
GEMMA4_KEYS = {
    **SLIDES,
    "attention.key_length_swa": "head_dim",
    "attention.value_length_swa": "head_dim",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "final_logit_softcapping": "final_logit_softcapping",
}
GEMMA4_SIZES = {
    "attention.key_length": GEMMA4["global_head_dim"],
    "attention.value_length": GEMMA4["global_head_dim"],
    "rope.dimension_count": GEMMA4["global_head_dim"],
    "rope.dimension_count_swa": GEMMA4["head_dim"],
    "rope.freq_base_swa": 1e4,
    "attention.sliding_window_pattern": [True, False] * 3,
}
LISTED = ["linear_attention", "full_attention", "linear_attention"]


def as_array(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float32)


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16, truncate=False)
LONG = longrope(4)["rope_parameters"]
MINISTRAL3 = rope(
    "yarn",
    factor=4.0,
    original_max_position_embeddings=16,
    beta_fast=32.0,
    beta_slow=1.0,
    mscale=1.0,
    mscale_all_dim=1.0,
    llama_4_scaling_beta=0.1,
)
YARN_KEYS = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
}


def magnified(magnitude: float) -> dict[str, Any]:
    """YARN_KEYS, with another magnitude than YaRN's own."""
    scaling = dict(factor=4.0, original_max_position_embeddings=16, attention_factor=magnitude)
    return rope("yarn", 1e3, **scaling)


def listed(factors: list[float], magnitude: float) -> dict[str, Any]:
    """A factor on each frequency, and one on cosines and sines."""
    lists = dict(short_factor=factors, long_factor=factors)
    return rope(
        "longrope",
        **lists,
        factor=1.0,
        attention_factor=magnitude,
        original_max_position_embeddings=64,
    )


GEMMA3: dict[str, Any] = dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=9)
CASES = [
    (Case("Llama", "plain"), GgufForm("llama", pairs_rotate=True)),
    (
        Case("Llama", "llama3-rope", LLAMA3),
        GgufForm("llama", pairs_rotate=True, factors={"rope_freqs.weight": "llama3"}),
    ),
    (
        Case("Llama", "yarn", rope("yarn", 1e3, factor=4.0, original_max_position_embeddings=16)),
        GgufForm(
            "llama",
            more={
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 16,
            },
            pairs_rotate=True,
        ),
    ),
    (
        Case("Llama", "yarn-and-attn-factor", magnified(1.5 * (1 + 0.1 * float(np.log(4.0))))),
        GgufForm("llama", more={**YARN_KEYS, "rope.scaling.attn_factor": 1.5}, pairs_rotate=True),
    ),
    (
        Case("Llama", "no-yarn-but-its-type", rope("linear", 1e3, factor=4.0)),
        GgufForm(
            "llama", more={**YARN_KEYS, "rope.scaling.yarn_ext_factor": 0.0}, pairs_rotate=True
        ),
    ),
    (
        Case("Llama", "attn-factor-alone", listed([1.0] * 4, 1.25)),
        GgufForm("llama", more={"rope.scaling.attn_factor": 1.25}, pairs_rotate=True),
    ),
    (
        Case("Llama", "factor-without-a-type", listed([2.0] * 4, 0.75)),
        GgufForm(
            "llama",
            more={"rope.scaling.factor": 2.0, "rope.scaling.attn_factor": 0.75},
            pairs_rotate=True,
        ),
    ),
    (Case("Qwen2", "tied", dict(tie_word_embeddings=True)), GgufForm("qwen2")),
    (Case("Qwen3", "plain", dict(head_dim=16)), GgufForm("qwen3", KEYS)),
    (
        Case("Qwen3Moe", "plain", dict(**MIXTURE, **rope("default"))),
        GgufForm("qwen3moe", QWEN3_MOE),
    ),
    (
        Case("GptOss", "yarn", {**GPT_OSS, **YARN, "swiglu_limit": 7.0}),
        GgufForm(
            "gpt-oss",
            {**KEYS, **SLIDES, **EXPERTS},
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 16,
            },
        ),
    ),
    (
        Case("SmolLM3", "plain", dict(num_hidden_layers=4, tie_word_embeddings=True)),
        GgufForm("smollm3", pairs_rotate=True),
    ),
    (
        Case(
            "Granite",
            "multipliers",
            dict(
                embedding_multiplier=12.0,
                attention_multiplier=0.2,
                residual_multiplier=0.6,
                logits_scaling=0.5,
                tie_word_embeddings=True,
            ),
        ),
        GgufForm("granite", MULTIPLIERS, pairs_rotate=True),
    ),
    (
        Case("Granite", "a-number-a-layer", dict(attention_multiplier=0.2)),
        GgufForm("granite", MULTIPLIERS, {"attention.head_count_kv": [2, 2, 2]}, pairs_rotate=True),
    ),
    (
        Case("Ministral3", "yarn", dict(head_dim=16, **MINISTRAL3)),
        GgufForm(
            "mistral3",
            KEYS,
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 16,
                "rope.scaling.yarn_beta_fast": 32.0,
                "rope.scaling.yarn_beta_slow": 1.0,
                "rope.scaling.yarn_log_multiplier": 1.0,
                "attention.temperature_scale": 0.1,
            },
            pairs_rotate=True,
        ),
    ),
    (Case("Mistral", "small", dict(head_dim=16)), GgufForm("mistral3", KEYS, pairs_rotate=True)),
    (Case("Olmo2", "plain"), GgufForm("olmo2")),
    (
        Case("Olmo3", "windows", dict(sliding_window=7, layer_types=MIXED, **rope("default"))),
        GgufForm("olmo2", SLIDES, {"attention.sliding_window_pattern": [True, False, True]}),
    ),
    (
        Case("Exaone4", "listed", dict(sliding_window=9, layer_types=MIXED, **rope("default"))),
        GgufForm("exaone4", SLIDES, {"attention.sliding_window_pattern": [True, False, True]}),
    ),
    (
        Case("Exaone4", "full", dict(sliding_window=None, layer_types=["full_attention"] * 3)),
        GgufForm("exaone4"),
    ),
    (
        Case("Gemma3Text", "pattern", dict(**GEMMA3, num_hidden_layers=7)),
        GgufForm("gemma3", {**KEYS, **SLIDES}, from_one=True),
    ),
    (
        Case(
            "Gemma3Text",
            "scaled",
            dict(
                **GEMMA3,
                num_hidden_layers=7,
                **by_kind(rope("linear", 1e6, factor=8.0), rope("default", 1e4)),
            ),
        ),
        GgufForm(
            "gemma3",
            {**KEYS, **SLIDES},
            {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
            from_one=True,
        ),
    ),
    (
        Case("Qwen3_5Text", "interval", dict(**QWEN3_5, num_hidden_layers=4)),
        GgufForm("qwen35", DELTA, {**DELTA_SIZES, "full_attention_interval": 4}, from_one=True),
    ),
    (
        Case("Qwen3_5Text", "listed", dict(**QWEN3_5, layer_types=LISTED)),
        GgufForm(
            "qwen35",
            DELTA,
            {**DELTA_SIZES, "attention.recurrent_layers": [True, False, True]},
            from_one=True,
        ),
    ),
    (
        Case("Lfm2", "tied", LFM2),
        GgufForm("lfm2", SHORT, {"attention.head_count_kv": [0, 2, 0], "feed_forward_length": 64}),
    ),
    (
        Case(
            "Lfm2",
            "biases",
            {
                "layer_types": ["conv", "conv", "full_attention"],
                "conv_bias": True,
                "block_auto_adjust_ff_dim": False,
                "tie_word_embeddings": False,
            },
        ),
        GgufForm("lfm2", SHORT, {"attention.head_count_kv": [0, 0, 2]}),
    ),
    (
        Case("Gemma4Text", "shared", GEMMA4),
        GgufForm(
            "gemma4",
            GEMMA4_KEYS,
            {**GEMMA4_SIZES, "feed_forward_length": [88] * 3 + [176] * 3},
            factors={"rope_freqs.weight": as_array([1.0] * 2 + [1e30] * 6)},
        ),
    ),
    (
        Case("Gemma4Text", "keys-are-values", GEMMA4_CASES["keys-are-values"]),
        GgufForm(
            "gemma4",
            GEMMA4_KEYS,
            {**GEMMA4_SIZES, "attention.head_count_kv": [2, 3] * 3, "rope.freq_base_swa": 1e3},
            factors={"rope_freqs.weight": as_array([1.0] * 6 + [1e30] * 2)},
        ),
    ),
    (
        Case("Gemma4Text", "nothing-shared", GEMMA4_CASES["nothing-shared"]),
        GgufForm(
            "gemma4",
            {key: name for key, name in GEMMA4_KEYS.items() if name != "final_logit_softcapping"},
            GEMMA4_SIZES,
            factors={"rope_freqs.weight": as_array([1.0] * 2 + [1e30] * 6)},
        ),
    ),
    (Case("Phi3", "plain"), GgufForm("phi3", more={"attention.sliding_window": 0})),
    (
        Case("Phi3", "partial", dict(head_dim=8, **rope("default", partial_rotary_factor=0.75))),
        GgufForm("phi3", more={"rope.dimension_count": 6}),
    ),
    (
        Case("Phi3", "long-factors", dict(original_max_position_embeddings=24, **longrope(4))),
        GgufForm(
            "phi3",
            more={
                "rope.scaling.original_context_length": 24,
                "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(64 / 24) / np.log(24))),
            },
            factors={
                "rope_factors_long.weight": as_array(LONG["long_factor"]),
                "rope_factors_short.weight": as_array(LONG["short_factor"]),
            },
        ),
    ),
]


@pytest.mark.parametrize(
    ("case", "form"), CASES, ids=[f"{case.architecture}-{case.label}" for case, _ in CASES]
)
def test_logits_are_those_of_transformers(tmp_path: Path, case: Case, form: GgufForm) -> None:
    reference = reference_model(case)
    path = write_model(tmp_path / "m.gguf", reference, form)
    checkpoint, tokens = open_checkpoint(path), tokens_of(reference)
    checkpoint.config = checkpoint.config.for_context(tokens.shape[1])
    model = loaded(checkpoint)
    with torch.no_grad():
        hidden = model.embed(tokens)
        context = model.text_context(model.context(tokens.shape[1]), tokens, hidden)
        for layer in model.model.layers:
            hidden = layer(hidden, context)
        logits = model.finish_logits(model.lm_head(model.model.norm(hidden)))
        assert_same(logits, reference(tokens).logits)


@pytest.mark.parametrize("type", [Type.Q8_0, Type.Q4_0, Type.MXFP4, Type.F16], ids=lambda t: t.name)
def test_experts_are_read_one_by_one(tmp_path: Path, type: Type) -> None:
    fields = {**MIXTURE, "hidden_size": 64, "moe_intermediate_size": 96}
    reference = reference_model(Case("Qwen3Moe", "stacked", fields))
    form = GgufForm("qwen3moe", QWEN3_MOE, experts=type)
    checkpoint = open_checkpoint(write_model(tmp_path / "m.gguf", reference, form))
    parts = with_split_experts(reference.state_dict())
    for part in ("gate_proj", "up_proj", "down_proj"):
        block = "model.layers.1.mlp.experts"
        stored = gguf.quantize(parts[f"{block}.{part}.weight"].numpy(), type)
        want = torch.from_numpy(gguf.dequantize(stored, type))
        for expert in (0, 3, 6):
            name = f"{block}.{expert}.{part}.weight"
            assert torch.equal(checkpoint.tensor(name).float(), want[expert])
            assert checkpoint.source_type(name) == type.name
            kept = checkpoint.integers(name)
            assert (kept is not None) == (type in (Type.Q8_0, Type.Q4_0))
            if kept is not None:
                floats = kept.values.unflatten(1, (-1, 32)) * kept.scales[..., None]
                assert torch.equal(floats.flatten(1), want[expert])


@pytest.mark.parametrize("architecture", ["lfm2", "gemma4", "qwen35"])
def test_other_metadata_is_read_or_refused_in_a_sentence(tmp_path: Path, architecture: str) -> None:
    """One value replaced by another, most of them of a wrong type or size."""
    case, form = next((case, form) for case, form in CASES if form.architecture == architecture)
    reference, refused = reference_model(case), 0
    values = [0, 1, 7, 2**31 - 1, -1.0, 0.5, float("nan"), "x", True, [0], [1, 2, 3], [2] * 6]
    values += [[0.5] * 3, ["x", "y", "z"], [False] * 3, [True] * 6, [False] * 6]
    changes = [(key, value) for key in (*COMMON, *form.names, *form.more) for value in values]
    for key, value in random.Random(0).sample(changes, 60):
        changed = replace(form, more={**form.more, key: value})
        path = write_model(tmp_path / "m.gguf", reference, changed)
        try:
            checkpoint = open_checkpoint(path)
            with torch.device("meta"):
                checkpoint.check(CausalLM(checkpoint.config))
        except ExportError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).endswith("."), (key, value)
    assert refused > 20
