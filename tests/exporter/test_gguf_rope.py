"""What a GGUF file's metadata says of rotary embedding and of tokens that there are not."""

from typing import Any

import pytest
import torch
from torch import Tensor

from exporter.checkpoint.gguf_config import config_fields
from exporter.errors import ExportError

YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}


def fields_of(factors: dict[str, Tensor] | None = None, **keys: Any) -> dict[str, Any]:
    """The config's fields of a file with these keys behind `llama.`."""
    metadata = {
        "general.architecture": "llama",
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "tokenizer.ggml.bos_token_id": 2**32 - 1,
        "tokenizer.ggml.eos_token_id": 2,
        **{f"llama.{key}": value for key, value in keys.items()},
    }
    return config_fields(metadata, {"token_embd.weight": (512, 64)}, factors or {})


def test_the_largest_id_is_none() -> None:
    assert (fields_of()["bos_token_id"], fields_of()["eos_token_id"]) == (None, 2)


def test_no_scaling() -> None:
    for keys in ({}, {"rope.scaling.type": "none", "rope.scaling.factor": 2.0}):
        assert fields_of(**keys)["rope_scaling"] is None


def test_yarn_log_multiplier_is_read_of_mistral_3_alone() -> None:
    scaling = fields_of(**YARN, **{"rope.scaling.yarn_log_multiplier": 1.0})["rope_scaling"]
    assert scaling["attention_factor"] == pytest.approx(1.138629)


@pytest.mark.parametrize(
    ("factors", "keys", "said"),
    [
        (
            {},
            {**YARN, "rope.scaling.yarn_ext_factor": 0.5},
            "rope.scaling.yarn_ext_factor is 0.5; supported are 0 and 1.",
        ),
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
