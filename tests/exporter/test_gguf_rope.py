"""What a GGUF file's metadata says of rotary embedding and of tokens that there are not."""

from typing import Any

import pytest
import torch
from torch import Tensor

from exporter.checkpoint.gguf_config import config_fields
from exporter.errors import ExportError
from exporter.models.families import decoder_spec
from exporter.models.rotary_spec import YarnScaling

EXPERTS = {
    "block_count": 2,
    "feed_forward_length": 8,
    "attention.sliding_window": 4,
    "expert_count": 4,
    "expert_used_count": 2,
}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}


def fields_of(
    factors: dict[str, Tensor] | None = None, architecture: str = "llama", **keys: Any
) -> dict[str, Any]:
    """The config's fields of a file with these keys behind the architecture's name and a dot."""
    sizes = {
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "context_length": 512,
    }
    metadata = {
        "general.architecture": architecture,
        "tokenizer.ggml.bos_token_id": 2**32 - 1,
        "tokenizer.ggml.eos_token_id": 2,
        **{f"{architecture}.{key}": value for key, value in {**sizes, **keys}.items()},
    }
    return config_fields(metadata, {"token_embd.weight": (512, 64)}, factors or {})


def test_the_largest_id_is_none() -> None:
    assert (fields_of()["bos_token_id"], fields_of()["eos_token_id"]) == (None, 2)


@pytest.mark.parametrize("architecture", ["llama", "gpt-oss"])
def test_no_scaling(architecture: str) -> None:
    """Not that which the family has by default, either."""
    for keys in ({}, {"rope.scaling.type": "none", "rope.scaling.factor": 2.0}):
        fields = fields_of(architecture=architecture, **keys, **EXPERTS)
        assert fields["rope_scaling"] == {"rope_type": "default"}
        assert [table.scaling for table in decoder_spec(fields).rotary_tables] == [None]


def test_gpt_oss_turns_by_rounded_limits_of_yarn() -> None:
    fields = fields_of(architecture="gpt-oss", **YARN, **EXPERTS)
    (table,) = decoder_spec(fields).rotary_tables
    assert isinstance(table.scaling, YarnScaling) and table.scaling.truncate


def test_yarn_log_multiplier_is_read_of_mistral_3_alone() -> None:
    scaling = fields_of(**YARN, **{"rope.scaling.yarn_log_multiplier": 1.0})["rope_scaling"]
    assert scaling["attention_factor"] == pytest.approx(1.138629)


@pytest.mark.parametrize(
    ("architecture", "field", "value"),
    [
        ("gemma3", "rope_theta", 10000.0),
        ("exaone4", "num_key_value_heads", 4),
        ("command-r", "rope_theta", 10000.0),
        ("command-r", "logit_scale", 1.0),
        ("granite", "attention_multiplier", 0.25),
        ("phi3", "original_max_position_embeddings", 512),
        ("gemma2", "sliding_window", 4096),
    ],
)
def test_what_llama_cpp_takes_where_no_key_is(architecture: str, field: str, value: float) -> None:
    assert fields_of(architecture=architecture)[field] == value


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        (
            "qwen2",
            {"attention.causal": False},
            "attention.causal is false; only causal attention is supported.",
        ),
        (
            "llama",
            {"attention.layer_norm_rms_epsilon": None},
            "neither attention.layer_norm_rms_epsilon nor attention.layer_norm_epsilon is stored, "
            "and norms need one; convert the model again.",
        ),
        (
            "gemma3",
            {"rope.dimension_count_swa": 4},
            "rope.dimension_count_swa 4 is not supported; supported is 16, complete heads.",
        ),
        (
            "gemma3",
            {"rope.scaling.attn_factor": 0.5},
            "rope.scaling.attn_factor 0.5 is not supported for gemma3_text.",
        ),
        ("gemma3", YARN, "rope.scaling.type 'yarn' is not supported for gemma3_text."),
        (
            "gpt-oss",
            {"rope.freq_base_swa": 500.0},
            "rope.freq_base_swa 500.0 is not supported for gpt_oss.",
        ),
        ("apertus", YARN, "rope.scaling.type 'yarn' is not supported for apertus."),
        (
            "lfm2moe",
            {"expert_gating_func": 1},
            "expert_gating_func 1 is not supported for lfm2_moe; supported is 2, the sigmoid.",
        ),
        (
            "granite",
            {"rope.scaling.finetuned": False},
            "rope.scaling.finetuned is false, which means for granite that no position is rotated; "
            "take the model's safetensors instead.",
        ),
        (
            "glm4",
            {"rope.dimension_sections": [1, 1, 1, 0]},
            "rope.dimension_sections [1, 1, 1, 0] is not supported.",
        ),
        (
            "llama",
            {"attention.value_length": 8},
            "llama.attention.value_length 8 is not llama.attention.key_length None; heads of two "
            "sizes are not built.",
        ),
    ],
)
def test_keys_that_no_decoder_computes(architecture: str, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ExportError) as error:
        fields_of(architecture=architecture, **keys)
    assert str(error.value) == said


@pytest.mark.parametrize("window", [None, 0])
def test_no_layer_of_gemma_3_slides_where_no_window_is_stored(window: int | None) -> None:
    sizes = {"block_count": 2, "feed_forward_length": 8, "attention.sliding_window": window}
    read = fields_of(architecture="gemma3", **sizes)
    spec = decoder_spec(read)
    assert {layer.mixer.window for layer in spec.layers} == {None}


@pytest.mark.parametrize(("pattern", "slide"), [(2, "sfs"), (3, "ssf"), (1, "fff"), (0, "sss")])
def test_every_so_many_layers_do_not_slide(pattern: int, slide: str) -> None:
    kinds = {"s": "sliding_attention", "f": "full_attention"}
    keys = {"attention.sliding_window": 4, "attention.sliding_window_pattern": pattern}
    read = fields_of(architecture="gemma2", block_count=3, **keys)
    assert read["layer_types"] == [kinds[kind] for kind in slide]


@pytest.mark.parametrize(
    ("layers", "keys", "slide"),
    [
        (64, {}, "sssf"),
        (64, {"attention.sliding_window_pattern": 2}, "sfsf"),
        (63, {"attention.sliding_window_pattern": 2}, "ffff"),
    ],
)
def test_exaone_4_slides_in_models_of_64_layers_alone(
    layers: int, keys: dict[str, Any], slide: str
) -> None:
    """The full layers of such a model do not rotate, and those of others do."""
    fields = fields_of(
        architecture="exaone4",
        block_count=layers,
        feed_forward_length=8,
        **{"attention.sliding_window": 4, **keys},
    )
    first = [layer.attention for layer in decoder_spec(fields).layers[:4]]
    assert [layer.window for layer in first] == [4 if kind == "s" else None for kind in slide]
    plain = slide == "ffff"
    assert [layer.rotary is None for layer in first] == [
        kind == "f" and not plain for kind in slide
    ]


def test_values_as_wide_as_heads() -> None:
    assert fields_of(**{"attention.value_length": 16})["head_dim"] == 16


@pytest.mark.parametrize(
    ("factors", "keys", "said"),
    [
        (
            {"rope_freqs.weight": torch.ones(8)},
            YARN,
            "rope.scaling.type yarn with rope_freqs.weight is not supported.",
        ),
        (
            {},
            {"rope.scaling.attn_factor": "much"},
            "attn_factor is 'much'; it must be a number above 0.",
        ),
    ],
)
def test_what_is_refused(factors: dict[str, Tensor], keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ExportError) as error:
        fields_of(factors, **keys)
    assert str(error.value) == said
