"""Whatever bytes a checkpoint's files have: each is read, or refused in one sentence."""

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save, save_file
from support.adapters import save_adapter
from support.gguf_files import metadata_of, stored_tensors, write_gguf
from support.hostile_bytes import any_bytes, changed, damaged, hostile, read_or_refused
from support.packed_checkpoints import CONFIG
from support.published_configs import CONFIGS
from support.random_tokenizers import train_sentencepiece
from support.trained_tokenizers import train_llama3

from exporter.catalogue.model_config import read_model_config
from exporter.checkpoint import open_checkpoint
from exporter.checkpoint.adapter import with_adapter
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.ctranslate2_file import CTranslate2File
from exporter.checkpoint.ggml_file import SIZES, GgmlFile
from exporter.checkpoint.pickled_file import PickledFile
from exporter.checkpoint.safetensors_file import SafetensorsFile
from exporter.checkpoint.sampling import read_sampling
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.file.pte import Range, _write_record, read_report, verify
from exporter.file.signing import read_private_key
from exporter.hearing.extractor_file import read_extractor
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec
from exporter.seeing.picture_settings import read_picture_settings
from exporter.tokenizer import compile_tokenizer

FIELDS = {**CONFIG, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1}
SPEC = decoder_spec(FIELDS)


def read_all(weights: Weights) -> None:
    for name in weights.shapes():
        weights.dtype(name)
        weights.tensor(name)
    weights.release()


def model_tensors() -> dict[str, torch.Tensor]:
    return {name: torch.rand(p.shape) for name, p in CausalLM(SPEC).named_parameters()}


def gguf_file(path: Path) -> Path:
    words = ["<unk>", "<s>", "</s>", *map(chr, range(97, 97 + 26)), *"_.,;:", "th", "he", *"ABCD"]
    tokens = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3, 3, 3, *[1] * (len(words) - 3)],
        "tokenizer.ggml.merges": ["t h", "h e"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }
    metadata = {**metadata_of("llama", FIELDS), **tokens}
    return write_gguf(path, metadata, stored_tensors("llama", FIELDS, model_tensors()))


def read_gguf(path: Path) -> None:
    compile_tokenizer(path)


def open_gguf(path: Path) -> None:
    read_all(open_checkpoint(path).weights)


def safetensors_file(path: Path) -> Path:
    tensors = {
        "a": torch.ones(2, 3),
        "b": torch.ones(4, dtype=torch.int8),
        "c": torch.ones(0, 2, dtype=torch.bfloat16),
        "d": torch.ones(2, 2, dtype=torch.uint8).view(torch.float8_e4m3fn),
    }
    path.write_bytes(save(tensors, {"format": "pt"}))
    return path


def pickled_file(path: Path) -> Path:
    torch.save({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.int8)}, path)
    return path


def ggml_file(path: Path) -> Path:
    content = b"lmgg" + struct.pack(f"<{len(SIZES)}i", *range(1, len(SIZES) + 1))
    content += struct.pack("<3i", 1, 2, 3) + bytes(24) + struct.pack("<2i", 1, 2) + b"ab"
    content += struct.pack("<5i", 2, 3, 0, 3, 2) + b"abc" + bytes(24)
    path.write_bytes(content)
    return path


def ctranslate2_file(path: Path) -> Path:
    content = struct.pack("<I", 6) + struct.pack("<H", 4) + b"abc\0" + struct.pack("<II", 3, 1)
    content += struct.pack("<H", 2) + b"a\0" + struct.pack("<BIIBI", 2, 2, 3, 0, 24) + bytes(24)
    path.write_bytes(content)
    return path


READERS: dict[str, tuple[Callable[[Path], Path], str, Callable[[Path], object]]] = {
    "gguf": (gguf_file, "model.gguf", open_gguf),
    "gguf tokenizer": (gguf_file, "model.gguf", read_gguf),
    "safetensors": (
        safetensors_file,
        "model.safetensors",
        lambda path: read_all(SafetensorsFile(path)),
    ),
    "pickled": (pickled_file, "model.bin", lambda path: read_all(PickledFile(path))),
    "ggml": (ggml_file, "model.bin", lambda path: read_all(GgmlFile(path))),
    "ctranslate2": (ctranslate2_file, "model.bin", lambda path: read_all(CTranslate2File(path))),
}


@pytest.mark.parametrize("name", READERS)
def test_any_bytes_of_a_file_of_weights(name: str, tmp_path: Path) -> None:
    write, file, read = READERS[name]
    path = write(tmp_path / file)
    read(path)

    @hostile
    @given(any_bytes(path.read_bytes()))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: read(path), ExportError)

    check()


def write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def config(directory: Path) -> None:
    _, spec = read_model_config(directory, None)
    spec.for_context(min(128, spec.context_limit))


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_any_config(file: str, tmp_path: Path) -> None:
    @hostile
    @given(st.sampled_from(sorted(CONFIGS)), st.data())
    def check(name: str, data: st.DataObject) -> None:
        write_json(tmp_path / "config.json", CONFIGS[name])
        sampling = {"do_sample": True, "temperature": 0.5, "top_k": 3, "eos_token_id": [1, 2]}
        document = {"config.json": CONFIGS[name], "generation_config.json": sampling}[file]
        write_json(tmp_path / file, data.draw(changed(document)))
        read_or_refused(lambda: config(tmp_path), ExportError)
        read_or_refused(lambda: read_sampling(tmp_path), ExportError)

    check()


PICTURES = {
    "image_processor_type": "Idefics3ImageProcessor",
    "resample": 1,
    "max_image_size": {"longest_edge": 364},
    "size": {"longest_edge": 1456},
    "rescale_factor": 0.00392,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
SOUND = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "n_fft": 400}


def test_any_config_of_pictures_and_sound(tmp_path: Path) -> None:
    path = tmp_path / "preprocessor_config.json"

    @hostile
    @given(changed(PICTURES), changed(SOUND))
    def check(pictures: Any, sound: Any) -> None:
        write_json(path, pictures)
        read_or_refused(lambda: read_picture_settings(tmp_path), ExportError)
        write_json(path, sound)
        read_or_refused(
            lambda: read_extractor(tmp_path, "WhisperFeatureExtractor", {"n_fft": 400}), ExportError
        )

    check()


def with_header(content: bytes, header: Any) -> bytes:
    """A safetensors file with another header, and its length."""
    text = json.dumps(header).encode()
    length = int.from_bytes(content[:8], "little")
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def header_of(content: bytes) -> Any:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_any_header_of_safetensors(tmp_path: Path) -> None:
    path = safetensors_file(tmp_path / "model.safetensors")
    content = path.read_bytes()

    @hostile
    @given(changed(header_of(content)))
    def check(header: Any) -> None:
        path.write_bytes(with_header(content, header))
        read_or_refused(lambda: read_all(SafetensorsFile(path)), ExportError)

    check()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    directory = tmp_path_factory.mktemp("base")
    save_file(model_tensors(), directory / "model.safetensors")
    write_json(directory / "config.json", FIELDS)
    return open_checkpoint(directory)


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_any_adapter(file: str, base: Checkpoint, tmp_path: Path) -> None:
    directory = save_adapter(
        tmp_path / "adapter",
        SPEC,
        1,
        linears=("q_proj", "v_proj"),
        target_modules=["q_proj", "v_proj"],
        alpha_pattern={"q_proj": 3},
        rank_pattern={"v_proj": 4},
        use_rslora=True,
    )
    path = directory / file
    content = path.read_bytes()
    read_all(with_adapter(base, directory).weights)

    @hostile
    @given(st.data())
    def check(data: st.DataObject) -> None:
        if file.endswith("json"):
            write_json(path, data.draw(changed(json.loads(content))))
        else:
            path.write_bytes(with_header(content, data.draw(changed(header_of(content)))))
        read_or_refused(lambda: read_all(with_adapter(base, directory).weights), ExportError)

    check()


def tokenizer_bytes(kind: str, directory: Path) -> Path:
    if kind == "sentencepiece":
        path = directory / "tokenizer.model"
        path.write_bytes(train_sentencepiece(model_type="bpe", vocab_size=300))
    elif kind == "ranks":
        path = directory / "qwen.tiktoken"
        words = [bytes([byte]) for byte in range(256)] + [b"th", b"he"]
        lines = [base64.b64encode(word) + b" %d" % rank for rank, word in enumerate(words)]
        path.write_bytes(b"\n".join(lines))
    else:
        path = directory / "tokenizer.json"
        path.write_text(train_llama3(), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["sentencepiece", "ranks", "json"])
def test_any_bytes_of_a_tokenizer(kind: str, tmp_path: Path) -> None:
    path = tokenizer_bytes(kind, tmp_path)

    @hostile
    @given(any_bytes(path.read_bytes()))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: compile_tokenizer(tmp_path), ExportError)

    check()


@pytest.mark.parametrize("text", [b"the", b"surface"])
def test_a_text_of_sentencepiece_that_is_not_utf8(text: bytes, tmp_path: Path) -> None:
    content = train_sentencepiece(model_type="bpe", vocab_size=300, unk_surface="surface")
    assert text in content
    (tmp_path / "tokenizer.model").write_bytes(content.replace(text, b"\xff" + text[1:], 1))
    with pytest.raises(ExportError, match="is not a readable SentencePiece model"):
        compile_tokenizer(tmp_path)


def test_any_key_to_sign_with(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    path = tmp_path / "key"

    @hostile
    @given(any_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refused(lambda: read_private_key(path), ExportError)

    check()


def sealed(content: bytes) -> bytes:
    """A `.pte` whose last bytes are those of a footer that fits the record before it."""
    size = int.from_bytes(content[-16:-12], "little") % max(1, len(content) - 16)
    record = content[len(content) - 16 - size : -16]
    return content[:-16] + struct.pack("<II8s", size, zlib.crc32(record), b"THIMBLE1")


def test_any_integrity_record(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    ranges = [Range("program", 0, 100, zlib.crc32(bytes(100)), True)]
    ranges += [Range("thimble.report", 100, 60, zlib.crc32(b"{}".ljust(60)), True)]
    record = _write_record(ranges, 160)
    content = bytes(100) + b"{}".ljust(60) + record + struct.pack("<II8s", len(record), 0, b"")
    path.write_bytes(sealed(content))
    assert read_report(path) == {}

    @hostile
    @given(damaged(content), st.booleans())
    def check(content: bytes, whole: bool) -> None:
        path.write_bytes(sealed(content) if whole and len(content) > 16 else content)
        read_or_refused(lambda: verify(path, everything=True), ExportError)
        read_or_refused(lambda: read_report(path), ExportError)

    check()


FOUND: dict[str, tuple[Any, str]] = {
    "a size beyond 64 bits": ({"data_offsets": [0, 0], "dtype": "F32", "shape": [0, 2**70]}, "h"),
    "too many dimensions": ({"data_offsets": [0, 4], "dtype": "F32", "shape": [1] * 70}, "h"),
    "a product of thousands of digits": (
        {"data_offsets": [0, 4], "dtype": "F32", "shape": [10**4000] * 3000},
        "h",
    ),
    "more positions than floats count": (
        {**FIELDS, "max_position_embeddings": 10**400, "rope_scaling": {"rope_type": "dynamic"}},
        "config.json",
    ),
    "a list for a filter": ({**PICTURES, "resample": []}, "preprocessor_config.json"),
    "a number beyond floats": ({**PICTURES, "rescale_factor": 10**400}, "preprocessor_config.json"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_not_refused(name: str, tmp_path: Path) -> None:
    document, file = FOUND[name]
    if file == "h":
        path = tmp_path / "model.safetensors"
        path.write_bytes(with_header(bytes(8) + bytes(4), {"a": document}))
        with pytest.raises(ExportError, match="entry for a is not valid"):
            SafetensorsFile(path)
        return
    write_json(tmp_path / file, document)
    with pytest.raises(ExportError):
        config(tmp_path) if file == "config.json" else read_picture_settings(tmp_path)


def test_an_adapter_of_rank_zero(base: Checkpoint, tmp_path: Path) -> None:
    directory = save_adapter(tmp_path / "adapter", SPEC, 1, rank=0, r=4)
    with pytest.raises(ExportError, match="do not fit each other"):
        with_adapter(base, directory)
    write_json(
        directory / "adapter_config.json", {"peft_type": "LORA", "r": 4, "lora_alpha": 10**400}
    )
    with pytest.raises(ExportError, match="not a number"):
        with_adapter(base, directory)


def test_an_id_of_five_thousand_digits(tmp_path: Path) -> None:
    tokenizer_bytes("json", tmp_path)
    listed = {"added_tokens_decoder": {"9" * 4999: {"content": "<x>"}}}
    write_json(tmp_path / "tokenizer_config.json", listed)
    with pytest.raises(ExportError, match="names are token ids"):
        compile_tokenizer(tmp_path)


def test_an_integrity_record_of_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(struct.pack("<II8s", 0, 0, b"THIMBLE1"))
    with pytest.raises(ExportError, match="damaged in its integrity record"):
        verify(path, everything=True)


def test_a_variable_of_no_numbers(tmp_path: Path) -> None:
    path = ctranslate2_file(tmp_path / "model.bin")
    end = struct.pack("<BIIBI", 2, 0, 3, 0, 0)
    path.write_bytes(path.read_bytes()[: -len(end) - 24] + end)
    with pytest.raises(ExportError, match="is damaged at a"):
        CTranslate2File(path)
