"""Tokenizers in GGUF files: the C++ ids equal the reference's, and llama.cpp's where it lists its
own; what is damaged or unknown is refused in one sentence."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from support.cpp_programs import CppTokenizer
from support.gguf_files import write_gguf
from support.hostile_text import hostile_strings
from support.json_mutations import VALUES
from support.trained_tokenizers import train_digits, train_prepending, training_text

from exporter.chat_template import find_chat_templates
from exporter.errors import ExportError
from exporter.tokenizer import TokenizerError, compile_tokenizer, load_tokenizer
from exporter.tokenizer.compile import read_specification
from exporter.tokenizer.gguf import _SPLITS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def byte_level_metadata(pre: str) -> dict[str, Any]:
    """A trained vocabulary, an end, a token that is found in text, and an id without a token."""
    model = json.loads(train_digits())["model"]
    tokens = [*sorted(model["vocab"], key=model["vocab"].__getitem__), "<|im_end|>", "<tool>"]
    tokens.append("[PAD9]")
    types = [NORMAL] * len(tokens)
    types[0] = types[-3] = CONTROL
    types[-2:] = [USER_DEFINED, UNUSED]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
    }


def character_metadata() -> dict[str, Any]:
    """Gemma 4's kind: characters are merged, and those without a token are bytes."""
    model = json.loads(train_prepending())["model"]
    tokens = [*sorted(model["vocab"], key=model["vocab"].__getitem__), "<|tool>", "<turn|>"]
    types = [BYTE if token.startswith("<0x") else NORMAL for token in tokens]
    types[:3] = [UNKNOWN, CONTROL, CONTROL]
    types[-2:] = [USER_DEFINED, CONTROL]
    return {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [
            m if isinstance(m, str) else " ".join(m) for m in model["merges"]
        ],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


@pytest.fixture(scope="module")
def sentencepiece_metadata(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A trained SentencePiece model as a converter stores it."""
    prefix = tmp_path_factory.mktemp("sentencepiece") / "m"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in training_text() for line in text.splitlines()),
        model_prefix=str(prefix),
        model_type="bpe",
        vocab_size=900,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(prefix.with_suffix(".model").read_bytes())
    pieces = [*((p.piece, p.score, p.type) for p in model.pieces)]
    pieces[0] = (pieces[0][0], 0.0, CONTROL)  # as of Phi-3 and Gemma
    pieces += [("<|end|>", -1000.0, CONTROL), ("[PAD1]", -1000.0, UNKNOWN)]
    pieces += [("<two  blanks>", -1000.0, USER_DEFINED), ("\n\n", -1000.0, USER_DEFINED)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [piece for piece, _, _ in pieces],
        "tokenizer.ggml.scores": [score for _, score, _ in pieces],
        "tokenizer.ggml.token_type": [type for _, _, type in pieces],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def write(path: Path, metadata: dict[str, Any]) -> Path:
    return write_gguf(path, {"general.architecture": "llama", **metadata}, {})


def assert_equal_to_the_reference(path: Path, build: Path) -> None:
    blob = path.with_suffix(".tokenizer")
    blob.write_bytes(compile_tokenizer(path).data)
    texts = hostile_strings(400, seed=3)
    reference, ours = load_tokenizer(path), CppTokenizer(build, blob)
    ids = [reference.encode(text) for text in texts]
    assert ours.encode(texts) == ids
    assert ours.decode(ids) == [reference.decode(one) for one in ids]


@pytest.mark.parametrize("pre", {split: pre for pre, split in _SPLITS.items()}.values())
def test_each_way_of_splitting_text(tmp_path: Path, cpp_build: Path, pre: str) -> None:
    assert_equal_to_the_reference(write(tmp_path / "m.gguf", byte_level_metadata(pre)), cpp_build)


def test_characters(tmp_path: Path, cpp_build: Path) -> None:
    metadata = character_metadata()
    path = write(tmp_path / "m.gguf", metadata)
    assert_equal_to_the_reference(path, cpp_build)
    tokens, reference = metadata["tokenizer.ggml.tokens"], load_tokenizer(path)
    found = [tokens[id] for id in reference.encode("  the \ue000")]
    assert found[-3:] == ["<0xEE>", "<0x80>", "<0x80>"] and "▁" in "".join(found[:-3])
    compiled = compile_tokenizer(path)
    assert (compiled.bos_id, compiled.eos_ids) == (1, [2, tokens.index("<turn|>")])


@pytest.mark.parametrize("prefix", [True, False], ids=["space-first", "bare"])
def test_sentencepiece(
    tmp_path: Path, cpp_build: Path, sentencepiece_metadata: dict[str, Any], prefix: bool
) -> None:
    """Where a blank is put first, without the pieces that llama.cpp finds before that."""
    metadata = {**sentencepiece_metadata, "tokenizer.ggml.add_space_prefix": prefix}
    if prefix:
        types = metadata["tokenizer.ggml.token_type"]
        metadata["tokenizer.ggml.token_type"] = [
            UNUSED if type == USER_DEFINED else type for type in types
        ]
    assert_equal_to_the_reference(write(tmp_path / "m.gguf", metadata), cpp_build)


def test_user_defined_pieces_are_found_before_a_blank_is_put_first(
    tmp_path: Path, cpp_build: Path, sentencepiece_metadata: dict[str, Any]
) -> None:
    """As in llama.cpp, which also takes these for what the file says or does not say."""
    metadata = {**sentencepiece_metadata, "tokenizer.ggml.remove_extra_whitespaces": True}
    for name in ("bos_token_id", "eos_token_id", "scores"):
        del metadata[f"tokenizer.ggml.{name}"]
    token = metadata["tokenizer.ggml.tokens"].index("<two  blanks>")
    compiled = compile_tokenizer(write(tmp_path / "m.gguf", metadata))
    (tmp_path / "blob").write_bytes(compiled.data)
    cpp = CppTokenizer(cpp_build, tmp_path / "blob")
    one, two, both, mark = cpp.encode(
        ["the", " the  end", "<two  blanks>the<two  blanks> the  end", "<two  blanks>"]
    )
    assert (mark, both) == ([token], [token, *one, token, *two])
    assert (compiled.bos_id, compiled.eos_ids[0]) == (1, 2)


@pytest.mark.parametrize(
    ("pre", "whole"),
    [("glm4", True), ("llama-bpe", True), ("tekken", True), ("chatglm-bpe", False)],
)
def test_a_word_that_is_a_token(tmp_path: Path, cpp_build: Path, pre: str, whole: bool) -> None:
    """In some models it is taken, though no merges make it."""
    metadata = byte_level_metadata(pre)
    tokens = metadata["tokenizer.ggml.tokens"]
    metadata["tokenizer.ggml.tokens"] = [*tokens, "\u0120zqxj"]  # a blank, as bytes are spelled
    metadata["tokenizer.ggml.token_type"] += [NORMAL]
    path = write(tmp_path / "m.gguf", metadata)
    (tmp_path / "blob").write_bytes(compile_tokenizer(path).data)
    (ids,) = CppTokenizer(cpp_build, tmp_path / "blob").encode([" zqxj"])
    assert (ids == [len(tokens)]) == whole


def test_unknown_tokens_are_found_as_control_tokens_are(
    tmp_path: Path, cpp_build: Path, sentencepiece_metadata: dict[str, Any]
) -> None:
    """As in llama.cpp, where text may hold control tokens."""
    types = sentencepiece_metadata["tokenizer.ggml.token_type"]
    for first in (UNKNOWN, CONTROL):  # as converters give it
        metadata = {**sentencepiece_metadata, "tokenizer.ggml.token_type": [first, *types[1:]]}
        path = write(tmp_path / "m.gguf", metadata)
        (tmp_path / "blob").write_bytes(compile_tokenizer(path).data)
        cpp, encode = CppTokenizer(cpp_build, tmp_path / "blob"), load_tokenizer(path).encode
        texts = ["a<unk>b", "a", "b"]
        (plain, *_), (special, a, b) = cpp.encode(texts), cpp.encode(texts, parse_special=True)
        assert special == [*a, 0, *b] and plain == encode(texts[0]) and 0 not in plain


def test_what_llama_cpp_does_otherwise_is_noted(tmp_path: Path) -> None:
    """It splits words at combining marks, which the models' own patterns do not."""
    for pre, noted in (("gpt-4o", "Hindi"), ("tekken", "Hindi"), ("qwen2", "form C")):
        path = write(tmp_path / "m.gguf", byte_level_metadata(pre))
        (note,) = compile_tokenizer(path).notes
        assert noted in note
    assert not compile_tokenizer(write(path, byte_level_metadata("llama-bpe"))).notes


def test_without_types_all_tokens_are_normal(tmp_path: Path) -> None:
    metadata = byte_level_metadata("qwen2")
    del metadata["tokenizer.ggml.token_type"]
    compiled = compile_tokenizer(write(tmp_path / "m.gguf", metadata))
    tokens = metadata["tokenizer.ggml.tokens"]
    assert compiled.eos_ids == [0, tokens.index("<|im_end|>")]


@pytest.mark.parametrize(
    "text", ["</s>", "[EOS]", "<|eot|>", "<|fim_pad|>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
)
def test_tokens_that_end_a_text_by_their_own(tmp_path: Path, text: str) -> None:
    metadata = byte_level_metadata("qwen2")
    tokens = metadata["tokenizer.ggml.tokens"]
    tokens[-1] = text
    compiled = compile_tokenizer(write(tmp_path / "m.gguf", metadata))
    assert len(tokens) - 1 in compiled.eos_ids
    tokens[-2] = "<|tool_response>"  # a file with this one may say </s> in texts
    compiled = compile_tokenizer(write(tmp_path / "n.gguf", metadata))
    assert (len(tokens) - 1 in compiled.eos_ids) == (text != "</s>")


@pytest.mark.parametrize("type", [USER_DEFINED, NORMAL])
def test_control_tokens_that_the_file_calls_otherwise(
    type: int, tmp_path: Path, cpp_build: Path, sentencepiece_metadata: dict[str, Any]
) -> None:
    """Of Phi-3, whose tokens also take the blanks behind them along, as in llama.cpp."""
    tokens = sentencepiece_metadata["tokenizer.ggml.tokens"]
    types = list(sentencepiece_metadata["tokenizer.ggml.token_type"])
    types[2] = type
    metadata = {**sentencepiece_metadata, "tokenizer.ggml.token_type": types}
    blob, end = tmp_path / "blob", tokens.index("<|end|>")
    text = "a</s>\n b<|end|>\n c<s> d"
    for name in ("Phi3", "a Llama"):
        path = write(tmp_path / "m.gguf", {**metadata, "general.name": name})
        blob.write_bytes(compile_tokenizer(path).data)
        cpp, encode = CppTokenizer(cpp_build, blob), load_tokenizer(path).encode
        (plain,), (special,) = cpp.encode([text]), cpp.encode([text], parse_special=True)
        assert not {1, 2, end} & set(plain)
        parts = ["a", "b", "c", " d"] if name == "Phi3" else ["a", "\n b", "\n c", " d"]
        a, b, c, d = map(encode, parts)
        assert special == [*a, 2, *b, end, *c, 1, *d]


@pytest.mark.parametrize("pre", ["qwen35", "qwen2"])
def test_text_is_normalized_to_form_c(tmp_path: Path, cpp_build: Path, pre: str) -> None:
    path = write(tmp_path / "m.gguf", byte_level_metadata(pre))
    (tmp_path / "blob").write_bytes(compile_tokenizer(path).data)
    apart, whole = CppTokenizer(cpp_build, tmp_path / "blob").encode(
        ["e\u0301 \u212b", "\xe9 \xc5"]
    )
    assert apart == whole


def test_the_file_says_what_begins_and_ends_a_text(tmp_path: Path) -> None:
    metadata = byte_level_metadata("llama-bpe")
    path = write(tmp_path / "m.gguf", metadata)
    compiled = compile_tokenizer(path)
    end = metadata["tokenizer.ggml.tokens"].index("<|im_end|>")
    assert (compiled.bos_id, compiled.eos_ids) == (0, [0, end])
    assert compiled.tokens["bos_token"] == metadata["tokenizer.ggml.tokens"][0]
    assert compiled.vocab_size == end + 2  # the last id has no token
    assert find_chat_templates(path) == {"default": TEMPLATE}
    key = "tokenizer.chat_template"
    named = {key: TEMPLATE, f"{key}.tool_use": "with tools", f"{key}s": ["tool_use"]}
    path = write(tmp_path / "several.gguf", named)
    assert find_chat_templates(path) == {"default": TEMPLATE, "tool_use": "with tools"}


def test_the_end_of_a_channel_ends_no_answer(tmp_path: Path) -> None:
    """Of gpt-oss: its answers go on in another channel, until `<|return|>` or `<|call|>`."""
    metadata = byte_level_metadata("gpt-4o")
    tokens = metadata["tokenizer.ggml.tokens"]
    last = len(tokens)
    metadata["tokenizer.ggml.tokens"] = [*tokens, "<|return|>", "<|end|>", "<|call|>"]
    metadata["tokenizer.ggml.token_type"] += [CONTROL] * 3
    metadata["tokenizer.ggml.eos_token_id"] = last
    compiled = compile_tokenizer(write(tmp_path / "m.gguf", metadata))
    assert compiled.eos_ids == [last, 0, tokens.index("<|im_end|>"), last + 2]


def test_tokens_that_are_used_though_their_type_says_otherwise(tmp_path: Path) -> None:
    """As in llama.cpp: bytes, and what merges make."""
    metadata = byte_level_metadata("llama-bpe")
    tokens, types = (metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type"))
    first, second = metadata["tokenizer.ggml.merges"][0].split(" ")
    wanted = load_tokenizer(write(tmp_path / "m.gguf", metadata)).encode(f"{first}{second} a")
    for token in ("a", first + second):
        types[tokens.index(token)] = UNUSED
    changed = load_tokenizer(write(tmp_path / "u.gguf", metadata))
    assert changed.encode(f"{first}{second} a") == wanted


def test_a_bos_that_the_file_does_not_name_is_noted(tmp_path: Path) -> None:
    for changes, notes in (({}, 1), ({"tokenizer.ggml.add_bos_token": False}, 0)):
        metadata = {**byte_level_metadata("llama-bpe"), **changes}
        del metadata["tokenizer.ggml.bos_token_id"]
        spec = read_specification(write(tmp_path / "m.gguf", metadata))
        assert len(spec.notes) == notes and not spec.adds_bos


@pytest.mark.parametrize(("stored", "begins"), [(None, True), (True, True), (False, False)])
def test_whether_texts_begin_with_bos_and_end_with_eos(
    tmp_path: Path, stored: bool | None, begins: bool
) -> None:
    metadata = byte_level_metadata("llama-bpe")
    if stored is not None:
        metadata["tokenizer.ggml.add_bos_token"] = stored
        metadata["tokenizer.ggml.add_eos_token"] = stored
    path = write(tmp_path / "m.gguf", metadata)
    spec = read_specification(path)
    assert (spec.bos_id, spec.adds_bos) == (0, begins)
    assert spec.ends_texts == (stored is True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "bert"}, "tokenizer.ggml.model 'bert' is not supported; gpt2 (byte-level"),
        ({"model": None}, "tokenizer.ggml.model None is not supported"),
        ({"pre": "warp"}, "tokenizer.ggml.pre 'warp' is not a known way of splitting text"),
        ({"pre": None}, "tokenizer.ggml.pre None is not a known way of splitting text"),
        (
            {"tokens": None},
            "tokenizer.ggml.tokens is not a list of strings; download",
        ),
        ({"tokens": [b"\xff"]}, "tokenizer.ggml.tokens is not a list of strings"),
        ({"token_type": [1]}, "tokenizer.ggml.token_type does not give a type for each token"),
        ({"merges": None}, "tokenizer.ggml.merges is not a list of strings"),
        ({"merges": ["a b c"]}, "is not a valid m.gguf"),
        ({"bos_token_id": 10**6}, "tokenizer.ggml.bos_token_id 1000000 is not a token"),
        ({"add_bos_token": "x"}, "tokenizer.ggml.add_bos_token is 'x', neither true nor false"),
    ],
    ids=str,
)
def test_what_is_unknown_or_damaged_is_said(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    metadata = byte_level_metadata("qwen2")
    metadata |= {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    kept = {name: value for name, value in metadata.items() if value is not None}
    path = write(tmp_path / "m.gguf", kept)
    with pytest.raises(TokenizerError) as raised:
        compile_tokenizer(path)
    assert str(raised.value).startswith(str(path)) and said in str(raised.value)


def test_a_template_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", {"tokenizer.chat_template": 3})
    with pytest.raises(ExportError) as raised:
        find_chat_templates(path)
    assert str(raised.value) == (f"{path}: tokenizer.chat_template is not text; download it again.")


@pytest.mark.parametrize("model", ["gpt2", "llama"])
def test_changed_metadata_is_read_or_refused(
    tmp_path: Path, sentencepiece_metadata: dict[str, Any], model: str
) -> None:
    """One value replaced by another, one entry of a list replaced, or one cut off."""
    whole = byte_level_metadata("smollm") if model == "gpt2" else sentencepiece_metadata
    whole = {k: v[:320] if isinstance(v, list) else v for k, v in whole.items()}
    values = [v for v in VALUES if isinstance(v, bool | int | float | str) and v != "\ud800"]
    values = [v for v in values if not isinstance(v, int) or 0 <= v < 2**31]
    chance, refused = random.Random(1), 0
    for _ in range(40):
        metadata = dict(whole)
        name = chance.choice(list(metadata))
        value = metadata[name]
        if isinstance(value, list) and chance.random() < 0.7:
            value = list(value)
            at = chance.randrange(len(value))
            same = [v for v in values if type(v) is type(value[0])]
            value[at : at + 1] = [chance.choice(same)] if chance.random() < 0.7 else []
            metadata[name] = value
        else:
            metadata[name] = chance.choice(values)
        path = write(tmp_path / "m.gguf", metadata)
        for read in (compile_tokenizer, load_tokenizer, find_chat_templates):
            try:
                read(path)
            except ExportError as error:
                refused += 1
                assert str(path) in str(error) and "\n" not in str(error)
    assert refused > 5
