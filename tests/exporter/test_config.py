"""Reading config.json: what transformers 5 writes, what older files hold, and every refusal."""

import random
from typing import Any

import pytest
from support.llama_config import LLAMA
from support.tiers import soaked

from exporter.errors import ExportError
from exporter.models.config import PACKED_METHODS
from exporter.models.families import decoder_spec, family_names
from exporter.models.rotary_spec import LinearScaling, Llama3Scaling, RotarySpec
from exporter.models.spec import AttentionSpec, DecoderSpec

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA3_SCALING = Llama3Scaling(32.0, 1.0, 4.0, 8192)


def parsed(**fields: Any) -> DecoderSpec:
    return decoder_spec({**LLAMA, **fields})


def mixer(config: DecoderSpec) -> AttentionSpec:
    """Of the first layer."""
    return config.layers[0].mixer


def refusal(**fields: Any) -> str:
    """The message for LLAMA with these fields changed."""
    with pytest.raises(ExportError) as raised:
        parsed(**fields)
    return str(raised.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_parameters": {**LLAMA3_ROPE, "rope_theta": 500000.0}},
        {"rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE},
        {"rope_theta": 500000.0, "rope_parameters": LLAMA3_ROPE, "rope_scaling": None},
        {"rope_theta": 500000, "rope_scaling": {**LLAMA3_ROPE, "type": "llama3"}},
    ],
    ids=["transformers-5", "published", "mixed", "both-type-keys"],
)
def test_rotary_settings_wherever_they_stand(fields: dict[str, Any]) -> None:
    assert parsed(**fields).rotary_tables == (RotarySpec(8, 500000.0, LLAMA3_SCALING),)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"rope_parameters": {"rope_theta": 10000.0}},
    ],
)
def test_plain_rotary_settings(fields: dict[str, Any]) -> None:
    assert parsed(**fields).rotary_tables == (RotarySpec(8, 10000.0),)


@pytest.mark.parametrize("scaling", [LLAMA3_ROPE, {"rope_type": "linear", "factor": 4.0}])
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "mistral", "gemma3_text", "olmo3"])
def test_of_both_rope_scaling_counts(model_type: str, scaling: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"rope_type": "default", "rope_theta": 300.0}
    if model_type in ("gemma3_text", "olmo3"):
        plain = {"full_attention": plain, "sliding_attention": plain}
    fields = {"model_type": model_type, "sliding_window_pattern": 2, "rope_parameters": plain}
    tables = parsed(**fields, num_key_value_heads=8, rope_scaling=scaling).rotary_tables
    wanted = LLAMA3_SCALING if scaling is LLAMA3_ROPE else LinearScaling(4.0)
    assert wanted in {table.scaling for table in tables}


def test_an_old_linear_scaling() -> None:
    config = parsed(rope_scaling={"type": "linear", "factor": 2})
    assert config.rotary_tables == (RotarySpec(8, 10000.0, LinearScaling(2.0)),)


def test_absent_fields_take_the_architectures_defaults() -> None:
    llama, mistral, qwen3, smollm3 = (
        parsed(model_type=name, num_attention_heads=32)
        for name in ("llama", "mistral", "qwen3", "smollm3")
    )
    assert (mixer(llama).num_key_value_heads, mixer(llama).head_dim) == (32, 2)
    assert not llama.tie_word_embeddings and llama.context_limit == 2048
    assert (mixer(mistral).num_key_value_heads, mixer(mistral).window) == (8, 4096)
    assert mistral.context_limit == 131072
    assert (mixer(qwen3).num_key_value_heads, mixer(qwen3).head_dim) == (32, 128)
    assert mixer(qwen3).qk_norm == "heads" and not mixer(llama).qk_norm
    assert mixer(smollm3).num_key_value_heads == 4 and smollm3.tie_word_embeddings
    table = RotarySpec(2, 2e6)
    assert [layer.mixer.rotary for layer in smollm3.layers] == [table, table, table, None]


def test_the_size_of_heads_where_others_ignore_it() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8}
    fields = {**LLAMA, **sizes, "model_type": "cohere2", "head_dim": 16, "eos_token_id": 2}
    assert decoder_spec(fields).attentions[0].head_dim == 16
    fields["model_type"] = "gpt_neox"
    with pytest.raises(ExportError, match="^head_dim 16 is not supported; supported is 8.$"):
        decoder_spec(fields)
    assert decoder_spec({**fields, "head_dim": 8}).attentions[0].head_dim == 8


def test_null_is_not_absent() -> None:
    config = parsed(model_type="mistral", num_key_value_heads=None, sliding_window=None)
    assert (mixer(config).num_key_value_heads, mixer(config).head_dim) == (8, 8)
    assert mixer(config).window is None


@pytest.mark.parametrize(
    ("model_type", "wanted"),
    [
        ("llama", (True, True, True)),
        ("mistral", (False, False, False)),
        ("qwen2", (True, False, False)),
        ("smollm3", (True, True, True)),
    ],
)
def test_biases_where_the_architecture_has_them(
    model_type: str, wanted: tuple[bool, bool, bool]
) -> None:
    config = parsed(
        model_type=model_type, attention_bias=True, mlp_bias=True, num_key_value_heads=8
    )
    for layer in config.layers:
        assert (layer.mixer.bias, layer.mixer.out_bias, layer.feed_forward.bias) == wanted


SLIDES: dict[str, Any] = {"sliding_window": 32, "use_sliding_window": True}


@pytest.mark.parametrize(
    ("fields", "slide"),
    [
        ({"model_type": "llama", "sliding_window": 32}, "----"),
        ({"model_type": "mistral", "sliding_window": 32}, "ssss"),
        ({"model_type": "phi3", "sliding_window": 32}, "ssss"),
        ({"model_type": "qwen2", **SLIDES, "use_sliding_window": False}, "----"),
        ({"model_type": "qwen2", "sliding_window": 32}, "----"),
        ({"model_type": "qwen2", **SLIDES}, "----"),
        ({"model_type": "qwen2", **SLIDES, "max_window_layers": 3}, "---s"),
        ({"model_type": "qwen2", **SLIDES, "max_window_layers": 0}, "ssss"),
        ({"model_type": "qwen3", **SLIDES, "max_window_layers": 3, "layer_types": "----"}, "----"),
        ({"model_type": "smollm3", **SLIDES, "layer_types": "---s"}, "---s"),
        ({"model_type": "smollm3", **SLIDES}, "---s"),
        ({"model_type": "olmo3", "sliding_window": 32}, "sss-"),
        ({"model_type": "gemma3_text", "sliding_window": 32}, "ssss"),
        ({"model_type": "gemma3_text", "sliding_window": 32, "sliding_window_pattern": 2}, "s-s-"),
        ({"model_type": "exaone4", "sliding_window": 32}, "sss-"),
        ({"model_type": "exaone4", "sliding_window": 32, "sliding_window_pattern": "LG"}, "s-s-"),
        ({"model_type": "exaone4", "sliding_window": 32, "sliding_window_pattern": "GL"}, "-s--"),
        ({"model_type": "exaone4", "sliding_window": 32, "sliding_window_pattern": None}, "----"),
        ({"model_type": "exaone4", "sliding_window": None}, "----"),
    ],
)
def test_the_window_as_each_architecture_says_it(fields: dict[str, Any], slide: str) -> None:
    names = {"s": "sliding_attention", "-": "full_attention"}
    if "layer_types" in fields:
        fields = {**fields, "layer_types": [names[letter] for letter in fields["layer_types"]]}
    config = parsed(num_key_value_heads=8, max_position_embeddings=64, **fields)
    assert config.context_limit == 64
    windows = [32 if letter == "s" else None for letter in slide]
    assert [layer.mixer.window for layer in config.layers] == windows


@pytest.mark.parametrize(
    ("stored", "ids"), [(None, ()), (2, (2,)), ([2], (2,)), ([3, 2, 5], (3, 2, 5)), ([], ())]
)
def test_end_of_text_ids(stored: Any, ids: tuple[int, ...]) -> None:
    assert parsed(eos_token_id=stored).eos_token_ids == ids


@pytest.mark.parametrize(
    "model_type",
    [
        "",
        "gpt2",
        "falcon",
        "deepseek_v3",
        "qwen2_vl",
        "llava",
        "gemma3",
        ["llama"],
    ],
)
def test_another_architecture_is_refused(model_type: Any) -> None:
    assert refusal(model_type=model_type).startswith(
        f"model_type {model_type!r} is not supported; supported are {', '.join(family_names())}"
    )


REQUIRED = [name for name in LLAMA if name != "model_type"]
COUNTS = [*REQUIRED, "num_key_value_heads", "head_dim", "max_position_embeddings"]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    fields = {key: value for key, value in LLAMA.items() if key != name}
    with pytest.raises(ExportError) as raised:
        decoder_spec(fields)
    assert str(raised.value) == (
        f"{name} is missing, but the decoder needs it; use the config.json that was published with "
        "the weights."
    )


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 2.5, "64", True, [64], {}])
def test_a_count_of_the_wrong_kind_is_named(name: str, value: Any) -> None:
    expected = f"{name} is {value!r}; it must be a whole number of at least 1."
    assert refusal(**{name: value}) == expected


@pytest.mark.parametrize("name", ["rms_norm_eps", "rope_theta"])
@pytest.mark.parametrize("value", [0, -1e-5, "1e-5", None, float("nan"), float("inf"), True])
def test_a_number_of_the_wrong_kind_is_named(name: str, value: Any) -> None:
    assert refusal(**{name: value}) == f"{name} is {value!r}; it must be a number above 0."


@pytest.mark.parametrize("name", ["rms_norm_eps", "rope_theta"])
def test_a_number_that_float32_does_not_hold_is_named(name: str) -> None:
    assert refusal(**{name: 1e300}) == (
        f"{name} is 1e+300, too large for float32, in which the decoder computes; use the "
        "config.json that was published with the weights."
    )


@pytest.mark.parametrize("name", ["hidden_size", "intermediate_size", "vocab_size", "head_dim"])
def test_a_size_whose_matrix_no_memory_holds_is_named(name: str) -> None:
    said = f"{name} is 2147483647; at most 134217728 is supported."
    assert refusal(**{name: 2**31 - 1}) == said


@pytest.mark.parametrize("name", ["tie_word_embeddings", "attention_bias", "mlp_bias"])
@pytest.mark.parametrize("value", ["true", 1, []])
def test_a_flag_of_the_wrong_kind_is_named(name: str, value: Any) -> None:
    assert refusal(**{name: value}) == f"{name} is {value!r}; it must be true or false."


ACTIVATIONS = (
    "supported are 'silu', 'swish', 'gelu', 'gelu_new', 'gelu_pytorch_tanh', 'relu', 'relu2', "
    "'quick_gelu'."
)
ROPE_TYPES = "'default', 'linear', 'dynamic', 'yarn', 'longrope', 'su', 'llama3', 'proportional'"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"hidden_act": "mish"},
            f"hidden_act 'mish' is not supported; {ACTIVATIONS}",
        ),
        (
            {"hidden_act": None},
            f"hidden_act None is not supported; {ACTIVATIONS}",
        ),
        (
            {"quantization_config": {"quant_method": "hqq", "bits": 4}},
            "the weights are already quantized (quantization_config, method 'hqq'); those "
            f"of {', '.join(PACKED_METHODS)} can be read: use one of these, or the original float "
            "checkpoint.",
        ),
        (
            {"partial_rotary_factor": 0.5},
            "partial_rotary_factor 0.5 is not supported; this architecture rotates complete heads "
            "(1.0).",
        ),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}},
            "partial_rotary_factor 0.25 is not supported; this architecture rotates complete heads "
            "(1.0).",
        ),
        (
            {"rope_scaling": {"rope_type": "ntk", "factor": 4.0}},
            f"rope_type 'ntk' is not supported; supported are {ROPE_TYPES}.",
        ),
        (
            {"rope_scaling": {"type": "dynamic", "factor": 0.5}},
            "factor is 0.5; of rope_type 'dynamic' it must be at least 1.",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
            "rope_parameters has a table for each kind of layer (full_attention); this "
            "architecture has one table for all layers.",
        ),
        (
            {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 1, 1]}},
            "mrope_section [2, 1, 1] of the rotary embedding is not supported; remove it if the "
            "model does not need it.",
        ),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0]}},
            "short_factor is 2 numbers; it must list a factor for each of the 4 pairs that rotate.",
        ),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 2}},
            "beta_fast 1.0 is below beta_slow 2.0; exchange them.",
        ),
        (
            {"rope_scaling": "llama3"},
            "rope_scaling is 'llama3'; it must be an object or null.",
        ),
        (
            {"rope_scaling": {"rope_type": "linear"}},
            "factor is None; it must be a number above 0.",
        ),
        (
            {"rope_scaling": {**LLAMA3_ROPE, "high_freq_factor": 1.0}},
            "high_freq_factor 1.0 is not above low_freq_factor 1.0; it must be, because the "
            "frequencies between them are interpolated.",
        ),
        (
            {"num_key_value_heads": 3},
            "num_attention_heads 8 is not a multiple of num_key_value_heads 3; each key/value "
            "head must serve the same number of query heads.",
        ),
        (
            {"head_dim": 7},
            "head_dim 7 is odd; rotary embedding rotates pairs of numbers, so it must be even.",
        ),
        (
            {"num_attention_heads": 128},
            "num_attention_heads 128 is more than hidden_size 64; set head_dim, or fewer heads.",
        ),
        (
            {"eos_token_id": [2, 512]},
            "token id 512 (bos_token_id or eos_token_id) is outside the vocabulary; it must be "
            "below vocab_size 512.",
        ),
        (
            {"bos_token_id": -2},
            "token id -2 (bos_token_id or eos_token_id) is outside the vocabulary; it must be "
            "below vocab_size 512.",
        ),
        (
            {"eos_token_id": "</s>"},
            "eos_token_id is '</s>'; it must be a token id or a list of them.",
        ),
        (
            {"layer_types": ["linear_attention"]},
            "layer_types is ['linear_attention']; each layer must be one of full_attention, "
            "sliding_attention.",
        ),
        (
            {"model_type": "smollm3", "no_rope_layers": [1, 0]},
            "no_rope_layers is [1, 0]; it must list a 1 or a 0 for each of the 4 layers.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_the_decoder_cannot_compute_is_refused(fields: dict[str, Any], message: str) -> None:
    assert refusal(**fields) == message


@pytest.mark.check
@pytest.mark.parametrize("seed", [0, *soaked(range(1, 6))])
def test_any_damage_to_a_field_is_an_error_or_a_config(seed: int) -> None:
    """Random values in random fields: nothing but ExportError ever comes out."""
    rng = random.Random(seed)
    names = [*COUNTS, "model_type", "hidden_act", "rope_scaling", "rope_parameters", "layer_types"]
    names += ["no_rope_layers", "sliding_window", "quantization_config", "no_rope_layer_interval"]
    names += ["eos_token_id", "use_sliding_window", "rope_theta", "max_window_layers"]
    values = [None, 0, 1, -3, 7, 2.5, "x", "", True, [], [1], ["x"], {}, {"factor": 1}]
    values += [{"rope_type": "llama3"}, {"rope_type": []}, [[]], {"rope_type": "default", "a": {}}]
    for _ in range(500):
        fields = {**LLAMA, "model_type": rng.choice(family_names())}
        fields.update({rng.choice(names): rng.choice(values) for _ in range(rng.randint(1, 4))})
        try:
            decoder_spec(fields)
        except ExportError as error:
            assert str(error).endswith("."), fields
