"""Tokenizers over the whole space of their options: the C++ equals the libraries that made them.

Always the same seeds, most of them for `make soak`; `THIMBLE_TOKENIZERS` sets their number.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.cpp_programs import CppTokenizer
from support.hostile_text import hostile_strings
from support.random_tokenizers import (
    random_sentencepiece,
    random_tokenizer,
    train_sentencepiece,
)
from support.tiers import checked, soaked
from tokenizers import AddedToken, Regex, Tokenizer, decoders
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from exporter.tokenizer import ReferenceTokenizer, compile_tokenizer, load_tokenizer

SEEDS = [
    *range(4),
    *checked(range(4, 24)),
    *soaked(range(24, int(os.environ.get("THIMBLE_TOKENIZERS", "80")))),
]
TEXTS = (
    "the <mask> été",
    "  the  ",
    "<pad>a<|im_end|> b <s>",
    "x<mask> <tool_call>\n[UNK]  <unk>ab",
    "<|im_start|>the été</s>",
    *hostile_strings(120, seed=5),
)
Answer = TypeVar("Answer")
Question = TypeVar("Question")


def answered(
    ask: Callable[[Question], Answer], questions: list[Question]
) -> tuple[list[Question], list[Answer]]:
    """The questions that the library answers: it raises or panics at some, and promises nothing."""
    kept, answers = [], []
    for question in questions:
        try:
            answers.append(ask(question))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic is no Exception
            continue
        kept.append(question)
    return kept, answers


def compare(directory: Path, build: Path, skipped: Callable[[int], bool]) -> ReferenceTokenizer:
    """Compares ids and texts; `skipped`: ids that are not decoded in any order."""
    compiled = compile_tokenizer(directory)
    blob = directory / "blob"
    blob.write_bytes(compiled.data)
    cpp, reference = CppTokenizer(build, blob), load_tokenizer(directory)
    texts, ids = answered(reference.encode, list(TEXTS))
    for text, ours, theirs in zip(texts, cpp.encode(texts), ids, strict=True):
        assert ours == theirs, text
    chance = random.Random(3)
    numbers = [number for number in range(compiled.vocab_size) if not skipped(number)]
    arbitrary = [chance.choices(numbers, k=chance.randrange(12)) for _ in range(60)]
    sequences, decoded = answered(reference.decode, [*ids, *arbitrary])
    for sequence, ours, theirs in zip(sequences, cpp.decode(sequences), decoded, strict=True):
        assert ours == theirs, sequence
    return reference


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tokenizer_json(seed: int, tmp_path: Path, cpp_build: Path) -> None:
    document = json.loads(random_tokenizer(seed))
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    library = Tokenizer.from_str(json.dumps(document))
    # The library decodes a run of bytes as a whole; a stream does not wait for its end.
    falls_back = "ByteFallback" in json.dumps(document["decoder"])

    def is_byte(number: int) -> bool:
        return falls_back and str(library.id_to_token(number)).startswith("<0x")

    compare(tmp_path, cpp_build, is_byte)
    cpp = CppTokenizer(cpp_build, tmp_path / "blob")
    texts, ids = answered(
        lambda text: library.encode(text, add_special_tokens=False).ids, list(TEXTS)
    )
    for text, ours, theirs in zip(texts, cpp.encode(texts, parse_special=True), ids, strict=True):
        assert ours == theirs, text


def test_scores_that_the_library_reads_one_bit_off(tmp_path: Path, cpp_build: Path) -> None:
    scores = {"ab": -7.3432178688029355, "abab": -0.9054676819448658, "a": -11.317226400210735}
    vocab = [("<unk>", 0.0), *scores.items()]
    model = {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}
    document = {"version": "1.0", "added_tokens": [], "model": model}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "blob").write_bytes(compile_tokenizer(tmp_path).data)
    library = Tokenizer.from_str(json.dumps(document))
    texts = ["ababab", "ababababab", "ababababababab", "ab²ab²ababab"]
    expected = [library.encode(text).ids for text in texts]
    assert CppTokenizer(cpp_build, tmp_path / "blob").encode(texts) == expected


def characters(**steps: Any) -> Tokenizer:
    """Of single characters, an unknown one and "ab"."""
    tokens = [*"ab \n", "[UNK]", "ab"]
    tokenizer = Tokenizer(WordLevel({token: at for at, token in enumerate(tokens)}, "[UNK]"))
    for name, step in steps.items():
        setattr(tokenizer, name, step)
    return tokenizer


@pytest.mark.parametrize("lstrip", [False, True])
@pytest.mark.parametrize("content", [" ", "\n", " a"])
def test_added_tokens_in_the_white_space_that_another_took(
    content: str, lstrip: bool, tmp_path: Path, cpp_build: Path
) -> None:
    tokenizer = characters()
    tokenizer.add_tokens([AddedToken(content, lstrip=lstrip, rstrip=True), AddedToken("\n\n")])
    document = tokenizer.to_str()
    (tmp_path / "tokenizer.json").write_text(document, encoding="utf-8")
    (tmp_path / "blob").write_bytes(compile_tokenizer(tmp_path).data)
    texts = ["  the  ", "\n\n", "a" + 40 * " " + "b", " a  a\n \n a", "\n\n\n a\n b \n\na"]
    expected = [tokenizer.encode(text).ids for text in texts]
    assert CppTokenizer(cpp_build, tmp_path / "blob").encode(texts) == expected


@pytest.mark.parametrize("pattern", ["", Regex("")], ids=["text", "regex"])
@pytest.mark.parametrize("behavior", ["isolated", "removed", "merged_with_next"])
def test_a_split_at_the_empty_text(
    pattern: Any, behavior: Any, tmp_path: Path, cpp_build: Path
) -> None:
    tokenizer = characters(pre_tokenizer=Split(pattern, behavior))
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (tmp_path / "blob").write_bytes(compile_tokenizer(tmp_path).data)
    texts = ["ab", "", "a\n é b", "éé"]
    expected = [tokenizer.encode(text).ids for text in texts]
    assert CppTokenizer(cpp_build, tmp_path / "blob").encode(texts) == expected


def test_a_decoder_that_replaces_the_empty_text(tmp_path: Path, cpp_build: Path) -> None:
    tokenizer = characters(decoder=decoders.Replace("", "-"))
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (tmp_path / "blob").write_bytes(compile_tokenizer(tmp_path).data)
    assert tokenizer.decode([0, 5, 1]) == "-a--a-b--b-"
    assert CppTokenizer(cpp_build, tmp_path / "blob").decode([[0, 5, 1]]) == ["-a--a-b--b-"]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_text_of_which_nothing_is_left(kind: str, tmp_path: Path, cpp_build: Path) -> None:
    """The prefix of texts is."""
    model = train_sentencepiece(model_type=kind, remove_extra_whitespaces=False)
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "blob").write_bytes(compile_tokenizer(tmp_path).data)
    texts = ["", "\x1c", "\x1c\x1a", "\x1c ", "a\x1c"]
    expected = [load_tokenizer(tmp_path).encode(text) for text in texts]
    assert expected[1]
    assert CppTokenizer(cpp_build, tmp_path / "blob").encode(texts) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sentencepiece_model(seed: int, tmp_path: Path, cpp_build: Path) -> None:
    _, model = random_sentencepiece(seed)
    (tmp_path / "spiece.model").write_bytes(model)
    compare(tmp_path, cpp_build, lambda number: False)
