"""What published config.json files say is what we build, and nothing in them is refused wrongly."""

import pytest
from support.published_configs import CONFIGS
from support.published_experts import GPT_OSS, QWEN3_MOE

from exporter.catalogue.presets import PRESETS
from exporter.errors import ExportError
from exporter.models.families import decoder_spec
from exporter.models.rotary_spec import ListedScaling, YarnScaling
from exporter.models.spec import DecoderSpec, ExpertsSpec, MlpSpec

# What a preset leaves open of the published file.
_PRESETS = {model.source: model.config for model in PRESETS.values()}


def spec(name: str) -> DecoderSpec:
    return decoder_spec(CONFIGS[name])


@pytest.mark.parametrize("name", [name for name in CONFIGS if name in _PRESETS])
def test_a_preset_is_the_published_model(name: str) -> None:
    published, preset = spec(name).for_context(4096), _PRESETS[name].for_context(4096)
    assert published.layers == preset.layers
    assert published.dimensions() == preset.dimensions()
    assert published.folded == preset.folded
    assert published.embedding_scale == preset.embedding_scale
    assert (published.eos_token_ids, published.context_limit) == (
        preset.eos_token_ids,
        preset.context_limit,
    )


def test_longrope_takes_the_factors_of_the_exported_context() -> None:
    phi = spec("microsoft/Phi-4-mini-instruct")
    for length, first in ((4096, (1.0, 1.0)), (4097, (1.0, 1.9))):
        (table,) = phi.for_context(length).rotary_tables
        assert isinstance(table.scaling, ListedScaling) and table.rotated == 96
        assert table.scaling.factors[:2] == first
        assert table.scaling.magnitude == pytest.approx(1.190238)  # sqrt(1 + ln 32 / ln 4096)


def test_a_window_longer_than_the_context_is_none() -> None:
    phi = spec("microsoft/Phi-4-mini-instruct").for_context(131072)
    assert all(layer.mixer.window is None for layer in phi.layers)
    mistral = spec("mistralai/Mistral-7B-v0.1")
    for length, window in ((4096, None), (4097, 4096)):
        assert mistral.for_context(length).layers[0].mixer.window == window


def test_ministrals_queries_grow_past_the_original_context_alone() -> None:
    ministral = spec("mistralai/Ministral-3-3B-Instruct-2512-BF16")
    assert len(ministral.for_context(16384).rotary_tables) == 1
    assert len(ministral.for_context(16385).rotary_tables) == 2
    assert ministral.context_limit == 262144 and ministral.tie_word_embeddings


def test_yarn_reaches_as_far_as_it_stretches() -> None:
    qwen = spec("Qwen/Qwen2.5-7B-Instruct with YaRN")
    assert qwen.context_limit == 131072
    (table,) = qwen.rotary_tables
    assert table.scaling == YarnScaling(4.0, 32768, magnitude=pytest.approx(1.138629))


def test_gpt_oss() -> None:
    config = decoder_spec(GPT_OSS)
    assert [mixer.window for mixer in config.attentions] == [128, None] * 12
    assert all(mixer.sinks and mixer.bias and mixer.out_bias for mixer in config.attentions)
    (table,) = config.rotary_tables
    assert table.scaling == YarnScaling(32.0, 4096, 32.0, 1.0, False, pytest.approx(1.346574))
    assert config.context_limit == 131072
    expert = MlpSpec(2880, "quick_gelu", bias=True, limit=7.0)
    wanted = ExpertsSpec(expert, num_experts=32, num_experts_per_tok=4, router_bias=True)
    assert {layer.feed_forward for layer in config.layers} == {wanted}
    for name in ("layer_types", "rope_scaling", "swiglu_limit", "attention_bias", "head_dim"):
        without = {key: value for key, value in GPT_OSS.items() if key != name}
        assert decoder_spec(without) == config, name
    renamed = {**GPT_OSS, "num_experts": GPT_OSS["num_local_experts"]}
    del renamed["num_local_experts"]
    assert decoder_spec(renamed) == config


def test_qwen3_moe() -> None:
    config = decoder_spec(QWEN3_MOE)
    wanted = ExpertsSpec(MlpSpec(768), num_experts=128, num_experts_per_tok=8)
    assert {layer.feed_forward for layer in config.layers} == {wanted}
    assert config.num_hidden_layers == 48 and not any(m.window for m in config.attentions)


@pytest.mark.parametrize("change", [{"swiglu_alpha": 1.5}, {"hidden_act": "gelu"}])
def test_another_gate_than_gpt_oss(change: dict[str, object]) -> None:
    ((name, value),) = change.items()
    with pytest.raises(ExportError, match=f"^{name} {value!r} is not supported; supported is "):
        decoder_spec({**GPT_OSS, **change})


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (
            "ibm-granite/granite-4.0-micro",
            {"num_local_experts": 62},
            "num_local_experts 62 is not supported; supported is 0.",
        ),
        (
            "ibm-granite/granite-4.0-micro",
            {"layer_types": ["mamba"] * 36 + ["attention"] * 4},
            "layer_types with 'mamba' is not supported; of this architecture only models whose "
            "layers are all 'attention' are built.",
        ),
        (
            "ibm-granite/granite-4.0-micro",
            {"normalization_function": "layernorm"},
            "normalization_function 'layernorm' is not supported; supported is 'rmsnorm'.",
        ),
        (
            "google/gemma-3-270m-it",
            {"use_bidirectional_attention": True},
            "use_bidirectional_attention True is not supported; supported is False.",
        ),
        (
            "google/gemma-3-270m-it",
            {"attn_logit_softcapping": 50.0},
            "attn_logit_softcapping 50.0 is not supported; supported is null.",
        ),
        (
            "microsoft/Phi-4-mini-instruct",
            {"lm_head_bias": True},
            "lm_head_bias True is not supported; supported is False.",
        ),
        (
            "microsoft/Phi-4-mini-instruct",
            {"partial_rotary_factor": 0.29},
            "partial_rotary_factor 0.29 of head_dim 128 is 37 numbers; it must be an even number "
            "from 2 to 128.",
        ),
        (
            "LGAI-EXAONE/EXAONE-4.0-1.2B",
            {"sliding_window_pattern": "LLX", "layer_types": None, "sliding_window": 4096},
            "sliding_window_pattern is 'LLX'; it must be a number of layers, or letters: L for a "
            "layer that slides, G for one that does not.",
        ),
        (
            "allenai/Olmo-3-7B-Instruct",
            {"layer_types": ["full_attention"] * 31},
            "layer_types lists 31 layers; num_hidden_layers is 32.",
        ),
    ],
)
def test_what_is_not_computed_is_refused_by_name_and_value(
    name: str, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(ExportError) as error:
        decoder_spec({**CONFIGS[name], **changes})
    assert str(error.value) == said
