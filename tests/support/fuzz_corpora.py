"""What the fuzz targets of runtime/cpp/fuzz begin with: small files, and the parts of `.pte` files.

Those that a run of the tests left in build/ are of all kinds of models.
"""

import io
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from executorch.exir._serialize._program import deserialize_pte_binary
from PIL import Image
from support import gemma4_sight_models, patched_models
from support.adapters import save_adapter
from support.compressed_sound import flac, silent_mp3
from support.exported import Quiet
from support.fuzz_constraints import constraints
from support.moonshine_models import write_moonshine
from support.parakeet_models import write_parakeet
from support.random_tokenizers import first_random_tokenizer
from support.seeing_models import TEMPLATE as OF_PICTURES
from support.trained_tokenizers import (
    train_llama3,
    train_metaspace,
    train_prepending,
    train_qwen2,
)

from exporter.catalogue.names import EMBEDDED
from exporter.chat_template import compile_chat_template
from exporter.errors import ExportError
from exporter.file.pte import Range, _write_record, verify
from exporter.file.signing import _write_record as signed_record
from exporter.file.signing import sign
from exporter.hearing.log_mel import LogMelSettings, write_log_mel
from exporter.hearing.pipeline import HearingOptions, export_hearing
from exporter.hearing.transcription import Transcription, write_transcription
from exporter.hearing.waveform import WaveformSettings, write_waveform
from exporter.models import gemma4_sight, siglip2
from exporter.models.families import decoder_spec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from exporter.seeing.patch_settings import PatchSettings
from exporter.seeing.picture_blob import write_picture
from exporter.seeing.picture_settings import PictureSettings, PlaceText
from exporter.seeing.question import Question
from exporter.seeing.towers import fitted
from exporter.tokenizer import compile_tokenizer
from quant.scheme import Scheme

TEMPLATES = Path(__file__).resolve().parents[1] / "chat_templates"
APERTUS: dict[str, Any] = {
    **dict(vocab_size=4096, hidden_size=32, intermediate_size=48, num_hidden_layers=1),
    **dict(num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64),
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
MOST = 1 << 16  # bytes of a part that is taken; fuzzing is fast with small ones
MOST_OF_A_FILE = 1 << 23
PARTS = {
    **{"thimble.tokenizer": "tokenizer", "thimble.chat_template": "chat_template"},
    **{f"thimble.{name}": "settings" for name in ("picture", "log_mel", "waveform")},
    **{f"thimble.{name}": "settings" for name in ("transcription", "embedding")},
}

Corpora = dict[str, list[bytes]]


def corpora(model: Path, folder: Path, files: Path) -> Corpora:
    """By target.

    Args:
        model: a `.pte` of a language model.
        folder: for what is made.
        files: a folder with `.pte` files, at any depth, whose small parts are taken too.
    """
    content = model.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "model.pte"
    copy.write_bytes(content)
    made = {
        "chat_template": templates(),
        "constraint": constraints(),
        "npy": arrays(),
        "op_list": [],
        "picture": pictures(),
        "pte": [small_file(), b"\1" + small_file()[1:], content[-4096:], content[:64]],
        "session": sessions(),
        "settings": settings(),
        "signature": signatures(folder),
        "sound": sounds(),
        "tokenizer": tokenizers(folder),
    }
    if not (folder / "further").exists():
        further_models(folder / "further")
    for path in sorted({copy, *folder.rglob("*.pte"), *files.rglob("*.pte")}):
        for target, part in parts(path):
            if part not in made[target]:
                made[target].append(part)
    return made


def parts(path: Path) -> Iterator[tuple[str, bytes]]:
    """The small parts of a `.pte`, and the targets that read them; none of a damaged one."""
    if path.stat().st_size > MOST_OF_A_FILE:
        return
    try:
        ranges = verify(path, everything=False)
    except ExportError:
        return
    content = path.read_bytes()
    for item in ranges:
        if item.name in PARTS and item.size <= MOST:
            yield PARTS[item.name], content[item.offset : item.offset + item.size]
    program = deserialize_pte_binary(content).program
    for plan in program.execution_plan or []:  # none in a small file that `corpora` makes
        for delegate in plan.delegates:
            blob = bytes(program.backend_delegate_data[delegate.processed.index].data)
            if blob[4:8] == b"THCP" and len(blob) <= MOST:
                yield "op_list", blob


def further_models(folder: Path) -> None:
    """`.pte` files with operators that others seldom have: xIELU, adapters, rows of any number."""
    folder.mkdir()
    apertus, sounds = folder / "apertus", [folder / "moonshine", folder / "parakeet"]
    for directory in (apertus, *sounds):
        directory.mkdir()
    config = transformers.ApertusConfig(**APERTUS)
    transformers.ApertusForCausalLM(config).save_pretrained(apertus)
    save_adapter(apertus / "adapter", decoder_spec(config.to_dict()), 1)
    for scheme in (Scheme("none"), Scheme("rtn8")):
        options = ExportOptions(
            model=str(apertus),
            out=apertus / f"{scheme.name}.pte",
            scheme=scheme,
            adapters=(("one", str(apertus / "adapter")),),
            tokenizer=EMBEDDED / "tokenizer.json",
        )
        export_model(options, Quiet())
    for write, directory in zip((write_moonshine, write_parakeet), sounds, strict=True):
        write(directory)
        for path in directory.glob("*processor_config.json"):  # a second is most: small programs
            path.write_text(re.sub(r'"chunk_length": \d+', '"chunk_length": 1', path.read_text()))
        export_hearing(HearingOptions(directory, directory / "m.pte", Scheme("none")), Quiet())


def small_file() -> bytes:
    """What a `.pte` has around its program: a header, two ranges and their record."""
    header = struct.pack("<4x4s4sIQQQ", b"ET12", b"eh00", 32, 128, 0, 0)
    content = header.ljust(192, b"\0")
    ranges = [
        Range("program", 0, 128, zlib.crc32(content[:128]), True),
        Range("thimble.tokenizer", 128, 64, zlib.crc32(content[128:]), True),
    ]
    record = _write_record(ranges, len(content))
    return content + record + struct.pack("<II8s", len(record), zlib.crc32(record), b"THIMBLE1")


def sessions() -> list[bytes]:
    """Of each version, for the model that the target says it has."""
    system, user, assistant = ((role, f"text {role}".encode()) for role in range(3))
    plain = [struct.pack("<II", role, len(text)) + text for role, text in (system, user, assistant)]
    seen = [one + struct.pack("<I", 0) for one in plain]
    seen[1] = plain[1] + struct.pack("<II", 1, 0)
    sizes = (-1, 0, 0)
    old = struct.pack("<IiIII", 1, *sizes, 12) + bytes(range(12))
    new = struct.pack("<IiIIIII", 1, *sizes, 2, 2, 12) + bytes(range(12))
    tokens = struct.pack("<4i", 1, -1, 5, 6)
    messages = {1: b"", 2: b"".join(plain), 3: old + b"".join(seen), 4: new + b"".join(seen)}
    return [session(version, tokens, text) for version, text in messages.items()]


def session(version: int, tokens: bytes, messages: bytes) -> bytes:
    cache, text = bytes(range(32)), tokens + messages
    header = struct.pack(
        "<8sIIQQIII",
        *(b"THIMSESS", version, len(tokens) // 4, 1, len(cache)),
        *(zlib.crc32(text), zlib.crc32(cache), len(messages)),
    )
    return header + struct.pack("<I", zlib.crc32(header)) + text + cache


def signatures(folder: Path) -> list[bytes]:
    """Of a `.pte` and, by the target's own key, of the byte that it has for one; two keys."""
    key = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
    small, byte = folder / "small.pte", folder / "byte"
    small.write_bytes(small_file())
    byte.write_bytes(b"\0")
    with open(byte, "rb") as file:
        record = signed_record(file, [Range("program", 0, 1, 0, True)], 1)
    public = key.public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return [
        b"\1" + sign(small, key).read_bytes(),
        b"\1" + record + key.sign(record),
        b"\0" + pem,
        b"\0" + public.public_bytes_raw(),
    ]


def templates() -> list[bytes]:
    """Those that are reduced to text, those that are stored as they are, and with pictures."""
    sources = [path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))]
    made = [compile_chat_template(source, TOKENS) for source in [*sources, "{{ 1 / 0 }}"]]
    made.append(compile_chat_template(OF_PICTURES, TOKENS, place="<image>"))
    return [template.data for template in made]


def tokenizers(folder: Path) -> list[bytes]:
    """Of each kind of model, and with each kind of step."""
    trained = [train() for train in (train_llama3, train_qwen2, train_prepending, train_metaspace)]
    kinds = ("Unigram", "WordPiece", "WordLevel", "Precompiled", "BertNormalizer")
    found = []
    for document in [*trained, *map(first_random_tokenizer, kinds)]:
        (folder / "tokenizer.json").write_text(document, encoding="utf-8")
        found.append(compile_tokenizer(folder).data)
    return found


def settings() -> list[bytes]:
    """Of sounds that are read small, and of a model that knows languages."""
    whisper = LogMelSettings(8000, 100, 40, 4, 800)
    parakeet = LogMelSettings(8000, 128, 40, 4, 800, 100, 0.97, of_parakeet=True)
    writing = Transcription(1, 2, 3, 4, 5, {"en": 6, "de": 7}, (8, 9), (10,), ((0, 1), (1, 0)), 2)
    tower = siglip2.FAMILY.spec(patched_models.config().to_dict())
    text = PlaceText("<image>", "<row_{row}_col_{column}>", "\n", "<whole>", "<only>", "<end>")
    grids = (2, 1), (1, 2), (2, 2), (3, 1)
    patches = [PatchSettings(4, 2, least, most, 0.5, grids) for least, most in ((1, 2), (9, 16))]
    seeing = [
        PictureSettings(0, 16, True, 2, 1.0, (9.0,) * 3, (9.0,) * 3, 4, text, True, one)
        for one in patches
    ]
    tiled = PictureSettings(64, 16, True, 1, 1 / 255, (0.5,) * 3, (0.5,) * 3, 4, text)
    pooled = replace(seeing[0], side=24, tiles=False, patches=PatchSettings(4, 3, 1, 4, 2.0))
    by_axis = gemma4_sight.FAMILY.spec(gemma4_sight_models.config().to_dict())
    one_size = replace(tiled, longest_edge=0, tiles=False, text=replace(text, row_place="<row>"))
    return [
        write_picture(one_size, replace(tower, both_ways=True)),
        write_picture(pooled, fitted(by_axis, pooled)),
        *(
            write_picture(one, tower, Question("Look: ", "?", "<image>"))
            for one in (*seeing, tiled)
        ),
        write_log_mel(whisper),
        write_log_mel(parakeet),
        write_transcription(writing),
        write_transcription(Transcription(blank=3)),
        write_waveform(WaveformSettings(8000, 40, 2, 20)),
    ]


def arrays() -> list[bytes]:
    files = []
    for array in (
        np.arange(6, dtype="<f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="<i8").reshape(3, 2)),
        np.array(True),
        np.zeros((0, 2), "<f2"),
    ):
        buffer = io.BytesIO()
        np.save(buffer, array)
        files.append(buffer.getvalue())
    return files


def pictures() -> list[bytes]:
    files = []
    options: dict[str, object]
    for kind, mode, options in (
        ("PNG", "RGB", {}),
        ("PNG", "P", {"transparency": 0}),
        ("PNG", "LA", {}),
        ("PNG", "I;16", {}),
        ("PNG", "RGBA", {}),
        ("JPEG", "RGB", {}),
        ("JPEG", "L", {}),
        ("JPEG", "CMYK", {}),
        ("JPEG", "RGB", {"progressive": True}),
        ("WEBP", "RGB", {}),
        ("WEBP", "RGBA", {"lossless": True}),
        ("PPM", "RGB", {}),
        ("PPM", "L", {}),
    ):
        exif = Image.Exif()
        exif[0x0112] = 2 + len(files) % 7  # turned
        buffer = io.BytesIO()
        if kind != "PPM":
            options["exif"] = exif
        Image.new(mode, (5, 3), 7).save(buffer, kind, **options)
        files.append(buffer.getvalue())
    moving = io.BytesIO()
    frames = [Image.new("RGB", (5, 3), gray) for gray in (0, 9)]
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:])
    plain = [
        b"P3 # of text\n2 1\n255\n1 2 3 4 5 6\n",
        b"P2\n1 1\n15\n7\n",
        b"P6\n1 1\n65535\n123456",
    ]
    return [*files, moving.getvalue(), *plain]


def sounds() -> list[bytes]:
    """Of every type of sample, at the target's rate and another, and with a longer format; FLAC and
    MP3, complete and cut."""
    data = bytes(range(240))
    forms = (1, 1, 1), (1, 2, 2), (1, 1, 3), (1, 1, 4), (3, 1, 4), (3, 2, 8)
    files = [riff(*form, rate, data) for form in forms for rate in (8000, 11025)]
    extensible = struct.pack("<HHIH14x", 22, 16, 4, 1)
    samples = np.arange(1200, dtype="<i2").reshape(600, 2)
    compressed = [flac(samples, 8000), flac(samples[:0], 8000), silent_mp3(3), b"ID3" + bytes(40)]
    files += [*compressed, *(one[:-9] for one in compressed), b"fLaC and no more"]
    files += [riff(1, 1, 1, 1, data), flac(samples, 8000, 1 << 35), flac(samples, 655350)]  # long
    return [*files, riff(0xFFFE, 1, 2, 44100, data, extensible)]


def riff(
    kind: int, channels: int, width: int, rate: int, data: bytes, further: bytes = b""
) -> bytes:
    """A WAV file; `further` follows in its format."""
    frame = channels * width
    form = struct.pack("<HHIIHH", kind, channels, rate, frame * rate, frame, 8 * width) + further
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form
    chunks += b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", len(chunks) + len(data)) + chunks + data
