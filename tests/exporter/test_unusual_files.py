"""Checkpoints that tools write in ways of their own: read as they are meant, or refused for what
is wrong with them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.loading import loaded
from support.packed_checkpoints import (
    COMPRESSED,
    CONFIG,
    GPTQ,
    Rounded,
    Tensors,
    assert_read,
    compressed,
    gptq,
    rounded,
    symmetric,
    write,
)
from torch.nn import functional as F

from exporter.catalogue.safetensors_header import BYTES
from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.safetensors_file import _DTYPES
from exporter.errors import ExportError
from exporter.file.replacing import check_outputs
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

LINEAR = "model.layers.0.mlp.up_proj.weight"


def write_floats(directory: Path, **changes: Any) -> Tensors:
    """Saves a random model; returns its tensors."""
    random = torch.Generator().manual_seed(0)
    model = CausalLM(decoder_spec(CONFIG))
    tensors = {n: torch.rand(p.shape, generator=random) for n, p in model.named_parameters()}
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return tensors


def refusal(directory: Path) -> str:
    with pytest.raises(ExportError) as error:
        assert_read(directory, {})
    return str(error.value)


@pytest.mark.parametrize("pickled", [False, True])
def test_shards_without_an_index(tmp_path: Path, pickled: bool) -> None:
    tensors = write_floats(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    stem, end = ("pytorch_model", "bin") if pickled else ("model", "safetensors")
    paths = [tmp_path / f"{stem}-0000{number}-of-00002.{end}" for number in (1, 2)]
    for index, path in enumerate(paths):
        part = {name: tensors[name] for name in sorted(tensors)[index::2]}
        (torch.save if pickled else save_file)(part, path)
    assert_read(tmp_path, tensors)
    paths[0].unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path} lacks 1 of 2 files of weights: {paths[0].name}; download them as well."
    )


def test_a_decoder_saved_alone_beside_its_head(tmp_path: Path) -> None:
    tensors = write_floats(tmp_path)
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(bare, tmp_path / "model.safetensors")
    assert_read(tmp_path, tensors)
    assert open_checkpoint(tmp_path).notes == ()


@pytest.mark.parametrize(
    ("around", "inside"),
    [
        ("module.", ""),
        ("_orig_mod.", ""),
        ("module._orig_mod.", ""),
        ("base_model.model.", ""),
        ("model.", ""),
        ("", "_orig_mod."),
        ("", "_fsdp_wrapped_module._checkpoint_wrapped_module."),
    ],
)
def test_names_of_what_trained_or_compiled_the_model(
    tmp_path: Path, around: str, inside: str
) -> None:
    tensors = write_floats(tmp_path)
    named = {
        around + name.replace("layers.0.", f"layers.0.{inside}"): tensor
        for name, tensor in tensors.items()
    }
    save_file(named, tmp_path / "model.safetensors")
    assert_read(tmp_path, tensors)
    (note,) = open_checkpoint(tmp_path).notes
    assert note.startswith("names of tensors have around them what trained or compiled the model")
    both = {name: tensor.clone() for name, tensor in {**named, **tensors}.items()}
    save_file(both, tmp_path / "model.safetensors")  # of which either could be meant
    assert f"{len(named.keys() - tensors.keys())} not in the model: " in refusal(tmp_path)


def test_heads_that_judge_texts_are_left_out(tmp_path: Path) -> None:
    tensors = write_floats(tmp_path)
    of_trl = {"v_head.summary.weight": torch.ones(1, 64), "v_head.summary.bias": torch.ones(1)}
    other = {"score.weight": torch.ones(1, 64), "value_head.weight": torch.ones(1, 64)}
    save_file({**tensors, **of_trl, **other}, tmp_path / "model.safetensors")
    assert_read(tmp_path, tensors)
    assert open_checkpoint(tmp_path).left_out == {"v_head": 2, "score": 1, "value_head": 1}


def test_float64_and_tables_of_old_checkpoints(tmp_path: Path) -> None:
    tensors = write_floats(tmp_path)
    old = {"attention.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool)}
    old |= {"attention.masked_bias": torch.tensor(-1e9), "rotary_emb.inv_freq": torch.ones(4)}
    stored = {name: tensor.double() for name, tensor in tensors.items()}
    stored |= {f"model.layers.0.self_attn.{name}": tensor for name, tensor in old.items()}
    save_file(stored, tmp_path / "model.safetensors")
    assert_read(tmp_path, tensors)


@pytest.mark.parametrize(
    "dtype", [torch.uint32, torch.uint16, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2]
)
def test_a_type_that_holds_no_floats_is_named(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = write_floats(tmp_path)
    packed = torch.zeros(tensors[LINEAR].shape[0], 8, dtype=torch.uint8)
    if dtype.itemsize > 1:
        packed = packed.repeat(1, dtype.itemsize)
    save_file({**tensors, LINEAR: packed.view(dtype)}, tmp_path / "model.safetensors")
    said = str(dtype).removeprefix("torch.")
    assert f"1 neither float32, float16 nor bfloat16: {LINEAR} is {said}." in refusal(tmp_path)


@pytest.mark.parametrize("value", [[], {}, None])
def test_no_quantization_config(tmp_path: Path, value: Any) -> None:
    assert_read(tmp_path, write_floats(tmp_path, quantization_config=value))


def test_a_quantization_config_that_is_no_object(tmp_path: Path) -> None:
    write_floats(tmp_path, quantization_config=["gptq"])
    assert "quantization_config is ['gptq']; it must be an object, or null" in refusal(tmp_path)


def test_biases_of_zeros_are_passed_over(tmp_path: Path) -> None:
    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, 32, seed), 4)
        return weight, {**gptq(weight, 4, 1, None), "bias": torch.zeros(rows)}

    assert_read(tmp_path, write(tmp_path, {**GPTQ, "sym": True}, pack))
    path = tmp_path / "model.safetensors"
    name = LINEAR.replace("weight", "bias")
    tensors = load_file(path)
    tensors[name][3] = 1e-3
    save_file(tensors, path)
    assert f"1 not in the model: {name}" in refusal(tmp_path)


def test_words_that_the_inputs_do_not_fill(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(CONFIG, "intermediate_size", 92)

    def pack(rows: int, columns: int, seed: int) -> tuple[Rounded, Tensors]:
        weight = symmetric(rounded(rows, columns, 4, -1, seed), 4)
        filled = Rounded(
            F.pad(weight.values, (0, -columns % 8)), weight.zeros, weight.scales, weight.groups
        )
        parts = compressed(filled, 4, packed=True, symmetric=True)
        return weight, {**parts, "weight_shape": torch.tensor([rows, columns])}

    weights = {"num_bits": 4, "type": "int", "strategy": "channel"}
    config = {**COMPRESSED, "config_groups": {"group_0": {"weights": weights}}}
    assert_read(tmp_path, write(tmp_path, config, pack))
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.0.mlp.down_proj.weight_shape"][1] = 64
    save_file(tensors, path)
    assert "weight_shape says (64, 64), and (64, 96) are stored" in refusal(tmp_path)


def test_a_file_in_shared_memory_is_no_device() -> None:
    if Path("/dev/shm").is_dir():
        check_outputs(Path("/dev/shm/no-such-model.pte"), None)
    with pytest.raises(ExportError, match="^/dev/no-such-model.pte is a device or a pipe; name"):
        check_outputs(Path("/dev/no-such-model.pte"), None)


@pytest.mark.parametrize("named", ["other.safetensors", "other.safetensors.index.json"])
def test_the_file_that_the_config_names_is_read(tmp_path: Path, named: str) -> None:
    tensors = write_floats(tmp_path, transformers_weights=named)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    save_file({name: x + 1 for name, x in tensors.items()}, tmp_path / "model.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "other.safetensors")}
    (tmp_path / "other.safetensors.index.json").write_text(json.dumps(index))
    model = loaded(open_checkpoint(tmp_path))
    assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())
    for name in ("other.safetensors", "other.safetensors.index.json"):
        (tmp_path / name).unlink()
    with pytest.raises(ExportError) as refused:
        open_checkpoint(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'config.json'} says that the weights are in transformers_weights {named!r}, "
        f"which is not a safetensors file, or an index of them, in {tmp_path}; put it there, or "
        "remove the field."
    )


def test_types_of_a_header_are_those_of_torch() -> None:
    assert {name: dtype.itemsize for name, dtype in _DTYPES.items()} == BYTES
