"""Real tokenizers, compiled: the C++ ids and texts equal the reference libraries'."""

import random
from pathlib import Path

import pytest
from support.cpp_programs import CppTokenizer
from support.hostile_text import hostile_strings
from support.tiers import checked

from exporter.tokenizer import ReferenceTokenizer, compile_tokenizer, load_tokenizer

SOURCES = {
    "llama3": "tokenizers/llama3_tokenizer.model",
    "llama2": "tokenizers/llama2_tokenizer.model",
    "gpt2": "tokenizers/gpt2_vocab.json",
    "smollm": "tokenizers/smollm_tokenizer.json",
    "stories260K": "stories260K",
}
SENTENCEPIECE = ("llama2", "stories260K")
RANDOM_STRINGS = {"llama3": 10000}
# The reference of the others encodes less than a megabyte a second.
TEXT_CHARACTERS = {"llama3": None}


class Pair:
    """A compiled tokenizer and its reference."""

    def __init__(self, name: str, source: Path, build: Path, scratch: Path) -> None:
        self.name = name
        self.compiled = compile_tokenizer(source)
        blob = scratch / f"{name}.tokenizer"
        blob.write_bytes(self.compiled.data)
        self.cpp = CppTokenizer(build, blob)
        self.reference: ReferenceTokenizer = load_tokenizer(source)


@pytest.fixture(
    scope="module",
    params=["llama3", "stories260K", *checked(["llama2", "smollm", "gpt2"])],
)
def pair(
    request: pytest.FixtureRequest,
    shared_data: Path,
    cpp_build: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Pair:
    source = shared_data / SOURCES[request.param]
    return Pair(request.param, source, cpp_build, tmp_path_factory.mktemp("blobs"))


def assert_equal(texts: list[str], ours: list, theirs: list) -> None:
    assert len(ours) == len(theirs)
    different = [index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    assert not different, (
        f"{len(different)} of {len(texts)} differ, first {texts[different[0]][:200]!r}: "
        f"{ours[different[0]][:50]!r}, not {theirs[different[0]][:50]!r}"
    )


def test_hostile_text(pair: Pair) -> None:
    texts = hostile_strings(RANDOM_STRINGS.get(pair.name, 3000), seed=11)
    theirs = [pair.reference.encode(text) for text in texts]
    assert_equal(texts, pair.cpp.encode(texts), theirs)
    decoded = [pair.reference.decode(ids) for ids in theirs]
    assert_equal(texts, pair.cpp.decode(theirs), decoded)


def test_real_text(pair: Pair, shared_data: Path) -> None:
    limit = TEXT_CHARACTERS.get(pair.name, 200_000)
    paths = sorted((shared_data / "text").glob("*.txt"))
    texts = [path.read_text(encoding="utf-8")[:limit] for path in paths]
    assert texts
    theirs = [pair.reference.encode(text) for text in texts]
    assert_equal(texts, pair.cpp.encode(texts), theirs)
    assert_equal(texts, pair.cpp.decode(theirs), [pair.reference.decode(ids) for ids in theirs])


def test_arbitrary_ids_decode_as_the_reference_does(pair: Pair) -> None:
    chance = random.Random(5)
    # SentencePiece's unknown token decodes to a mark with a space before it, which we strip.
    first = 1 if pair.name in SENTENCEPIECE else 0
    size = pair.compiled.vocab_size
    sequences = [
        [
            chance.randrange(first, size if chance.random() < 0.5 else 260)
            for _ in range(chance.randrange(40))
        ]
        for _ in range(1500)
    ]
    theirs = [pair.reference.decode(ids) for ids in sequences]
    assert_equal(list(map(str, sequences)), pair.cpp.decode(sequences), theirs)


def test_invalid_utf8_counts_as_replacement_characters(pair: Pair) -> None:
    damaged = [b"a\xff b\xe2\x82", b"\xc0\xaf\xed\xa0\x80z", b"\xf0\x9f\x98", b"\x80"]
    theirs = [pair.reference.encode(text.decode("utf-8", errors="replace")) for text in damaged]
    assert pair.cpp.encode_bytes(damaged) == theirs


@pytest.mark.check
def test_long_words_take_no_quadratic_time(pair: Pair) -> None:
    """A million characters take 0.2 s; the square of that, longer than `ask` waits."""
    texts = [unit * 1_000_000 for unit in ("a", " ", "'", "\u00e9", "<")]
    ids = pair.cpp.encode(texts)
    short = [text[:10_000] for text in texts]
    if pair.name not in SENTENCEPIECE:
        assert_equal(short, pair.cpp.encode(short), [pair.reference.encode(t) for t in short])
    assert all(ids)


def test_loading_copies_nothing(pair: Pair) -> None:
    """Less than a tenth of the blob: the added tokens alone, of which Llama 3 has 256."""
    assert pair.cpp.bytes_of_loading() < len(pair.compiled.data) / 10


def test_llama3_states_its_special_tokens(shared_data: Path) -> None:
    compiled = compile_tokenizer(shared_data / SOURCES["llama3"])
    assert compiled.bos_id == 128000
    assert compiled.eos_ids == [128001, 128008, 128009]
    assert compiled.vocab_size == 128256


def test_special_tokens_are_parsed_only_where_allowed(
    shared_data: Path, cpp_build: Path, tmp_path: Path
) -> None:
    pair = Pair("llama3", shared_data / SOURCES["llama3"], cpp_build, tmp_path)
    text = "<|begin_of_text|>hi <|eot_id|><|eot_id"
    (as_text,) = pair.cpp.encode([text])
    assert max(as_text) < 128000
    (parsed,) = pair.cpp.encode([text], parse_special=True)
    assert parsed[0] == 128000
    assert parsed.count(128009) == 1

    pieces = [("<|begin_of_text|>", True), ("hi <|eot_id|>", False), ("<|eot_id|>", True)]
    ids = pair.cpp.encode_pieces(pieces)
    assert ids == [128000, *pair.reference.encode("hi <|eot_id|>"), 128009]
    # Text merges across pieces, but a name that lies in two of them is none.
    assert pair.cpp.encode_pieces([("Hel", False), ("lo", True)]) == pair.reference.encode("Hello")
    assert max(pair.cpp.encode_pieces([("<|eot", True), ("_id|>", False)])) < 128000


def test_each_llama2_turn_begins_with_the_prefix_space(
    shared_data: Path, cpp_build: Path, tmp_path: Path
) -> None:
    pair = Pair("llama2", shared_data / SOURCES["llama2"], cpp_build, tmp_path)
    ids = pair.cpp.encode_pieces([("<s>[INST] ", True), ("<s> hi", False), (" [/INST]", True)])
    assert ids == [1, *pair.reference.encode("[INST] <s> hi [/INST]")]
