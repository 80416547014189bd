"""Hugging Face directories: every layout that is read, and a sentence for every kind of damage."""

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.loading import loaded
from support.resident import needs_proc, resident_megabytes
from torch import Tensor

from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
DOWN = "model.layers.1.mlp.down_proj.weight"


def meta_model(config: dict[str, Any]) -> CausalLM:
    with torch.device("meta"):
        return CausalLM(decoder_spec(config)).eval()


def random_tensors(**changes: Any) -> dict[str, Tensor]:
    """Every tensor that CONFIG with these changes asks for, a tied one under both names."""
    generator = torch.Generator().manual_seed(0)
    parameters = meta_model({**CONFIG, **changes}).named_parameters(remove_duplicate=False)
    return {name: torch.randn(p.shape, generator=generator) * 0.2 for name, p in parameters}


def write(directory: Path, tensors: dict[str, Tensor], **changes: Any) -> Path:
    (directory / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    save_file(tensors, directory / "model.safetensors")
    return directory


def refusal(directory: Path) -> str:
    """The one sentence that stops an export of this directory before any work."""
    with pytest.raises(ExportError) as raised:
        checkpoint = open_checkpoint(directory)
        tied = checkpoint.config.tie_word_embeddings
        checkpoint.check(meta_model({**CONFIG, "tie_word_embeddings": tied}))
    return str(raised.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_any_float_becomes_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in random_tensors().items()}
    checkpoint = open_checkpoint(write(tmp_path, tensors))
    model = loaded(checkpoint)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32 and torch.equal(parameter, tensors[name].float())
        assert checkpoint.tensor(name).dtype == dtype
    assert checkpoint.name == tmp_path.name and checkpoint.directory == tmp_path


def test_one_layer_at_a_time(tmp_path: Path) -> None:
    tensors = random_tensors()
    checkpoint = open_checkpoint(write(tmp_path, tensors))
    model = meta_model(CONFIG)
    checkpoint.load_into(model.model.layers[1], "model.layers.1.")
    assert torch.equal(model.model.layers[1].mlp.down_proj.weight, tensors[DOWN])
    assert model.model.layers[0].mlp.down_proj.weight.is_meta


@pytest.mark.parametrize("stored", [(EMBEDDING,), (HEAD,), (EMBEDDING, HEAD)], ids=str)
def test_tied_embeddings_share_storage(tmp_path: Path, stored: tuple[str, ...]) -> None:
    tensors = random_tensors(tie_word_embeddings=True)
    table = tensors[EMBEDDING]
    tensors[HEAD] = table.clone()
    kept = {n: t for n, t in tensors.items() if n not in (EMBEDDING, HEAD) or n in stored}
    checkpoint = open_checkpoint(write(tmp_path, kept, tie_word_embeddings=True))
    model = meta_model({**CONFIG, "tie_word_embeddings": True})
    checkpoint.check(model)
    checkpoint.load_into(model.model.embed_tokens, "model.embed_tokens.")
    checkpoint.load_into(model.lm_head, "lm_head.")
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert torch.equal(model.lm_head.weight, table)
    assert torch.equal(checkpoint.tensor(HEAD), checkpoint.tensor(EMBEDDING))


def test_a_tied_head_with_other_values_is_refused(tmp_path: Path) -> None:
    write(tmp_path, random_tensors(tie_word_embeddings=True), tie_word_embeddings=True)
    assert refusal(tmp_path) == (
        f"{tmp_path.name} says tie_word_embeddings and stores lm_head.weight with values other "
        "than model.embed_tokens.weight's; to use both, set tie_word_embeddings to false in "
        "config.json."
    )


def test_a_decoder_saved_alone(tmp_path: Path) -> None:
    """No `model.` before the names, and no head: what AutoModel saves of a tied model."""
    tensors = random_tensors(tie_word_embeddings=True)
    del tensors[HEAD]
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    model = loaded(open_checkpoint(write(tmp_path, bare, tie_word_embeddings=True)))
    assert torch.equal(model.model.layers[1].mlp.down_proj.weight, tensors[DOWN])


def test_computed_tensors_of_old_checkpoints_are_passed_over(tmp_path: Path) -> None:
    tensors = random_tensors()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    loaded(open_checkpoint(write(tmp_path, tensors)))


def test_stop_ids_of_generation_config_are_added(tmp_path: Path) -> None:
    write(tmp_path, random_tensors())
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 5, 7]}')
    assert open_checkpoint(tmp_path).config.eos_token_ids == (2, 5, 7)


@pytest.mark.parametrize("ids", ['["</s>"]', "[64]", "true"])
def test_stop_ids_that_are_none_are_refused(tmp_path: Path, ids: str) -> None:
    write(tmp_path, random_tensors())
    path = tmp_path / "generation_config.json"
    path.write_text(f'{{"eos_token_id": {ids}}}')
    assert refusal(tmp_path) == (
        f"{path} has an eos_token_id that is not a token id of this model: {json.loads(ids)!r}; "
        "vocab_size is 64."
    )


def write_shards(directory: Path) -> dict[str, Tensor]:
    tensors = random_tensors()
    (directory / "config.json").write_text(json.dumps(CONFIG))
    places = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(tensors)}
    for shard in set(places.values()):
        part = {name: tensors[name] for name in tensors if places[name] == shard}
        save_file(part, directory / shard)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return tensors


def test_shards(tmp_path: Path) -> None:
    tensors = write_shards(tmp_path)
    model = loaded(open_checkpoint(tmp_path))
    assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())


def test_an_absent_shard_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path} lacks 1 of the 3 files that model.safetensors.index.json names: "
        "model-00002-of-00003.safetensors; download them as well."
    )


def test_an_index_that_places_a_tensor_wrongly_is_said(tmp_path: Path) -> None:
    write_shards(tmp_path)
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["ghost"] = "model-00001-of-00003.safetensors"
    path.write_text(json.dumps(index))
    assert refusal(tmp_path) == (
        "model.safetensors.index.json places ghost in model-00001-of-00003.safetensors, which "
        f"does not hold it; download {tmp_path} again."
    )


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_an_index_without_a_map_is_said(tmp_path: Path, content: str) -> None:
    write_shards(tmp_path)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(content)
    assert (
        refusal(tmp_path) == f"{path} has no weight_map from tensors to files; download it again."
    )


def test_missing_extra_and_mis_shaped_tensors_are_named_at_once(tmp_path: Path) -> None:
    tensors = random_tensors()
    del tensors["model.norm.weight"]
    tensors[DOWN] = tensors[DOWN].T.contiguous()
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.ones(32)
    tensors["model.layers.0.mlp.up_proj.weight"] = torch.ones(48, 32, dtype=torch.int8)
    assert refusal(write(tmp_path, tensors)) == (
        f"The weights of {tmp_path.name} do not fit its config (llama, 2 layers): 1 missing: "
        f"model.norm.weight (32); 1 with another shape: {DOWN} is (48, 32), not (32, 48); 1 not in "
        "the model: model.layers.0.self_attn.q_proj.bias (32); 1 neither float32, float16 nor "
        "bfloat16: model.layers.0.mlp.up_proj.weight is int8. Take config and weights from the "
        "same model."
    )


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn])
def test_a_type_that_is_not_read_is_named_with_those_that_are(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    tensors = random_tensors()
    tensors[DOWN] = tensors[DOWN].to(dtype)
    assert refusal(write(tmp_path, tensors)) == (
        f"The weights of {tmp_path.name} do not fit its config (llama, 2 layers): 1 neither "
        f"float32, float16 nor bfloat16: {DOWN} is {str(dtype).removeprefix('torch.')}. Save the "
        "weights in float32 or bfloat16."
    )


@pytest.mark.parametrize("suffix", ["qweight", "W_q", "weight._data"])
def test_quantized_weights_whose_config_does_not_say_so(tmp_path: Path, suffix: str) -> None:
    tensors = random_tensors()
    name = f"{DOWN.removesuffix('.weight')}.{suffix}"
    tensors[name] = tensors.pop(DOWN).to(torch.int8)
    assert refusal(write(tmp_path, tensors)).endswith(
        f"{name} belongs to quantized weights, and no quantization_config in config.json says how "
        "to read it. Add the one of these weights, or use the original float checkpoint."
    )


def test_many_tensors_are_counted(tmp_path: Path) -> None:
    tensors = {name: t for name, t in random_tensors().items() if ".layers.1." not in name}
    message = refusal(write(tmp_path, tensors))
    assert "9 missing: model.layers.1.input_layernorm.weight (32), " in message
    assert message.count("model.layers.1.") == 5 and ", ...." in message


def test_loading_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write(tmp_path, random_tensors()))
    with pytest.raises(ExportError) as raised:
        checkpoint.load_into(torch.nn.Linear(3, 3, bias=False), "model.layers.1.mlp.down_proj.")
    assert str(raised.value) == (
        f"{DOWN} is (32, 48) in {tmp_path.name} but the model needs (3, 3); the weights belong to "
        "another config.json."
    )


def header(fields: Any) -> bytes:
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return struct.pack("<Q", len(text)) + text


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


NOT_ONE = "is not a safetensors file ("
NO_SENSE = NOT_ONE + "its header's entry for a is not valid)"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty (0 bytes); download it again."),
        (b"abc", NOT_ONE + "its header length is 6513249)"),
        (b"\xff" * 64, NOT_ONE + "its header length is 18446744073709551615)"),
        (b"\0" * 64, NOT_ONE + "its header length is 0)"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is only a Git LFS pointer"),
        (struct.pack("<Q", 900) + b"{}", "is truncated: it has 10 bytes and its header needs"),
        (header(b"{'a': 1}"), NOT_ONE + "its header is not JSON)"),
        (header(b"\xff\xfe"), NOT_ONE + "its header is not JSON)"),
        (header([1]), NOT_ONE + "its header is not a JSON object)"),
        (header(entry()) + b"1234", "is truncated: it has 73 bytes and its header needs 77;"),
        (header(entry()) + b"123456789", NOT_ONE + "1 bytes at its end are of no tensor"),
        (header({}) + b"12", NOT_ONE + "2 bytes at its end are of no tensor"),
        (header(entry(data_offsets=[4, 12])) + 12 * b"1", NOT_ONE + "a does not begin where"),
        (header({**entry(), "b": entry()["a"]}) + 8 * b"1", NOT_ONE + "b does not begin"),
        (header(entry(data_offsets=[0, 9])) + b"123456789", NO_SENSE),
        (header(entry(data_offsets=[8, 0])) + b"12345678", NO_SENSE),
        (header(entry(data_offsets=[-8, 0])) + b"12345678", NO_SENSE),
        (header(entry(data_offsets=None)) + b"12345678", NO_SENSE),
        (header(entry(shape=[-2])) + b"12345678", NO_SENSE),
        (header(entry(shape=[-1, -2])) + b"12345678", NO_SENSE),
        (header(entry(shape=[2.0])) + b"12345678", NO_SENSE),
        (header(entry(shape=["2"])) + b"12345678", NO_SENSE),
        (header(entry(dtype="F33")) + b"12345678", NO_SENSE),
        (header(entry(dtype=[])) + b"12345678", NO_SENSE),
        (header({"a": 3}), NO_SENSE),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_damaged_file_is_said_to_be(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert refusal(tmp_path).startswith(f"{path} {said}")


def test_a_name_of_several_lines_is_told_in_one(tmp_path: Path) -> None:
    write(tmp_path, {**random_tensors(), "a\nb\x1b[31m": torch.ones(1)})
    assert r"1 not in the model: a\nb\x1b[31m (1)" in refusal(tmp_path)


def test_more_layers_than_tensors_are_refused_at_once(tmp_path: Path) -> None:
    write(tmp_path, random_tensors())
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 10**4}))
    assert "has num_hidden_layers 10000, but " in refusal(tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, random_tensors()) / "model.safetensors"
    content = path.read_bytes()
    for size in (1, 7, 8, 9, 500, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert refusal(tmp_path).startswith(str(path)), size


def test_a_flipped_byte_in_the_header_is_refused_or_harmless(tmp_path: Path) -> None:
    path = write(tmp_path, random_tensors()) / "model.safetensors"
    content = path.read_bytes()
    rng = random.Random(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(8 + int.from_bytes(content[:8], "little"))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded(open_checkpoint(tmp_path))
        except ExportError as error:
            assert str(path) in str(error) or tmp_path.name in str(error)


def test_a_tensor_is_a_view_of_the_file(tmp_path: Path) -> None:
    stored = torch.arange(6.0).view(2, 3)
    save_file({"a": stored, "none": torch.empty(0, 4)}, tmp_path / "x.safetensors")
    file = SafetensorsFile(tmp_path / "x.safetensors")
    assert file.tensor("a").data_ptr() == file.tensor("a").data_ptr()
    assert file.tensor("none").shape == (0, 4)
    view = file.tensor("a")
    file.release()
    assert torch.equal(view, stored)


def test_an_unaligned_tensor_is_read(tmp_path: Path) -> None:
    """The format asks for no alignment: a header of odd length puts floats at odd addresses."""
    data = struct.pack("<2f", 1.5, -2.0)
    text = json.dumps(entry()).encode()
    for padding in range(4):
        (tmp_path / "x.safetensors").write_bytes(header(text + b" " * padding) + data)
        assert SafetensorsFile(tmp_path / "x.safetensors").tensor("a").tolist() == [1.5, -2.0]


@needs_proc
def test_streaming_leaves_nothing_resident(tmp_path: Path) -> None:
    shape = {"hidden_size": 512, "intermediate_size": 4096, "num_attention_heads": 8}
    write(tmp_path, random_tensors(**shape), **shape)  # 58 MB
    checkpoint = open_checkpoint(tmp_path)
    before = resident_megabytes()
    checkpoint.tensor(DOWN).sum()
    assert resident_megabytes() > before + 6
    for layer, module in enumerate(meta_model({**CONFIG, **shape}).model.layers):
        checkpoint.load_into(module, f"model.layers.{layer}.")
        assert resident_megabytes() < before + 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere", "There is no directory nowhere; a checkpoint is a directory, a GGUF file "),
        ("a/b/c", "There is no directory a/b/c; a checkpoint is a directory, a GGUF file "),
        ("~nobody-at-all/x", "There is no directory ~nobody-at-all/x; a checkpoint is a "),
        ("x" * 5000, f"There is no directory {'x' * 5000}; a checkpoint is a directory, a GGUF "),
        ("a\0b", "There is no directory a\\x00b; a checkpoint is a directory, a GGUF file "),
    ],
)
def test_nothing_there(source: str, said: str) -> None:
    with pytest.raises(ExportError) as raised:
        open_checkpoint(source)
    assert str(raised.value).startswith(said)


def test_a_file_is_not_a_checkpoint(tmp_path: Path) -> None:
    path = write(tmp_path, random_tensors()) / "model.safetensors"
    assert refusal(path) == (
        f"{path} is a file; give a .gguf file, or the directory that holds config.json and the "
        "weights."
    )


def test_no_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert refusal(tmp_path) == (
        f"{tmp_path} has no weights: this exporter reads model.safetensors or pytorch_model.bin, "
        "or model.safetensors.index.json or pytorch_model.bin.index.json with its shards, or "
        "torchtune's model-00001-of-00001.bin, or Meta's consolidated.*.pth with params.json."
    )


def test_no_config(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"{tmp_path} has no config.json; a Hugging Face model dir")
