"""Tokenizers of `tokenizers` over the whole space of its options, each made from a seed."""

import io
import json
import random
from functools import cache
from typing import Any

import sentencepiece
from support.trained_tokenizers import training_text
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

_BEHAVIORS = ("isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next")
_PATTERNS = (
    r"\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+",
    r"\s+",
    r"\d",
    r"\w+",
    r"[[:punct:]]",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)| ?\p{L}+| ?[^\s\p{L}]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?\p{Lu}+",
    r"a+b?|(?=x)x",
)
_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")
_BYTE_TOKENS = tuple(f"<0x{value:02X}>" for value in range(256))
_NAMES = ("<s>", "</s>", "<unk>", "[UNK]", "<mask>", "<tool_call>", "<|im_start|>", "été", "the")


@cache
def corpus() -> list[str]:
    """Some of the training text, in pieces; Unigram's trainer takes long for more."""
    lines = [line for text in training_text() for line in text.splitlines() if line.strip()]
    return random.Random(1).sample(lines, 400) + [text[:400] for text in training_text()[-4:]]


@cache
def charsmap(name: str) -> bytes:
    """SentencePiece's own map of a normalization, out of a model that it trains with it."""
    model = train_sentencepiece(model_type="char", normalization_rule_name=name)
    proto: Any = sentencepiece.sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def train_sentencepiece(**options: object) -> bytes:
    """A SentencePiece model with these options of its trainer."""
    model = io.BytesIO()
    settings = {
        "vocab_size": 500,
        "hard_vocab_limit": False,
        "minloglevel": 2,
        "num_threads": 1,
        **options,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, **settings
    )
    return model.getvalue()


def random_sentencepiece(seed: int) -> tuple[dict[str, object], bytes]:
    """The options of a SentencePiece model, and the model."""
    chance = random.Random(f"sentencepiece {seed}")

    def coin() -> bool:
        return chance.random() < 0.5

    kind = chance.choice(("unigram", "bpe", "unigram", "bpe", "char", "word"))
    options: dict[str, object] = {
        "model_type": kind,
        "byte_fallback": coin() and kind != "word",
        "add_dummy_prefix": coin(),
        "remove_extra_whitespaces": coin(),
        "normalization_rule_name": chance.choice(("identity", "nmt_nfkc", "nfkc", "nfkc_cf")),
        "treat_whitespace_as_suffix": chance.random() < 0.25,
        "split_digits": coin(),
        "split_by_whitespace": chance.random() < 0.8,
        "allow_whitespace_only_pieces": coin() and kind != "word",
        "character_coverage": chance.choice((1.0, 0.98)),
        "user_defined_symbols": chance.choice(([], ["<sep>", "foo bar", "the", "12"])),
        "control_symbols": chance.choice(([], ["<tool>"])),
        "unk_surface": chance.choice((" \u2047 ", "?", "")),
        "vocab_size": chance.choice((400, 700)),
    }
    if kind == "word":
        options["vocab_size"] = 300
    if options["byte_fallback"]:
        options["vocab_size"] = int(str(options["vocab_size"])) + 256
    return options, train_sentencepiece(**options)


def random_tokenizer(seed: int) -> str:
    """The text of a `tokenizer.json`."""
    chance = random.Random(f"tokenizer {seed}")
    kind = chance.choice(("BPE", "BPE", *_MODELS))
    tokenizer = Tokenizer(_model(kind))
    if chance.random() < 0.75:
        tokenizer.normalizer = _some(chance, _normalizer, normalizers.Sequence)
    if chance.random() < 0.85:
        tokenizer.pre_tokenizer = _some(chance, _pre_tokenizer, pre_tokenizers.Sequence)
    tokenizer.train_from_iterator(corpus(), _trainer(chance, kind))
    decoder = _decoder(chance)
    if decoder is not None:
        tokenizer.decoder = decoder
    if chance.random() < 0.5:
        tokenizer.add_tokens([_added_token(chance, name) for name in chance.sample(_NAMES, 3)])
        tokenizer.add_special_tokens(["<|im_end|>", _added_token(chance, "<pad>")])
        template = processors.TemplateProcessing(
            single="<pad> $A", special_tokens=[("<pad>", tokenizer.token_to_id("<pad>"))]
        )
        tokenizer.post_processor = template
    document = json.loads(tokenizer.to_str())
    _change_model(chance, document["model"])
    return json.dumps(document)


@cache
def first_random_tokenizer(kind: str) -> str:
    """The one of the lowest seed with such a model or, if no model is of that name, such a step."""
    for seed in range(100):
        document = random_tokenizer(seed)
        model = json.loads(document)["model"]["type"]
        if model == kind or (kind not in _MODELS and f'"type": "{kind}"' in document):
            return document
    raise ValueError(f"no tokenizer of the first 100 has a {kind}")


def _model(kind: str) -> Any:
    if kind in ("WordPiece", "WordLevel"):
        return getattr(models, kind)(unk_token="[UNK]")
    return getattr(models, kind)()


def _trainer(chance: random.Random, kind: str) -> Any:
    options: dict[str, Any] = {"vocab_size": chance.choice((150, 400)), "show_progress": False}
    options["special_tokens"] = chance.sample(["<s>", "[UNK]", "<unk>"], 3)
    if kind == "Unigram":
        return trainers.UnigramTrainer(unk_token="<unk>", **options)
    if kind == "WordPiece":
        if chance.random() < 0.3:
            options["continuing_subword_prefix"] = chance.choice(("@@", "é"))
        return trainers.WordPieceTrainer(**options)
    if kind == "WordLevel":
        return trainers.WordLevelTrainer(**options)
    if chance.random() < 0.4:
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    options["limit_alphabet"] = chance.choice((60, 300))
    if chance.random() < 0.2:
        options["continuing_subword_prefix"] = "##"
    if chance.random() < 0.2:
        options["end_of_word_suffix"] = "</w>"
    return trainers.BpeTrainer(**options)


def _change_model(chance: random.Random, model: dict[str, Any]) -> None:
    """Settings that no trainer makes."""
    if model["type"] == "BPE":
        model["unk_token"] = chance.choice((None, "<unk>", "[UNK]", "a"))
        model["fuse_unk"] = chance.random() < 0.5
        model["ignore_merges"] = chance.random() < 0.3
        model["dropout"] = chance.choice((None, None, 0.0))
    if model["type"] == "WordPiece" and chance.random() < 0.3:
        model["max_input_chars_per_word"] = chance.choice((3, 8))
    if model["type"] not in ("BPE", "Unigram"):
        return
    model["byte_fallback"] = chance.random() < 0.5
    tokens = chance.choice(((), _BYTE_TOKENS, _BYTE_TOKENS[:128], chance.sample(_BYTE_TOKENS, 200)))
    if model["type"] == "Unigram":
        model["vocab"] += [[token, -20.0] for token in tokens]
    else:
        vocab = model["vocab"]
        vocab |= {token: len(vocab) + at for at, token in enumerate(tokens)}


def _some(chance: random.Random, make: Any, sequence: Any) -> Any:
    count = chance.choice((1, 1, 2, 3))
    parts = [make(chance) for _ in range(count)]
    return parts[0] if count == 1 else sequence(parts)


def _normalizer(chance: random.Random) -> Any:
    kind = chance.choice(
        (
            *("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip", "Prepend"),
            *("Replace", "Replace", "Precompiled", "BertNormalizer", "ByteLevel"),
        )
    )
    if kind == "Strip":
        return normalizers.Strip(left=chance.random() < 0.5, right=chance.random() < 0.5)
    if kind == "Prepend":
        return normalizers.Prepend(chance.choice(("▁", "x ", "é")))
    if kind == "Replace":
        pattern = chance.choice(
            (" ", "a", "  ", "é", Regex(r"\s+"), Regex(" {2,}"), Regex("[0-9]"))
        )
        return normalizers.Replace(pattern, chance.choice(("▁", "", " ", "ab")))
    if kind == "Precompiled":
        return normalizers.Precompiled(charsmap(chance.choice(("nmt_nfkc", "nfkc_cf"))))
    if kind == "BertNormalizer":
        return normalizers.BertNormalizer(
            clean_text=chance.random() < 0.5,
            handle_chinese_chars=chance.random() < 0.5,
            strip_accents=chance.choice((None, True, False)),
            lowercase=chance.random() < 0.5,
        )
    return getattr(normalizers, kind)()


def _pre_tokenizer(chance: random.Random) -> Any:
    kind = chance.choice(
        (
            *("ByteLevel", "ByteLevel", "Split", "Split", "Whitespace", "WhitespaceSplit"),
            *("Punctuation", "Digits", "Metaspace", "Metaspace", "BertPreTokenizer"),
            *("CharDelimiterSplit", "UnicodeScripts", "FixedLength"),
        )
    )
    if kind == "ByteLevel":
        return pre_tokenizers.ByteLevel(
            add_prefix_space=chance.random() < 0.5, use_regex=chance.random() < 0.7
        )
    if kind == "Split":
        pattern = chance.choice((*map(Regex, _PATTERNS), " ", "an", "▁"))
        return pre_tokenizers.Split(
            pattern, chance.choice(_BEHAVIORS), invert=chance.random() < 0.3
        )
    if kind == "Punctuation":
        return pre_tokenizers.Punctuation(chance.choice(_BEHAVIORS))
    if kind == "Digits":
        return pre_tokenizers.Digits(individual_digits=chance.random() < 0.5)
    if kind == "Metaspace":
        return pre_tokenizers.Metaspace(
            replacement=chance.choice(("▁", "▁", "_", "é")),
            prepend_scheme=chance.choice(("always", "first", "never")),
            split=chance.random() < 0.6,
        )
    if kind == "CharDelimiterSplit":
        return pre_tokenizers.CharDelimiterSplit(chance.choice((" ", "a", "中")))
    if kind == "FixedLength":
        return pre_tokenizers.FixedLength(chance.choice((1, 5)))
    return getattr(pre_tokenizers, kind)()


def _decoder(chance: random.Random) -> Any:
    replace = decoders.Replace("▁", " ")
    strip = decoders.Strip(" ", chance.choice((0, 1, 2)), 0)
    choices = (
        None,
        decoders.ByteLevel(),
        decoders.Metaspace("▁", prepend_scheme=chance.choice(("always", "first", "never"))),
        decoders.WordPiece(cleanup=chance.random() < 0.5),
        decoders.WordPiece(prefix="@@", cleanup=chance.random() < 0.5),
        decoders.BPEDecoder(suffix="</w>"),
        decoders.Fuse(),
        decoders.Sequence([replace, decoders.ByteFallback(), decoders.Fuse(), strip]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), replace]),
        decoders.Sequence([decoders.Replace(Regex("[a-c]+"), "x"), strip]),
        decoders.Sequence([decoders.Fuse(), decoders.Metaspace("▁"), strip]),
        decoders.Sequence([decoders.ByteLevel(), decoders.Strip("x", 1, 2)]),
    )
    return chance.choice(choices)


def _added_token(chance: random.Random, name: str) -> AddedToken:
    flags = {flag: chance.random() < 0.4 for flag in ("lstrip", "rstrip", "single_word")}
    return AddedToken(name, normalized=chance.random() < 0.5, **flags)
