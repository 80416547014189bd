"""Families: ours, another package's, one that is passed; and what checkpoints make of theirs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.decoder_specs import SMALL
from support.exported import Quiet
from support.family_models import SHAPE
from support.loading import loaded
from support.proof_family import CONFIG, PROOF, write_checkpoint
from torch import Tensor

from exporter.catalogue.find import find_checkpoint
from exporter.checkpoint import Checkpoint, open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec, family_names, get_family
from exporter.models.family import Family
from exporter.models.spec import DecoderSpec
from exporter.models.tensor_layout import Stored, joined, stacked
from exporter.options import ExportOptions

PACKAGES = Path(__file__).parents[1] / "packages"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package beside ours that offers families, as if it were installed."""
    monkeypatch.syspath_prepend(str(PACKAGES))


def test_each_of_ours_is_called_as_its_file() -> None:
    names = family_names()
    assert {"llama", "qwen3"} <= set(names)
    assert [get_family(name).model_type for name in names] == list(names)


def test_another_packages_family_is_found_by_its_model_type(offered: None, tmp_path: Path) -> None:
    assert get_family("proof") is PROOF
    assert open_checkpoint(write_checkpoint(tmp_path)).config == PROOF.spec(CONFIG)


def test_an_unknown_model_type_gets_the_names(offered: None) -> None:
    *ours, absent, hollow, proof = family_names()
    assert (absent, hollow, proof) == ("absent", "hollow", "proof") and "llama" in ours
    with pytest.raises(ExportError) as error:
        decoder_spec({"model_type": "gpt2"})
    begin = f"model_type 'gpt2' is not supported; supported are {', '.join(ours)}, absent, hollow, "
    assert str(error.value).startswith(f"{begin}proof, bert, ")
    assert ", whisper, " in str(error.value)
    assert str(error.value).endswith("; any other module is exported as module.py:make.")
    with pytest.raises(ExportError, match="^it has no model_type; supported are "):
        decoder_spec({})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "absent",
            "(thimble_families_absent:FAMILY) cannot be imported: No module named "
            "'thimble_families_absent'",
        ),
        ("hollow", "(json:dumps) is not a Family"),
    ],
)
def test_a_package_that_is_broken(offered: None, name: str, said: str) -> None:
    with pytest.raises(ExportError) as error:
        get_family(name)
    assert str(error.value) == (f"model_type {name!r} {said}; repair the package that provides it.")


def test_a_family_that_is_passed_needs_no_package(tmp_path: Path) -> None:
    directory = write_checkpoint(tmp_path)
    with pytest.raises(ExportError, match="model_type 'proof' is not supported"):
        open_checkpoint(directory)
    options = ExportOptions(model=str(directory), out=tmp_path / "model.pte", family=PROOF)
    for asked in (options, replace(options, model="llama3", checkpoint=str(directory))):
        assert find_checkpoint(asked, Quiet()).config == PROOF.spec(CONFIG)


def test_norms_stored_as_their_distance_from_one_are_folded(tmp_path: Path) -> None:
    model = loaded(open_checkpoint(write_checkpoint(tmp_path), PROOF))
    tensors = load_file(tmp_path / "model.safetensors")
    for name in ("model.norm.weight", "model.layers.1.post_feedforward_layernorm.weight"):
        assert torch.equal(model.get_parameter(name), tensors[name] + 1)
    name = "model.layers.1.mlp.up_proj.weight"
    assert torch.equal(model.get_parameter(name), tensors[name])


# A layout in which nothing lies as ours: names, fused rows, stacked layers, (in, out) matrices.

QUERIES, KEYS = 64, 32


def elsewhere(spec: DecoderSpec, name: str) -> Stored:
    if name == "model.embed_tokens.weight":
        return joined("wte.first", "wte.second")
    layer, _, key = name.removeprefix("model.layers.").partition(".")
    fused = Stored(("h.attn",)).entry(int(layer)) if layer.isdigit() else Stored((name,))
    match key:
        case "self_attn.q_proj.weight":
            return fused.rows(0, QUERIES)
        case "self_attn.k_proj.weight":
            return fused.rows(QUERIES, QUERIES + KEYS)
        case "self_attn.v_proj.weight":
            return fused.rows(QUERIES + KEYS, QUERIES + 2 * KEYS)
        case "mlp.down_proj.weight":
            return Stored((f"h.{layer}.down",)).transposed()
    return Stored((name,))


ELSEWHERE = Family("elsewhere", lambda fields: LAID_OUT, elsewhere)
LAID_OUT = replace(SMALL, layers=SMALL.layers * 2, tie_word_embeddings=False)


@pytest.fixture
def ours() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = CausalLM(LAID_OUT)
    return {n: torch.randn(p.shape, generator=generator) for n, p in model.named_parameters()}


def laid_out(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    kept = dict(ours)
    first, second = kept.pop("model.embed_tokens.weight").split((40, 56))
    attn = [
        torch.cat([kept.pop(f"model.layers.{i}.self_attn.{x}_proj.weight") for x in "qkv"])
        for i in range(2)
    ]
    for i in range(2):
        down = kept.pop(f"model.layers.{i}.mlp.down_proj.weight")
        kept[f"h.{i}.down"] = down.T.contiguous()
    return {**kept, "wte.first": first, "wte.second": second, "h.attn": torch.stack(attn)}


def opened(directory: Path, tensors: dict[str, Tensor]) -> Checkpoint:
    save_file(
        {name: t.contiguous() for name, t in tensors.items()}, directory / "model.safetensors"
    )
    (directory / "config.json").write_text(json.dumps({"model_type": "elsewhere"}))
    return open_checkpoint(directory, ELSEWHERE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tensors_are_found_wherever_they_are(
    ours: dict[str, Tensor], tmp_path: Path, dtype: torch.dtype
) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in laid_out(ours).items()}
    checkpoint = opened(tmp_path, tensors)
    for name, parameter in loaded(checkpoint).named_parameters():
        assert torch.equal(parameter, ours[name].to(dtype).float()), name
        assert parameter.is_contiguous() and parameter.dtype == torch.float32
        assert torch.equal(checkpoint.tensor(name), ours[name].to(dtype))


def test_rows_of_a_fused_tensor_are_a_view_of_the_file(
    ours: dict[str, Tensor], tmp_path: Path
) -> None:
    checkpoint = opened(tmp_path, laid_out(ours))
    fused = checkpoint.weights.tensor("h.attn")
    keys = checkpoint.tensor("model.layers.1.self_attn.k_proj.weight")
    offset = fused[1, QUERIES].data_ptr() - fused.data_ptr()
    assert keys.data_ptr() - checkpoint.weights.tensor("h.attn").data_ptr() == offset


def test_stacked_tensors_get_a_dimension_of_their_own() -> None:
    parts = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    recipe = stacked("a", "b")
    assert recipe.names == ("a", "b")
    assert torch.equal(recipe.make(*parts), torch.stack(parts))


def test_what_does_not_fit_is_named_by_its_stored_name(
    ours: dict[str, Tensor], tmp_path: Path
) -> None:
    tensors = laid_out(ours)
    del tensors["wte.second"]
    tensors["h.attn"] = tensors["h.attn"][:, : QUERIES + KEYS]
    tensors["h.0.down"] = tensors["h.0.down"].T
    tensors["h.1.down"] = tensors["h.1.down"].to(torch.int8)
    tensors["h.2.down"] = torch.ones(3)
    with pytest.raises(ExportError) as error:
        loaded(opened(tmp_path, tensors))
    assert str(error.value) == (
        f"The weights of {tmp_path.name} do not fit its config (llama, 2 layers): 1 missing: "
        "wte.second (for model.embed_tokens.weight); 3 with another shape: h.attn (2, 96, 64), "
        "which cannot make model.layers.0.self_attn.v_proj.weight (32, 64), "
        "model.layers.0.mlp.down_proj.weight is (80, 64), not (64, 80), h.attn (2, 96, 64), which "
        "cannot make model.layers.1.self_attn.v_proj.weight (32, 64); 1 not in the model: "
        "h.2.down (3); 1 neither float32, float16 nor bfloat16: h.1.down is int8. Take config and "
        "weights from the same model."
    )


def test_attention_in_both_directions_is_refused() -> None:
    with pytest.raises(ExportError, match="^is_causal False is not supported; supported is True.$"):
        decoder_spec({**SHAPE, "model_type": "llama", "is_causal": False})


def test_windows_of_the_layers_that_a_mistral_lists() -> None:
    kinds = ["full_attention", "sliding_attention"]
    fields = {**SHAPE, "model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 8}
    listed = decoder_spec({**fields, "layer_types": kinds})
    assert [layer.mixer.window for layer in listed.layers] == [None, 8]
    assert [layer.mixer.window for layer in decoder_spec(fields).layers] == [8, 8]


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"block_ff_dim": 12288}, 8192),
        ({"intermediate_size": 6656}, 4608),
        ({"intermediate_size": 100, "block_ff_dim": 300, "block_multiple_of": 16}, 208),
        ({"intermediate_size": 300, "block_ffn_dim_multiplier": 1.5, "block_multiple_of": 8}, 304),
        ({"intermediate_size": 300, "block_ffn_dim_multiplier": None}, 200),
        ({"intermediate_size": 300, "block_auto_adjust_ff_dim": False}, 300),
    ],
)
def test_the_size_of_lfm2s_feed_forward_part(fields: dict[str, object], size: int) -> None:
    shape = {name: value for name, value in SHAPE.items() if name != "intermediate_size"}
    found = decoder_spec({**shape, "model_type": "lfm2", "full_attn_idxs": [1], **fields})
    assert found.dimensions()["intermediate_size"] == size
    assert found.dimensions()["short_convolutions"] == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"layer_types": ["conv", "mamba", "conv"]},
            "layer_types is ['conv', 'mamba', 'conv']; each layer must be one of full_attention, "
            "conv.",
        ),
        ({"layer_types": ["conv"]}, "layer_types lists 1 layers; num_hidden_layers is 3."),
        ({"full_attn_idxs": [3]}, "full_attn_idxs is [3]; it must list layers from 0 to 2."),
        ({"conv_L_cache": 1}, "conv_L_cache is 1; it must be a whole number of at least 2."),
        ({"conv_dim": 64}, "conv_dim 64 is not supported; supported is 48."),
        ({"use_pos_enc": False}, "use_pos_enc False is not supported; supported is True."),
    ],
)
def test_what_lfm2_is_not(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ExportError) as error:
        decoder_spec({**SHAPE, "model_type": "lfm2", **fields})
    assert str(error.value) == said


def test_qwen2_moe_lists_no_sliding_layers_without_windows() -> None:
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    fields = {**SHAPE, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2}
    fields |= {"num_key_value_heads": 2, "layer_types": kinds, "sliding_window": 4}
    layers = decoder_spec({**fields, "use_sliding_window": True}).layers
    assert [layer.attention.window for layer in layers] == [4, None, None]
    with pytest.raises(ExportError, match="layer_types lists sliding layers, but use_sliding_wind"):
        decoder_spec({**fields, "use_sliding_window": False})
