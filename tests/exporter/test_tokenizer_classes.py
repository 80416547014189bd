"""Classes of transformers that replace steps of a tokenizer.json, or read a SentencePiece model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.cpp_programs import CppTokenizer
from support.hostile_text import hostile_strings
from support.tiers import checked, checked_rows, soaked_rows
from support.trained_tokenizers import TRAINERS
from transformers import AutoTokenizer

from exporter.tokenizer import TokenizerError, compile_tokenizer
from exporter.tokenizer.reference import load_tokenizer

TEXTS = (
    *hostile_strings(200, seed=5),
    *(" a1 22 <s>x</s>  y <unk> caf\u00e9 \u0301 12345", "<tool>e\u0301<mask> z", "\u2581x y"),
)
Json = dict[str, Any]


def check(
    directory: Path, config: Json | None, model_type: str, cpp_build: Path, **model: str
) -> str:
    """Checks the ids, the texts and the named tokens; returns the notes."""
    if config is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps({"model_type": model_type, **model}))
    oracle = AutoTokenizer.from_pretrained(directory)
    compiled = compile_tokenizer(directory)
    (directory / "blob").write_bytes(compiled.data)
    cpp = CppTokenizer(cpp_build, directory / "blob")
    expected = [oracle(text, add_special_tokens=False).input_ids for text in TEXTS]
    assert cpp.encode(list(TEXTS), parse_special=True) == expected
    assert cpp.decode(expected) == [
        oracle.decode(ids, skip_special_tokens=True) for ids in expected
    ]
    assert compiled.tokens == oracle.special_tokens_map
    return " ".join(compiled.notes)


@pytest.mark.parametrize(
    ("trained", "config", "replaced"),
    [
        ("prepending", {"tokenizer_class": "LlamaTokenizerFast"}, "normalizer, pre_tokenizer."),
        ("metaspace", {"tokenizer_class": "LlamaTokenizer", "legacy": True}, "pre_tokenizer."),
        ("metaspace", {"tokenizer_class": "CodeLlamaTokenizer"}, ""),
        ("digits", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, "pre_tokenizer"),
        ("llama3", {"tokenizer_class": "GPTNeoXTokenizer"}, "model.ignore_merges"),
        ("metaspace", {"tokenizer_class": "GemmaTokenizer"}, "normalizer, pre_tokenizer."),
        ("qwen2", {"tokenizer_class": "Qwen2Tokenizer"}, ""),
        ("digits", {"tokenizer_class": "Qwen2Tokenizer"}, "normalizer, pre_tokenizer."),
        ("qwen2", {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {}}, "(<tool>)"),
        ("qwen2", {"tokenizer_class": "Qwen3_5Tokenizer"}, "pre_tokenizer."),
        ("digits", {"tokenizer_class": "CohereTokenizer"}, "normalizer."),
        ("digits", {"tokenizer_class": "PreTrainedTokenizerFast"}, ""),
    ],
)
def test_a_class_replaces_steps(
    trained: str, config: Json, replaced: str, tmp_path: Path, cpp_build: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(TRAINERS[trained](), encoding="utf-8")
    notes = check(tmp_path, config, "llama", cpp_build)
    assert (replaced in notes) if replaced else not notes


@pytest.mark.parametrize(
    ("trained", "config", "model_type", "note"),
    [
        ("digits", None, "qwen3", "replaces these parts of tokenizer.json: normalizer, pre_token"),
        ("digits", {}, "qwen2_vl", "replaces these parts of tokenizer.json: normalizer, pre_token"),
        ("digits", None, "gpt_neox", "the class GPTNeoXTokenizer replaces"),
        ("digits", None, "llama", ""),
        ("digits", {"tokenizer_class": "PreTrainedTokenizerFast"}, "qwen3", ""),
        (
            "digits",
            {"tokenizer_class": "PreTrainedTokenizerFast"},
            "qwen2",
            "It is that of every qwen2, whatever tokenizer_config.json names.",
        ),
    ],
)
def test_a_model_type_has_a_class(
    trained: str, config: Json | None, model_type: str, note: str, tmp_path: Path, cpp_build: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text(TRAINERS[trained](), encoding="utf-8")
    notes = check(tmp_path, config, model_type, cpp_build)
    assert (note in notes) if note else not notes


@pytest.mark.parametrize(
    ("fix", "model_type", "more", "tokens", "note"),
    [
        (False, "mistral", {}, 100_001, "set fix_mistral_regex of "),
        *checked_rows([(True, "mistral", {}, 100_001, ""), (True, "mistral", {}, 100_000, "")]),
        *soaked_rows(
            [
                (True, "mistral3", {"transformers_version": "4.57.1"}, 100_001, ""),
                (True, "mistral", {"transformers_version": "5.1.0"}, 100_001, ""),
                (True, "ministral3", {}, 100_001, ""),
            ]
        ),
    ],
)
def test_the_split_of_mistral(
    fix: bool,
    model_type: str,
    more: dict[str, str],
    tokens: int,
    note: str,
    tmp_path: Path,
    cpp_build: Path,
) -> None:
    document = json.loads(TRAINERS["llama3"]())
    vocabulary = document["model"]["vocab"]
    added = [token["content"] for token in document["added_tokens"]]
    known = len({*vocabulary, *added})
    first = 1 + max([*vocabulary.values(), *(token["id"] for token in document["added_tokens"])])
    vocabulary |= {f"\u0101{number}": first + number for number in range(tokens - known)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    notes = check(tmp_path, {"fix_mistral_regex": fix}, model_type, cpp_build, **more)
    assert (note in notes) if note else not notes


@pytest.mark.parametrize(
    ("config", "model_type", "note"),
    [
        ({"tokenizer_class": "LlamaTokenizer", "legacy": True}, "llama", ""),
        ({"tokenizer_class": "LlamaTokenizer"}, "mistral", "without its add_dummy_prefix"),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "llama", "without its add_dummy_prefix"),
        ({"tokenizer_class": "CodeLlamaTokenizer"}, "llama", ""),
        ({"add_bos_token": True}, "gemma2", "GemmaTokenizer reads tokenizer.model without its"),
    ],
)
def test_a_class_reads_a_sentencepiece_model(
    config: Json, model_type: str, note: str, tmp_path: Path, shared_data: Path, cpp_build: Path
) -> None:
    shutil.copy(shared_data / "stories260K/tokenizer.model", tmp_path)
    notes = check(tmp_path, {"add_bos_token": True, **config}, model_type, cpp_build)
    assert (note in notes) if note else not notes


@pytest.mark.parametrize(
    ("config", "model_type"),
    [({"tokenizer_class": "Qwen2Tokenizer"}, "qwen2"), (None, "qwen3"), (None, "gpt_neox")],
)
def test_a_vocabulary_and_merges(
    config: Json | None, model_type: str, tmp_path: Path, cpp_build: Path
) -> None:
    model = json.loads(TRAINERS["qwen2"]())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    assert not check(tmp_path, config, model_type, cpp_build)


def test_the_note_on_a_model_without_a_class_is_right(
    tmp_path: Path, shared_data: Path, cpp_build: Path
) -> None:
    shutil.copy(shared_data / "stories260K/tokenizer.model", tmp_path)
    assert not compile_tokenizer(tmp_path).notes
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (note,) = compile_tokenizer(tmp_path).notes
    advised = json.loads("{" + note.partition("write ")[2].partition(" into ")[0] + "}")
    check(tmp_path, advised, "llama", cpp_build)  # gives the ids of transformers


def test_classes_that_do_not_fit_the_file(tmp_path: Path, shared_data: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    shutil.copy(shared_data / "stories260K/tokenizer.model", tmp_path)
    with pytest.raises(TokenizerError, match="the class GPT2Tokenizer does not read a Sentence"):
        compile_tokenizer(tmp_path)
    document = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": document}))
    with pytest.raises(TokenizerError, match="GPT2Tokenizer reads BPE, but tokenizer.json has Uni"):
        compile_tokenizer(tmp_path)
    config.write_text('{"tokenizer_class": "T5Tokenizer"}')
    assert "the class T5Tokenizer has steps of its own" in compile_tokenizer(tmp_path).notes[0]


def flagged(content: str, **flags: bool) -> Json:
    return {"__type": "AddedToken", "content": content, "special": True, **flags}


@pytest.mark.parametrize(
    ("config", "model_type"),
    [
        ({"eos_token": "<tool>"}, "smollm3"),  # <tool> is there, and not special
        ({"image_token": "<tool>"}, "llama"),
        ({"extra_special_tokens": {"image_token": "<tool>"}}, "smollm3"),
        ({"additional_special_tokens": ["<tool>"]}, "smollm3"),
        ({"eos_token": flagged("<s>", rstrip=True), "pad_token": "<s>"}, "llama"),
        ({"eos_token": "<s>", "pad_token": flagged("<s>", rstrip=True)}, "llama"),
        ({"eos_token": flagged("<s>", rstrip=True), "extra_special_tokens": ["<s>"]}, "llama"),
        ({"eos_token": flagged("</s>", rstrip=True)}, "llama"),
        ({"eos_token": flagged("</s>", rstrip=True), "pad_token": "<tool>"}, "qwen2"),
        ({"eos_token": flagged("<tool>", lstrip=True)}, "cohere"),
    ],
)
@pytest.mark.parametrize("lists", [False, *checked([True])])
def test_flags_of_tokens_that_are_named_or_named_twice(
    config: Json, model_type: str, lists: bool, tmp_path: Path, cpp_build: Path
) -> None:
    document = json.loads(TRAINERS["qwen2"]())
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    listed = {str(token.pop("id")): token for token in document["added_tokens"]}
    check(
        tmp_path,
        {**config, **({"added_tokens_decoder": listed} if lists else {})},
        model_type,
        cpp_build,
    )


def test_what_is_left_to_chance_or_takes_markers_apart_is_said(
    tmp_path: Path, cpp_build: Path
) -> None:
    document = json.loads(TRAINERS["digits"]())
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    assert not check(tmp_path, {}, "llama", cpp_build)
    ids = load_tokenizer(tmp_path).encode(TEXTS[-3])
    document["model"]["dropout"] = 0.9
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    config = dict.fromkeys(("split_special_tokens", "clean_up_tokenization_spaces"), True)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(tmp_path).encode(TEXTS[-3]) == ids
    chance, apart = compile_tokenizer(tmp_path).notes
    assert "dropout of 0.9" in chance and "has split_special_tokens" in apart
    forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, forced: True}))
    notes = compile_tokenizer(tmp_path).notes
    assert len(notes) == 3 and "has clean_up_tokenization_spaces, by" in notes[1]
