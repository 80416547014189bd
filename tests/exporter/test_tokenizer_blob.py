"""The compiled forms as flatbuffers: written as their schemas say, and harmless when damaged."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import executorch.data.bin
import pytest
from support.cpp_programs import CppTokenizer
from support.random_tokenizers import first_random_tokenizer, train_sentencepiece
from support.tiers import checked
from support.trained_tokenizers import train_digits, train_llama3, train_metaspace, train_qwen2

from exporter.chat_template import compile_chat_template
from exporter.tokenizer import compile_tokenizer
from exporter.tokenizer.compile import read_specification
from exporter.tokenizer.specification import Bpe, Normalize, Prepend, Spaces, Split

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "tests" / "chat_templates"
FLATC = Path(next(iter(executorch.data.bin.__path__))) / "flatc"


KINDS = {Normalize: "form", Prepend: "prepend", Spaces: "spaces", Split: "split"}


def compile_text(document: str, directory: Path) -> bytes:
    (directory / "tokenizer.json").write_text(document, encoding="utf-8")
    return compile_tokenizer(directory).data


def compile_template(name: str) -> bytes:
    source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    return compile_chat_template(source, TOKENS).data


def read_with_flatc(schema: str, data: bytes, directory: Path) -> dict:
    """What the schema compiler reads in `data`, after it has taken it apart and put it together."""
    schema_path = ROOT / "exporter" / "schemas" / schema
    binary = directory / "blob.bin"
    binary.write_bytes(data)
    flatc = [FLATC, "--strict-json", "-o", directory]
    subprocess.run(
        [*flatc, "--json", "--defaults-json", schema_path, "--", binary], check=True, timeout=100
    )
    document = (directory / "blob.json").read_text(encoding="utf-8")
    subprocess.run([*flatc, "--binary", schema_path, directory / "blob.json"], check=True)
    return json.loads(document)


@pytest.mark.parametrize("train", [train_qwen2, train_llama3, train_digits, train_metaspace])
def test_the_tokenizer_follows_its_schema(train: Callable[[], str], tmp_path: Path) -> None:
    data = compile_text(train(), tmp_path)
    spec = read_specification(tmp_path)
    written = read_with_flatc("tokenizer.fbs", data, tmp_path)
    assert written["version"] == 2
    assert written["vocab_size"] == len(spec.tokens)
    assert written["bos_id"] == (-1 if spec.bos_id is None else spec.bos_id)
    assert written["adds_bos"] == spec.adds_bos
    decoder = written["decoder"]
    assert bytes(decoder["token_bytes"]) == b"".join(spec.tokens)
    assert decoder["token_ends"][-1] == len(decoder["token_bytes"])
    assert decoder["skipped"] == spec.decoder.skipped
    assert decoder["replaces_each_byte"] == spec.decoder.replaces_each_byte
    assert [(step["kind"], step["count"]) for step in decoder["finish"]] == [
        (step.kind.name.lower(), step.count) for step in spec.decoder.finish
    ]
    assert isinstance(spec.model, Bpe)
    model = written["bpe"]
    assert model["byte_symbols"] == spec.model.byte_symbols
    assert model["byte_fallback"] == spec.model.byte_fallback
    symbols = {
        block * 128 + place: symbol
        for characters in model["characters"]
        for block, at in enumerate(characters["blocks"])
        for place, symbol in enumerate(characters["symbols"][at * 128 : at * 128 + 128])
        if symbol != 0xFFFFFFFF
    }
    assert symbols == (spec.model.characters[0] if spec.model.characters else {})
    rows = {tuple(model["merges"][at : at + 4]) for at in range(0, len(model["merges"]), 4)}
    assert {row for row in rows if row[0] != 0xFFFFFFFF} == set(spec.model.merges)
    assert ("words" in model) == (spec.model.whole_words is not None)
    for steps, name in ((spec.normalizers, "normalizers"), (spec.pre_tokenizers, "pre_tokenizers")):
        assert [step["kind"] for step in written[name]] == [KINDS[type(step)] for step in steps]
    automata = [step.get("automaton") for step in written["pre_tokenizers"]]
    assert [automaton["transitions"] for automaton in automata if automaton] == [
        step.automaton.transitions.tolist()
        for step in spec.pre_tokenizers
        if isinstance(step, Split)
    ]
    added = [
        (token["content"], token["id"], token["special"], token["lstrip"], token["rstrip"])
        for token in written["added_tokens"]
    ]
    assert sorted(added) == sorted(
        (token.pattern, token.id, token.special, token.lstrip, token.rstrip)
        for token in spec.added_tokens
    )


def test_what_flatc_writes_is_read_back(tmp_path: Path, cpp_build: Path) -> None:
    data = compile_text(train_qwen2(), tmp_path)
    read_with_flatc("tokenizer.fbs", data, tmp_path)
    rewritten = tmp_path / "blob.bin"  # flatc's own layout of the same values
    assert rewritten.read_bytes() != data
    original = tmp_path / "original"
    original.write_bytes(data)
    texts = ["e\u0301 don't 123<tool_call> x", "\uac00\u11a8"]
    ours = CppTokenizer(cpp_build, original).encode(texts)
    assert CppTokenizer(cpp_build, rewritten).encode(texts) == ours


def test_the_chat_template_follows_its_schema(tmp_path: Path) -> None:
    written = read_with_flatc("chat_template.fbs", compile_template("mistral"), tmp_path)
    assert written["version"] == 2
    form = written["with_system"]
    assert form["system_before_last_user"] is True
    edges = {(edge["origin"], edge["target"]): edge["text"] for edge in form["edges"]}
    assert edges["start", "first_user"] == "<s>[INST] "
    assert edges["system", "last_user"] == "\n\n"
    assert edges["last_user", "prompt"] == "[/INST]"
    assert {rule["place"]: rule["strip_left"] for rule in form["rules"]} == {
        "system": "nothing",
        "only_user": "nothing",
        "first_user": "nothing",
        "user": "nothing",
        "last_user": "nothing",
        "assistant": "white_space",
    }


def test_a_template_stored_as_text_follows_its_schema(tmp_path: Path) -> None:
    source = "{% for message in messages %}{{ message.content | upper }}{% endfor %}"
    data = compile_chat_template(source, {"bos_token": "", "eos_token": ""}).data
    written = read_with_flatc("chat_template.fbs", data, tmp_path)
    assert written["source"] == source
    assert written["reason"]
    assert "without_system" not in written


def test_the_reader_stays_inside_any_buffer(cpp_build: Path) -> None:
    subprocess.run([cpp_build / "flatbuffer_test"], check=True, timeout=100)


@pytest.mark.parametrize("train", [train_qwen2, train_llama3, train_metaspace])
def test_a_damaged_tokenizer_is_harmless(
    train: Callable[[], str], tmp_path: Path, cpp_build: Path
) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(compile_text(train(), tmp_path))
    subprocess.run([cpp_build / "damaged_blob_test", blob, "2000"], check=True, timeout=100)


@pytest.mark.parametrize(
    "kind", ["Unigram", "char", *checked(["WordPiece", "WordLevel", "Precompiled"])]
)
def test_any_damaged_kind_is_harmless(kind: str, tmp_path: Path, cpp_build: Path) -> None:
    """The first random tokenizer with such a model or step, or SentencePiece model."""
    if kind == "char":
        model = train_sentencepiece(
            model_type="char", normalization_rule_name="nmt_nfkc", user_defined_symbols=["the"]
        )
        (tmp_path / "spiece.model").write_bytes(model)
        data = compile_tokenizer(tmp_path).data
    else:
        data = compile_text(first_random_tokenizer(kind), tmp_path)
    blob = tmp_path / "blob"
    blob.write_bytes(data)
    subprocess.run([cpp_build / "damaged_blob_test", blob, "1000"], check=True, timeout=100)


@pytest.mark.parametrize("name", ["llama2", "thinking"])
def test_a_damaged_chat_template_is_harmless(name: str, tmp_path: Path, cpp_build: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(compile_template(name))
    subprocess.run([cpp_build / "damaged_blob_test", blob, "20000"], check=True, timeout=100)


@pytest.mark.parametrize("program", ["tokenizer_cli", "chat_template_cli"])
def test_another_file_is_refused_with_a_sentence(
    program: str, tmp_path: Path, cpp_build: Path
) -> None:
    blob = tmp_path / "blob"
    for data in (b"", b"not a flatbuffer at all", bytes(64)):
        blob.write_bytes(data)
        outcome = subprocess.run(
            [cpp_build / program, blob, "encode"], stdin=subprocess.DEVNULL, capture_output=True
        )
        assert outcome.returncode == 1
        assert b"is damaged" in outcome.stderr
        assert b"export the model again" in outcome.stderr


def test_another_version_is_refused_by_number(tmp_path: Path, cpp_build: Path) -> None:
    written = read_with_flatc("chat_template.fbs", compile_template("chatml"), tmp_path)
    written["version"] = 9
    (tmp_path / "blob.json").write_text(json.dumps(written))
    schema = ROOT / "exporter" / "schemas" / "chat_template.fbs"
    subprocess.run(
        [FLATC, "--binary", "-o", tmp_path, schema, tmp_path / "blob.json"], check=True, timeout=100
    )
    outcome = subprocess.run(
        [cpp_build / "chat_template_cli", tmp_path / "blob.bin", "end"], capture_output=True
    )
    assert outcome.returncode == 1
    assert b"has version 9; this program reads versions 1 to 2" in outcome.stderr
