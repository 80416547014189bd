"""GGUF files: every type and architecture that is read, and a sentence for every kind of damage."""

import random
import re
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from support.gguf_files import llama3_factors, metadata_of, stored_tensors, write_gguf
from support.loading import loaded
from support.resident import needs_proc, resident_megabytes
from torch import Tensor

from exporter.catalogue.gguf_file import GgufFile
from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.gguf import Place, read_tensor
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
TOKENS = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
KEY_LENGTH = {"attention.key_length": "head_dim", "attention.value_length": "head_dim"}
TURNED = {"rope.dimension_count": "head_dim"}
DOWN = "model.layers.1.mlp.down_proj.weight"


def random_tensors(config: dict[str, Any]) -> dict[str, Tensor]:
    """Every tensor that a config asks for, by its Hugging Face name."""
    with torch.device("meta"):
        model = CausalLM(decoder_spec(config))
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(parameter.shape, generator=generator) * 0.2
        for name, parameter in model.named_parameters()
    }


def write_llama(path: Path, **changes: Any) -> Path:
    """A small Llama, its metadata changed."""
    tensors = stored_tensors("llama", CONFIG, random_tensors(CONFIG), pairs_rotate=True)
    metadata = {**metadata_of("llama", CONFIG, TURNED), **TOKENS, **changes}
    return write_gguf(path, {k: v for k, v in metadata.items() if v is not None}, tensors)


def refusal(path: Path) -> str:
    with pytest.raises(ExportError) as raised:
        loaded(open_checkpoint(path))
    return str(raised.value)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, str], bool]] = {
    "llama": ("llama", CONFIG, TURNED, True),
    "llama-biases": ("llama", {**CONFIG, "attention_bias": True}, TURNED, True),
    "qwen2": ("qwen2", {**CONFIG, "model_type": "qwen2"}, {}, False),
    "qwen3": ("qwen3", {**CONFIG, "model_type": "qwen3", "head_dim": 32}, KEY_LENGTH, False),
    "smollm3": (
        "smollm3",
        {**CONFIG, "model_type": "smollm3", "tie_word_embeddings": False},
        TURNED,
        True,
    ),
}


@pytest.mark.parametrize("tied", [False, True], ids=["own-head", "tied"])
@pytest.mark.parametrize("case", CASES)
def test_an_architecture_is_what_it_was_converted_from(
    tmp_path: Path, case: str, tied: bool
) -> None:
    architecture, config, names, pairs_rotate = CASES[case]
    config = {**config, "tie_word_embeddings": tied}
    tensors = random_tensors(config)
    stored = stored_tensors(architecture, config, tensors, pairs_rotate=pairs_rotate)
    metadata = {**metadata_of(architecture, config, names), **TOKENS}
    checkpoint = open_checkpoint(write_gguf(tmp_path / "model.gguf", metadata, stored))
    expected = decoder_spec({**config, "rms_norm_eps": float(np.float32(config["rms_norm_eps"]))})
    assert checkpoint.config == expected
    model = loaded(checkpoint)
    assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())
    assert checkpoint.name == "model"


@pytest.mark.parametrize("case", ["llama", "qwen2", "qwen3"])
def test_logits_are_those_of_transformers(tmp_path: Path, case: str) -> None:
    pytest.importorskip("accelerate", reason="transformers reads GGUF only beside accelerate")
    from transformers import AutoModelForCausalLM

    architecture, config, names, pairs_rotate = CASES[case]
    if case == "qwen3":
        config = {**config, "head_dim": 128}  # it reads no other from the file
    tensors = random_tensors(config)
    stored = stored_tensors(architecture, config, tensors, Type.Q8_0, pairs_rotate)
    path = tmp_path / "model.gguf"
    write_gguf(path, {**metadata_of(architecture, config, names), **TOKENS}, stored)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name).eval()
    ours = loaded(open_checkpoint(path))
    tokens = torch.randint(0, 64, (1, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = theirs(tokens).logits
        hidden = ours.embed(tokens)
        for layer in ours.model.layers:
            hidden = layer(hidden, ours.context(40))
        logits = ours.lm_head(ours.model.norm(hidden))
    assert (logits - wanted).abs().max() < 1e-4


def test_llama3s_rotary_parameters_are_found_from_its_factors(tmp_path: Path) -> None:
    for head_dim, theta, original in ((64, 500000.0, 8192), (16, 10000.0, 1024)):
        scaling = {**LLAMA3, "original_max_position_embeddings": original}
        config = {**CONFIG, "head_dim": head_dim, "rope_theta": theta, "rope_scaling": scaling}
        tensors = stored_tensors("llama", config, random_tensors(config), pairs_rotate=True)
        factors = llama3_factors(head_dim, theta, scaling)
        tensors["rope_freqs.weight"] = factors.numpy(), Type.F32
        metadata = {**metadata_of("llama", config, {**TURNED, **KEY_LENGTH}), **TOKENS}
        checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors))
        tables, wanted = (made.rotary_tables for made in (checkpoint.config, decoder_spec(config)))
        assert tables == wanted


def test_other_rotary_factors_are_refused(tmp_path: Path) -> None:
    tensors = stored_tensors("llama", CONFIG, random_tensors(CONFIG), pairs_rotate=True)
    tensors["rope_freqs.weight"] = np.linspace(1, 3, 8, dtype=np.float32), Type.F32
    path = write_gguf(tmp_path / "m.gguf", metadata_of("llama", CONFIG), tensors)
    assert refusal(path) == (
        f"{path}: rope_freqs.weight are not the rotary factors that rope_type 'llama3' makes; "
        "other ones are not computed."
    )


def test_linear_scaling(tmp_path: Path) -> None:
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    config = open_checkpoint(write_llama(tmp_path / "m.gguf", **scaling)).config
    wanted = decoder_spec({**CONFIG, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})
    assert config.rotary_tables == wanted.rotary_tables


def dequantizable() -> list[Type]:
    found = []
    for type in Type:
        try:
            gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[type][1]), np.uint8), type)
        except NotImplementedError:
            continue
        found.append(type)
    return found


@pytest.mark.parametrize("type", dequantizable(), ids=lambda type: type.name)
def test_every_type_that_gguf_makes_floats_of(tmp_path: Path, type: Type) -> None:
    """In steps as at once: rows of one block, more of them than are read at a time."""
    block, size = gguf.GGML_QUANT_SIZES[type]
    rows = (1 << 20) // (8 * block) + 3
    raw = np.random.default_rng(0).integers(0, 60, (rows, 8 * size), dtype=np.uint8)
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "x"}, {"a": (raw, type)})
    made = read_tensor(Place(GgufFile(path), "a"))
    with np.errstate(all="ignore"):
        wanted = torch.from_numpy(gguf.dequantize(raw, type))
    assert made.shape == (rows, 8 * block)
    assert torch.equal(made.float().nan_to_num(), wanted.nan_to_num())


def test_a_type_without_floats_is_refused(tmp_path: Path) -> None:
    raw = np.zeros((2, 2 * gguf.GGML_QUANT_SIZES[Type.Q8_1][1]), np.uint8)
    path = write_gguf(tmp_path / "m.gguf", metadata_of("llama", CONFIG), {"a": (raw, Type.Q8_1)})
    assert refusal(path) == (
        f"{path} stores tensors as Q8_1, of which no floats can be made; convert the model to "
        "another type, such as Q8_0."
    )


def write_parts(directory: Path) -> list[Path]:
    tensors = stored_tensors("llama", CONFIG, random_tensors(CONFIG), pairs_rotate=True)
    paths = []
    for index in range(3):
        part = dict(list(tensors.items())[index::3])
        metadata = metadata_of("llama", CONFIG, TURNED) if index == 0 else {}
        metadata |= {"split.no": index, "split.count": 3}
        paths.append(directory / f"m-0000{index + 1}-of-00003.gguf")
        write_gguf(paths[-1], metadata, part)
    return paths


def test_a_split_file_is_read_by_the_name_of_any_part(tmp_path: Path) -> None:
    tensors = random_tensors(CONFIG)
    for path in write_parts(tmp_path):
        model = loaded(open_checkpoint(path))
        assert all(torch.equal(p, tensors[name]) for name, p in model.named_parameters())


def test_an_absent_part_is_named(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[1].unlink()
    assert refusal(paths[0]) == (
        f"{tmp_path} lacks 1 of the 3 parts of {paths[0].name}: {paths[1].name}; download them as "
        "well."
    )


def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[2].write_bytes(paths[1].read_bytes())
    assert refusal(paths[0]) == (
        f"{paths[2]} does not belong to the other parts; download all of them again."
    )
    alone = tmp_path / "renamed.gguf"
    paths[0].rename(alone)
    assert refusal(alone) == (
        f"{alone} is one of 3 parts and is not called so; give the parts the names they had, "
        "which end in -00001-of-0000N.gguf."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"general.architecture": "mamba"}, "general.architecture 'mamba' is not read from GGUF"),
        ({"general.architecture": None}, "general.architecture None is not read from GGUF"),
        ({"llama.block_count": 900}, "llama.block_count is 900, and there are 21 tensors in all;"),
        ({"llama.embedding_length": None}, "hidden_size is missing, but the decoder needs it"),
        ({"llama.attention.head_count": "x"}, "num_attention_heads is 'x'; it must be a whole"),
        ({"llama.rope.dimension_count": 8}, "partial_rotary_factor 0.5 is not supported"),
        ({"llama.rope.scaling.type": "warp"}, "rope_type 'warp' is not supported"),
        ({"llama.attention.value_length": 8}, "heads of two sizes are not built."),
        ({"tokenizer.ggml.eos_token_id": 99}, "token id 99 (bos_token_id or eos_token_id) is"),
    ],
    ids=str,
)
def test_metadata_that_cannot_be_built_is_said(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = write_llama(tmp_path / "m.gguf", **changes)
    message = refusal(path)
    assert message.startswith(f"{path}: ") and said in message


def test_tensors_of_another_model_are_named(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", **{"llama.feed_forward_length": 128})
    assert "model.layers.0.mlp.gate_proj.weight is (96, 64), not (128, 64)" in refusal(path)


def header(version: int = 3, tensors: int = 0, pairs: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + rest


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(name: str, sizes: list[int], kind: int = 0, offset: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + shape + struct.pack("<IQ", kind, offset)


CUT = "is cut short or damaged: it holds "


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty (0 bytes); download it again."),
        (
            b"GGML" * 9,
            "is not a GGUF file: it begins with b'GGML', not b'GGUF'; download it again.",
        ),
        (b"version https://git-lfs.github.com/spec/v1\n", "is only a Git LFS pointer"),
        (b"GGUF", CUT),
        (header(version=1), "has GGUF version 1; versions 2 and 3 are read: convert the model"),
        (header(version=3 << 24), "is a big-endian GGUF file; only little-endian ones are read"),
        (header(pairs=2**63), CUT),
        (header(tensors=2**63), CUT),
        (header(tensors=5, rest=b"\0" * 99), CUT),
        (header(pairs=1, rest=struct.pack("<Q", 2**63) + b"abc"), CUT),
        (header(pairs=1, rest=text("a") + struct.pack("<I", 77)), "(a has the unknown type 77)"),
        (header(pairs=1, rest=text(b"\xff")), "(a metadata name is b'\\xff', which is not UTF-8)"),
        (
            header(pairs=1, rest=text("a") + struct.pack("<IIQ", 9, 9, 1) + b"\0" * 50),
            "(a is a list of lists, which no GGUF file has)",
        ),
        (header(pairs=1, rest=text("a") + struct.pack("<IIQ", 9, 4, 2**62)), CUT),
        (header(pairs=1, rest=text("a") + struct.pack("<IIQ", 9, 4, 2**64 - 1)), CUT),
        (header(pairs=1, rest=text("a") + struct.pack("<IIQ", 9, 8, 2**60)), CUT),
        (
            header(pairs=2, rest=2 * (text("a") + struct.pack("<IB", 7, 1))),
            "(its metadata has a twice)",
        ),
        (header(tensors=1, rest=entry("a", [1] * 5)), "(a has 5 dimensions, more than 4)"),
        (header(tensors=1, rest=entry("a", [2**40, 2**40])), "of type F32 has the shape"),
        (header(tensors=1, rest=entry("a", [])), "(a of type F32 has the shape ())"),
        (header(tensors=1, rest=entry("a", [33], 8)), "(a of type Q8_0 has the shape (33,))"),
        (
            header(tensors=1, rest=entry("a", [32], 4000)),
            "stores a as type 4000, which is not known; update the gguf package",
        ),
        (header(tensors=1, rest=entry("a", [4], 0, 7)), "(a lies at 7, no multiple of 32)"),
        (
            header(tensors=2, rest=2 * entry("a", [4]) + b"\0" * 64),
            "(it holds a twice)",
        ),
        (
            header(tensors=2, rest=entry("a", [16]) + entry("b", [4], 0, 32) + b"\0" * 999),
            "(b overlaps a)",
        ),
        (
            header(tensors=1, rest=entry("a", [16], 0, 320) + b"\0" * 320),
            "is cut short: it holds 377 bytes and a ends at 448; download it again.",
        ),
        (
            header(
                pairs=1, rest=text("general.alignment") + struct.pack("<II", 4, 24) + b"\0" * 64
            ),
            "(general.alignment is 24, not a power of two)",
        ),
    ],
    ids=range(27),
)
def test_a_damaged_file_is_said_to_be(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    message = refusal(path)
    assert message.startswith(str(path)) and said in message and "\n" not in message


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    content = path.read_bytes()
    for size in (3, 4, 7, 30, 500, 1000, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert refusal(path).startswith(str(path)), size


def test_flipped_bits_of_a_header_are_refused_or_harmless(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    content = path.read_bytes()
    end = min(tensor.offset for tensor in GgufFile(path).tensors.values())
    chance = random.Random(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        damaged[chance.randrange(end)] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded(open_checkpoint(path))
        except ExportError as error:
            refused += 1
            assert re.match(rf"{re.escape(str(path))}|The weights of m ", str(error)), error
            assert "\n" not in str(error)
    assert refused > 100


@needs_proc
def test_streaming_leaves_nothing_resident(tmp_path: Path) -> None:
    shape = {"hidden_size": 512, "intermediate_size": 8192, "head_dim": 128}
    config = {**CONFIG, **shape}
    tensors = stored_tensors("llama", config, random_tensors(config), Type.Q8_0, True)
    metadata = metadata_of("llama", config, TURNED)
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors))  # 28 MB
    del tensors
    before = resident_megabytes()
    with torch.device("meta"):
        model = CausalLM(checkpoint.config)
    checkpoint.tensor(DOWN).sum()
    assert resident_megabytes() > before + 3
    for layer, module in enumerate(model.model.layers):
        checkpoint.load_into(module, f"model.layers.{layer}.")
        assert resident_megabytes() < before + 2
