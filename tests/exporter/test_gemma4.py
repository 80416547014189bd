"""Gemma 4: what its configs may say, what checkpoints may store besides, what is said of memory and
size."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.exported import Quiet
from support.families.gemma4_text import GEMMA4
from support.family_models import SHAPE, assert_same, case_of, reference_model, tokens_of
from support.hybrid_models import SHARED, shared_hybrid
from support.loading import loaded

from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.explain import explain_export
from exporter.file.pte import read_report
from exporter.models.families import decoder_spec
from exporter.models.spec import DecoderSpec
from exporter.options import ExportOptions
from quant.scheme import Scheme

FIELDS: dict[str, Any] = {**SHAPE, **GEMMA4, "model_type": "gemma4_text"}
(NAME,) = SHARED


def spec(**fields: Any) -> DecoderSpec:
    return decoder_spec({**FIELDS, **fields})


def test_later_layers_use_the_last_earlier_one_of_their_kind() -> None:
    assert [mixer.shares for mixer in spec().attentions] == [None, None, None, 1, 2, 1]
    assert spec().shared_layers == {1, 2}
    assert spec().dimensions()["num_kv_shared_layers"] == 3
    assert spec().dimensions()["intermediate_size"] == [88] * 3 + [176] * 3
    assert spec(use_double_wide_mlp=None).dimensions()["intermediate_size"] == 88


def test_layers_may_be_written_with_zeros_in_front() -> None:
    sizes = {"head_dim": 20}
    plain = spec(per_layer_config={"2": sizes, "5": sizes}, num_kv_shared_layers=0)
    assert [mixer.head_dim for mixer in plain.attentions] == [8, 8, 20, 8, 8, 20]
    assert spec(per_layer_config={"02": sizes, "05": sizes}, num_kv_shared_layers=0) == plain


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"enable_moe_block": True}, "enable_moe_block true is not supported: it adds experts"),
        ({"num_kv_shared_layers": 7}, "num_kv_shared_layers 7 is more than num_hidden_layers 6"),
        ({"num_kv_shared_layers": 5}, "leaves no earlier layer of the kind full_attention"),
        ({"num_kv_shared_layers": -1}, "it must be a whole number of at least 0"),
        ({"vocab_size_per_layer_input": 198}, "vocab_size_per_layer_input 198 is below"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention 'all' is not"),
        ({"per_layer_config": {"6": {}}}, "it must be an object from layers, 0 to 5, to"),
        ({"per_layer_config": {"5": {}, "05": {}}}, "it must be an object from layers, 0 to 5, to"),
        ({"per_layer_config": {"1": {"sliding_window": 4}}}, "supported are the fields head_dim"),
        ({"per_layer_config": {"5": {"head_dim": 24}}}, "layer 5 has other key/value heads than"),
        ({"rope_parameters": "proportional"}, "it must be an object or null"),
        ({"rope_parameters": {"full_attention": 7}}, "rope_parameters.full_attention is 7"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "axial", "rope_theta": 1e4}}},
            "'llama3', 'proportional'",
        ),
        (
            {
                "rope_parameters": {
                    "full_attention": {
                        "rope_type": "proportional",
                        "rope_theta": 1e4,
                        "partial_rotary_factor": 0.05,
                    }
                }
            },
            "partial_rotary_factor 0.05 of head_dim 16 is 0 numbers; it must be from 2 to 16",
        ),
        ({"hidden_size_per_layer_input": "many"}, "it must be a whole number of at least 0"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ExportError) as error:
        spec(**fields)
    assert said in str(error.value)


@torch.no_grad()
def test_keys_that_nothing_reads_may_be_stored(tmp_path: Path) -> None:
    """As in published checkpoints; those of layers with their own may not be left over."""
    reference = reference_model(case_of("gemma4_text", "shared"))
    reference.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for name in ("k_proj", "v_proj", "k_norm"):
        tensors[f"model.layers.4.self_attn.{name}.weight"] = torch.zeros(3, 5)
    save_file(tensors, file)
    model = loaded(open_checkpoint(tmp_path))
    tokens = tokens_of(reference)
    assert_same(model.logits(tokens), reference(tokens).logits)
    tensors["model.layers.1.self_attn.v_norm.weight"] = torch.zeros(8)
    save_file(tensors, file)
    with pytest.raises(ExportError, match="1 not in the model: model.layers.1.self_attn.v_norm"):
        loaded(open_checkpoint(tmp_path))


@pytest.mark.check
def test_what_is_said_of_memory_and_size(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> None:
    pte = shared_hybrid(tmp_path_factory, NAME)
    report = read_report(pte)
    assert report["model"]["num_kv_shared_layers"] == 2
    assert report["model"]["hidden_size_per_layer_input"] == 32
    assert report["quantization"]["bits"]["model.layer_inputs.embedding"] == "8 bits"
    assert report["quantization"]["layer_input_bytes"] > 4096 * 4 * 32
    stored = load_file(pte.with_name("model.safetensors"))
    assert report["model"]["parameters"] == sum(tensor.numel() for tensor in stored.values())
    options = ExportOptions(
        model=str(pte.parent), out=tmp_path / "other.pte", scheme=Scheme("rtn4"), max_seq_len=16
    )
    explained = explain_export(options, Quiet())
    assert [(each.window, each.layers) for each in explained.caches] == [(40, 1), (None, 1)]
    assert explained.delegation.calls == 1
