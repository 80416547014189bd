"""What the tokenizer's compiler refuses, and that its patterns split as regex engines do."""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import regex
from support.cpp_programs import CppTokenizer
from support.hostile_text import hostile_strings
from support.random_tokenizers import train_sentencepiece
from support.trained_tokenizers import (
    CASED_SPLIT,
    LLAMA3_SPLIT,
    POSSESSIVE_SPLIT,
    train_llama3,
    train_metaspace,
)

from exporter.tokenizer import TokenizerError, compile_tokenizer, load_tokenizer
from exporter.tokenizer.compile import read_specification
from exporter.tokenizer.dfa import MATCH, Automaton, compile_automaton
from exporter.tokenizer.hash_tables import EMPTY, merge_table, word_table
from exporter.tokenizer.pattern import parse_pattern

PATTERNS = {
    "llama3": LLAMA3_SPLIT,
    "possessive": POSSESSIVE_SPLIT,
    "cased": CASED_SPLIT,
    "first alternative, not longest": r"a|ab|abc|\s",
    "lazy": r"a+?b|a{2,}?|a{2,3}?c|\d{2}",
    "nested": r"(?:(?:a|b)*c|(?:ab){1,2})+| (?=\d)|\s\s",
    "lookahead": r"a(?!b)|b(?=c)|c$|(?i:ab?c)",
    "possessive bounds": r"a{1,2}+b|\d{2,3}+|[bc]?+a",
    "classes": r"[^\p{L}\d\s-]+|[a-fA-F]+|[\]\[\\]|\P{L}|\p{^Ll}|\x41|\w",
    "classes within classes": r"[a-z&&[^b]]+|[\x{20}[A-Z]]",
}


def split(splitter: Automaton, text: str) -> list[str]:
    """The matches, as the C++ loop finds them."""
    table = splitter.transitions.reshape(-1, splitter.num_classes + 1)
    blocks = splitter.classes.reshape(-1, 128)
    matches, start = [], 0
    while start < len(text):
        state, end, at = 1, start, start
        while state:
            if at == len(text):
                character_class = splitter.num_classes
            else:
                point = ord(text[at])
                character_class = int(blocks[splitter.blocks[point >> 7], point & 127])
            transition = int(table[state, character_class])
            if transition & MATCH:
                end = at
            if at == len(text):
                break
            state = transition & ~MATCH
            at += 1
        if end > start:
            matches.append(text[start:end])
        start = max(end, start + 1)
    return matches


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_splits_as_a_backtracking_engine_does(name: str) -> None:
    pattern = PATTERNS[name]
    splitter = compile_automaton(parse_pattern(pattern, ruby_syntax=False))
    small = "aabbccAB12 \n-]"
    chance = np.random.default_rng(3)
    texts = ["".join(chance.choice(list(small), size=n % 14)) for n in range(1500)]
    # Letters that the two engines' Unicode versions know alike.
    texts += [
        "".join(c for c in text if ord(c) < 0x530 or 0x4E00 <= ord(c) < 0x9FA0)
        for text in hostile_strings(300, seed=31)
    ]
    engine = regex.compile(pattern.replace("$", r"\Z").replace(r"\x{20}", " "), regex.V1)
    for text in texts:
        assert split(splitter, text) == [match.group() for match in engine.finditer(text)]


def test_ruby_syntax_reads_braces_and_dollar_in_its_own_way() -> None:
    pattern = r"\d{1,3}+|a{2}?b|x$"
    ruby = compile_automaton(parse_pattern(pattern, ruby_syntax=True))
    rust = compile_automaton(parse_pattern(r"\d{1,3}+|x$", ruby_syntax=False))
    assert split(ruby, "12345") == ["12345"]
    assert split(ruby, "baab") == ["b", "aab"]
    assert split(rust, "12345") == ["123", "45"]
    assert split(ruby, "x\nx") == ["x", "x"]
    assert split(rust, "x\nx") == ["x"]


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        (r"a(?<=b)", "the group (?<="),
        (r"\bword", r"the escape \b"),
        (r"(a)\1", r"the escape \1"),
        (r"(?!ab)c", "a lookahead at more than one character class"),
        (r"(?:ab)++", "a possessive quantifier after more than one character class"),
        (r"a{x}", "the quantifier {x"),
        (r"^a", "'^' instead of an expression"),
        (r"(a", "an unbalanced ("),
        (r"a)", "an unbalanced )"),
        (r"[ab", "an incomplete expression"),
        (r"\p{Nonsense}", "is unknown to the reference tokenizers"),
        (r"a*", "matches the empty text"),
    ],
)
def test_patterns_out_of_reach_are_refused(pattern: str, feature: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        compile_automaton(parse_pattern(pattern, ruby_syntax=False))
    assert feature in str(caught.value)


def _set(*path: str, value: object) -> Callable[[dict], None]:
    def change(document: dict) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def _begin_twice(document: dict) -> None:
    token = document["added_tokens"][0]["content"]
    document["post_processor"] = _template([token, token], token)


def _template(first: list[str], *tokens: str) -> dict:
    """A post-processor that puts special tokens before every text."""
    return {
        "type": "TemplateProcessing",
        "single": [
            *({"SpecialToken": {"id": token, "type_id": 0}} for token in first),
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {token: {"id": token, "ids": [7], "tokens": [token]} for token in tokens},
    }


_CTC = {"pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
_WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}


def _replaces(pattern: str) -> dict:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": "x"}


def _decoders(*steps: dict) -> dict:
    level = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "type": "Sequence",
        "decoders": [{**step, **(level if step["type"] == "ByteLevel" else {})} for step in steps],
    }


@pytest.mark.parametrize(
    ("train", "change", "feature"),
    [
        (train_llama3, _set("decoder", value={"type": "CTC", **_CTC}), "the decoder 'CTC'"),
        (
            train_llama3,
            _set("pre_tokenizer", value={"type": "FixedLength", "length": 5000}),
            "pieces of 5000 characters",
        ),
        (train_llama3, _set("normalizer", value=_replaces("a*")), "matches the empty text"),
        (train_llama3, _set("normalizer", value=_replaces("(?<=a)b")), "the group (?<="),
        (
            train_llama3,
            _set("normalizer", value={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
            "precompiled_charsmap",
        ),
        (
            train_metaspace,
            _set("decoder", value=_decoders({"type": "ByteFallback"}, {"type": "ByteLevel"})),
            "ByteFallback that is not followed by Fuse",
        ),
        (
            train_metaspace,
            _set("decoder", value=_decoders({"type": "Fuse"}, _WORD_PIECE)),
            "the decoder 'WordPiece' after one that joins",
        ),
        (train_llama3, _begin_twice, "several tokens before every text"),
        (train_llama3, _set("model", "vocab", value={}), "is not a valid tokenizer.json"),
        (train_llama3, _set("model", "merges", value=["q"]), "is not a valid tokenizer.json"),
    ],
)
def test_a_tokenizer_json_out_of_reach_is_refused(
    tmp_path: Path, train: Callable[[], str], change: Callable[[dict], None], feature: str
) -> None:
    document = json.loads(train())
    change(document)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(TokenizerError) as caught:
        compile_tokenizer(tmp_path)
    assert feature in str(caught.value)


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(TokenizerError) as caught:
            compile_tokenizer(tmp_path)
        return str(caught.value)

    assert "has no tokenizer" in refusal()
    vocab = tmp_path / "vocab.json"
    vocab.write_text('{"a": 0}')
    assert "merges.txt" in refusal()
    model = tmp_path / "tokenizer.model"
    model.write_bytes(b"IQ== 0\nIg== 1\nnot base64 2\n")
    assert "line 3" in refusal()
    model.write_bytes(b"IQ== 0\nIg== 2\n")
    assert "without a gap" in refusal()
    model.write_bytes(b"IQ== 0\n")
    assert "no token for some single byte" in refusal()
    model.write_bytes(b"\n\xff\xff")
    assert "not a readable SentencePiece model" in refusal()
    model.write_bytes(b"\x00\x01")
    assert "not a known kind of tokenizer" in refusal()
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    assert "cannot be read as JSON" in refusal()
    with pytest.raises(TokenizerError, match="cannot be read"):
        compile_tokenizer(tmp_path / "absent")
    with pytest.raises(TokenizerError, match="cannot be read as JSON"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "is only a Git LFS pointer" in refusal()


def write_ranks(path: Path, count: int) -> None:
    """Ranks of all single bytes, and of pairs of them up to `count`."""
    single = [bytes([value]) for value in range(256)]
    pairs = (a + b + c for a in single for b in single for c in (b"", b"a", b"b"))
    tokens = [*single, *islice(pairs, count - 256)]
    lines = (f"{b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens))
    path.write_text("\n".join(lines))


def test_tiktoken_ranks_of_an_unknown_model_are_refused(tmp_path: Path) -> None:
    write_ranks(tmp_path / "tokenizer.model", 256)
    with pytest.raises(TokenizerError, match="256 tiktoken ranks; only Llama 3's 128000 and Qwen"):
        compile_tokenizer(tmp_path)


@pytest.mark.check
def test_qwens_ranks(tmp_path: Path, cpp_build: Path) -> None:
    """As many ranks as Qwen's file has are read as its code does: form C, single digits."""
    write_ranks(tmp_path / "qwen.tiktoken", 151643)
    compiled = compile_tokenizer(tmp_path)
    assert (compiled.bos_id, compiled.eos_ids) == (None, [151643, 151645])
    assert compiled.vocab_size == 151851
    blob = tmp_path / "blob"
    blob.write_bytes(compiled.data)
    cpp, reference = CppTokenizer(cpp_build, blob), load_tokenizer(tmp_path)
    texts = hostile_strings(500, seed=41)
    ids = [reference.encode(text) for text in texts]
    assert cpp.encode(texts) == ids
    assert cpp.decode(ids) == [reference.decode(one) for one in ids]
    assert cpp.encode(["<|im_start|>a<|extra_204|>"], parse_special=True) == [[151644, 97, 151850]]


def test_a_model_file_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    with pytest.raises(TokenizerError, match=r"only as vocab.txt: write its tokenizer.json with"):
        compile_tokenizer(tmp_path)
    (tmp_path / "spiece.model").write_bytes(train_sentencepiece(model_type="unigram"))
    assert compile_tokenizer(tmp_path).bos_id == 1
    (tmp_path / "other.model").write_bytes(b"x")
    with pytest.raises(TokenizerError, match=r"several tokenizers \(other.model, spiece.model\)"):
        compile_tokenizer(tmp_path)


def test_pieces_of_spaces_that_are_removed_are_refused(tmp_path: Path) -> None:
    """SentencePiece keeps the spaces of such a piece; others of them go."""
    train = partial(train_sentencepiece, user_defined_symbols=["  "])
    model = tmp_path / "tokenizer.model"
    model.write_bytes(train(remove_extra_whitespaces=False))
    assert compile_tokenizer(tmp_path).bos_id == 1
    model.write_bytes(train(remove_extra_whitespaces=True))
    with pytest.raises(TokenizerError, match="several spaces, but removes extra spaces, which is"):
        compile_tokenizer(tmp_path)


def test_hash_tables_hold_what_they_were_given() -> None:
    chance = np.random.default_rng(1)
    pairs = {tuple(pair) for pair in chance.integers(0, 5000, size=(2000, 2)).tolist()}
    merges = [(*pair, rank, rank + 7) for rank, pair in enumerate(sorted(pairs))]
    slots, homes = merge_table(merges)
    used = [tuple(row) for row in slots.reshape(-1, 4).tolist() if row[0] != EMPTY]
    assert sorted(used) == merges
    assert slots[-4] == EMPTY
    assert homes == len(merges) * 3 // 2

    words = [b"", b"a", b"ab", bytes(300)]
    table, _ = word_table({words[number]: number for number in (3, 1, 2)})
    assert sorted(table[table != EMPTY].tolist()) == [1, 2, 3]
    assert table[-1] == EMPTY
    assert merge_table([])[0].tolist() == [EMPTY] * 4


def test_the_models_own_configs_say_what_ends_a_text(tmp_path: Path) -> None:
    """Wherever the tokenizer lies; where the model has none, those beside the tokenizer do."""
    tokenizer, model = tmp_path / "tokenizer", tmp_path / "model"
    tokenizer.mkdir()
    model.mkdir()
    (tokenizer / "tokenizer.json").write_text(train_llama3(), encoding="utf-8")
    (tokenizer / "generation_config.json").write_text('{"eos_token_id": 4}')
    assert compile_tokenizer(tokenizer, model).eos_ids == [4]
    (model / "config.json").write_text('{"eos_token_id": 2, "bos_token_id": 6}')
    (model / "generation_config.json").write_text('{"eos_token_id": [2, 5]}')
    compiled = compile_tokenizer(tokenizer, model)
    assert (compiled.eos_ids, compiled.bos_id) == ([2, 5], 0)  # what the post_processor puts first


def test_a_bos_that_no_added_token_is(tmp_path: Path) -> None:
    document = json.loads(train_llama3())
    begin = document["added_tokens"][0]["content"]
    document["model"]["vocab"].setdefault(begin, len(document["model"]["vocab"]))
    bos_id = document["model"]["vocab"][begin]
    document["added_tokens"] = []
    document["post_processor"] = _template([begin], begin)
    document["post_processor"]["special_tokens"][begin]["ids"] = [bos_id]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    for named in (begin, None, "no such token"):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": named}))
        spec = read_specification(tmp_path)
        assert (spec.bos_id, spec.adds_bos) == (bos_id, True), named
